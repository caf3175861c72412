"""The store for those who only read: its file where nobody holds it, else what the event file beside it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from kleene.planner.errors import ConfigError
from kleene.store.eventfile import events_path, older, read_parts
from kleene.store.mapping import Batch
from kleene.store.opening import HOLDER, explain
from kleene.store.schema import TRACE
from kleene.store.seal import Origin
from kleene.store.store import lock_down
from kleene.udfs.memo import registered

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CATALOG = "store"
BUSY = ("Could not set lock", "already attached", "Unique file handle conflict")


def open_readonly(path: str | Path, *, say: Callable[[str], None] | None = None) -> DuckDBPyConnection:
    """A connection in memory, locked, on which the store's tables are found by their plain names. The caller closes it.

    While another process holds the store, the trace tables are rebuilt from the event file, where the user's seal says whose it is, and ``say``
    is told so in a sentence; the memo and other tables are then missing. Raises ``ConfigError`` where there is no store, or its file cannot be read.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise ConfigError(
            f"there is no store at {place}", hint="it is made by the first run; --store names another place"
        )
    origin = Origin.of(place)
    con = duckdb.connect(":memory:")
    try:
        try:
            attach(con, place)
            if say is not None and not origin.believes(con):
                say("the store was not made by you at this place: what it says is somebody else's word")
        except duckdb.Error as error:
            if not any(sign in str(error) for sign in BUSY):
                raise explain(place, str(error)) from error
            rebuild(con, believed(place, origin))
            if say is not None:
                say(note(place, origin, str(error)))
        lock_down(con)
    except BaseException:
        con.close()
        raise
    return con


def attach(con: DuckDBPyConnection, path: Path) -> None:
    """Attaches the file, read-only, and makes it the default."""
    quoted = str(path).replace("'", "''")
    con.execute(f"ATTACH '{quoted}' AS {CATALOG} (READ_ONLY)")
    con.execute(f"USE {CATALOG}")


def believed(path: Path, origin: Origin) -> list[Path]:
    """The event files of a store that are its own, the older first."""
    events = events_path(path)
    return [part for part in (older(events), events) if origin.wrote(part)]


def rebuild(con: DuckDBPyConnection, parts: Sequence[Path]) -> None:
    """Makes the trace tables of the events in these files, as the trace's writer would have."""
    batch = Batch(TRACE)
    for event in read_parts(parts):
        batch.add(event)
    for table in TRACE:
        con.execute(table.ddl())
    for table, rows in batch.tables():
        with registered(con, "kleene_rebuilt", rows):
            con.execute(f"INSERT INTO {table.name} BY NAME SELECT * FROM kleene_rebuilt")


def note(path: Path, origin: Origin, text: str) -> str:
    """What the reader is told about a rebuilt trace."""
    found = HOLDER.search(text)
    holder = f"process {found[2]}" if found else "another connection"
    events = events_path(path)
    if believed(path, origin):
        return f"the store is in use by {holder}: the trace is read from {events.name}, which may not go back to its beginning"
    if events.exists() or older(events).exists():
        return f"the store is in use by {holder}, and {events.name} was not written by you at this place: the trace is empty"
    return f"the store is in use by {holder} and has no event file yet: the trace is empty"
