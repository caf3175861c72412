"""The store as ``trace``, ``runs`` and ``memo stats`` read it: never written, also while another process holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.cli.exits import UsageError
from kleene.cli.invocation import Invocation
from kleene.cli.rows import Table

if TYPE_CHECKING:
    import duckdb


@contextmanager
def reading(inv: Invocation) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that has the store's tables. A store that is not there yet is a ``UsageError``."""
    from kleene.store import open_readonly

    if not inv.store.exists():
        raise UsageError(
            f"there is no store at {inv.store}",
            hint="it is made by the first statement that makes a call; --store names another place",
        )
    con = open_readonly(inv.store)
    try:
        yield con
    finally:
        con.close()


def print_query(inv: Invocation, text: str) -> None:
    """Run plain DuckDB SQL on the store and print its rows. DuckDB's errors are passed on as they are."""
    with reading(inv) as con:
        relation = con.sql(text)
        if relation is not None:
            inv.write(Table.of(relation))
