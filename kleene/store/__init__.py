"""The store: one DuckDB file with memo, trace and sessions, the writer that fills the trace, and readers for a second process."""

from __future__ import annotations

from kleene.store.store import Store

__all__ = ["Store"]
