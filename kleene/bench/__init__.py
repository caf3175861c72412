"""Benches: packs of tasks with known answers, generators that make them, oracles that decide, and the runs that measure.

``pack`` reads packs, ``generators`` make tasks from (dial, seed), ``oracles`` judge answers, ``runner`` runs and ``report`` sums up.
"""

from __future__ import annotations
