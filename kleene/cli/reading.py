"""The store as ``trace``, ``runs`` and ``memo stats`` read it: never written, also while another process holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.cli.exits import misconfigured
from kleene.cli.invocation import Invocation
from kleene.planner.errors import StoreLocked
from kleene.rendering.rows import Table

if TYPE_CHECKING:
    import duckdb


@contextmanager
def reading(inv: Invocation, *, whole: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that has the store's tables. A store that is not there yet, or cannot be read, is a ``UsageError``.

    While another process holds the store its trace is read from the event file, which is said; the rest is not there, so that with
    ``whole`` a held store is ``StoreLocked``.
    """
    from kleene.store import open_readonly

    notes: list[str] = []
    with misconfigured():
        con = open_readonly(inv.store, say=notes.append)
    try:
        if whole and notes:
            raise StoreLocked(notes[0].partition(":")[0], hint="try again when it has ended")
        for note in notes:
            inv.terminal.say(f"note: {note}")
        yield con
    finally:
        con.close()


def print_query(inv: Invocation, text: str, *, whole: bool = False) -> None:
    """Run plain DuckDB SQL on the store and print its rows. DuckDB's errors are passed on as they are."""
    with reading(inv, whole=whole) as con:
        relation = con.sql(text)
        if relation is not None:
            inv.write(Table.of(relation))
