"""Relations, plans and usage as people and programs read them: tables, lines, HTML. Everything above prints through it."""

from __future__ import annotations
