"""Kleene: SQL for model calls, run by DuckDB."""

from __future__ import annotations

from pathlib import Path

_here = Path(__file__).resolve().parent
# In a checkout, planner/ and udfs/ lie beside this folder; in a wheel they lie inside it.
if not (_here / "planner").is_dir() and (_here.parent / "planner").is_dir():
    __path__.append(str(_here.parent))

__version__ = "0.1.0"
