"""Opens the store's file with DuckDB, and says in plain words why it cannot."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from kleene.planner.errors import ConfigError, KleeneError, StoreLocked
from kleene.store.eventfile import events_path
from kleene.store.folder import beside, wal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from kleene.store.seal import Origin

HOLDER = re.compile(r"Conflicting lock is held in (.*?) \(PID (\d+)\)")
CORRUPT = re.compile(
    r"not a valid DuckDB database file|[Cc]orrupt|checksum|Failure while replaying WAL|[Ss]erialization|INTERNAL"
)
NEWER = re.compile(r"database file with version|newer version|storage version", re.IGNORECASE)
SHARED = re.compile(r"different configuration|already attached|Unique file handle conflict")
LOCK_POLL_S = 0.05
OURS: dict[str, str | bool | int | float | list[str]] = {"custom_user_agent": "kleene-store"}
"""A setting that a database the user opened does not have: DuckDB then refuses the file, where it would share the instance, which the
store locks for good."""


def connect(
    path: Path, *, lock_wait_s: float = 0.0, read_only: bool = False, origin: Origin | None = None
) -> DuckDBPyConnection:
    """Opens the file, waiting up to ``lock_wait_s`` seconds while another process holds it.

    Raises ``StoreLocked`` after that, and ``ConfigError`` on anything else. A corrupt file that is ``origin``'s store is renamed first, never
    deleted; anybody else's stays as it is.
    """
    end = time.monotonic() + lock_wait_s
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=OURS)
        except duckdb.Error as error:
            text = str(error)
            if "Could not set lock" not in text:
                raise explain(path, text, origin) from error
            if time.monotonic() >= end:
                raise locked(path, text) from error
        time.sleep(LOCK_POLL_S)


def locked(path: Path, text: str) -> StoreLocked:
    """The error for a store that another process holds; ``text`` is DuckDB's, which names the process."""
    found = HOLDER.search(text)
    holder = f"process {found[2]} ({Path(found[1]).name})" if found else "another process"
    return StoreLocked(
        f"the store {path} is in use by {holder}",
        pid=int(found[2]) if found else None,
        hint="wait for it with --lock-wait SECONDS, or use another store with --store PATH; trace and runs work meanwhile",
    )


def explain(path: Path, text: str, origin: Origin | None = None) -> KleeneError:
    """The error for a file that DuckDB does not open. Renames a corrupt store of ``origin``'s; any other file is left alone."""
    text = text.replace(str(path.resolve()), path.name).replace(str(path), path.name)  # a folder may be called corrupt
    if NEWER.search(text) and not text.startswith("Corrupt"):
        return ConfigError(
            f"the store {path} was written by a newer DuckDB",
            hint="upgrade kleene, or use another store with --store PATH",
        )
    if SHARED.search(text):
        return ConfigError(
            f"the store {path} is open in this process as a database of its own",
            hint="close that connection, or use another store with store=PATH; the database of your data cannot be the store",
        )
    if not CORRUPT.search(text):
        return ConfigError(
            f"the store {path} cannot be opened: {first_line(text)}", hint="use another store with --store PATH"
        )
    made = is_made_here(path) or (origin is not None and origin.wrote(events_path(path)))
    if not made and not is_duckdb(path):
        return ConfigError(
            f"{path} is not a DuckDB database", hint="it was left as it is; use another store with --store PATH"
        )
    if origin is None or not made:
        return ConfigError(
            f"the store {path} is corrupt: {first_line(text)}",
            hint="open it for writing once: it is then set aside"
            if made
            else "it was left as it is; move it away, or use another store with --store PATH",
        )
    aside = beside(path, ".corrupt")
    path.rename(aside)
    if wal(path).exists():
        wal(path).rename(wal(aside))
    return ConfigError(
        f"the store {path} is corrupt and was set aside as {aside.name}: {first_line(text)}",
        hint="run the command again: it begins with an empty store",
    )


def is_made_here(path: Path) -> bool:
    """Whether a file that cannot be read lies where nothing but stores is made."""
    return path.absolute().parent.name == ".kleene"


def is_duckdb(path: Path) -> bool:
    """Whether a file begins as DuckDB's do."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:12] == b"DUCK"
    except OSError:
        return False


def first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"
