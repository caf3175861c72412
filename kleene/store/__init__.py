"""The store: one DuckDB file with memo, trace and sessions, the writer that fills the trace, and readers for a second process."""

from __future__ import annotations

from kleene.store.eventfile import read_events
from kleene.store.readonly import open_readonly
from kleene.store.state import State
from kleene.store.store import Store
from kleene.store.writer import TraceWriter

__all__ = ["State", "Store", "TraceWriter", "open_readonly", "read_events"]
