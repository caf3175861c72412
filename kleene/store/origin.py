"""What becomes of a store that the user did not make here. A checkout may bring one, and its answers would be believed, its runs go on with what they
were granted. So a store without the right seal (``seal``) is *foreign*: nothing of it is used until ``trust`` seals it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.config import config_dir
from kleene.planner.errors import ConfigError
from kleene.store.contents import has_table
from kleene.store.eventfile import events_path, line, older
from kleene.store.folder import beside, wal
from kleene.store.opening import connect
from kleene.store.schema import VERSION_TABLE
from kleene.store.seal import Origin

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOREIGN = ".foreign"
POLL_S = 0.02


def connect_to_own(
    path: Path, origin: Origin, *, lock_wait_s: float, tries: int
) -> tuple[DuckDBPyConnection, str | None]:
    """The store's file, opened, and a note where a foreign one, or foreign events, were set aside for it. Raises as ``connect`` does."""
    note = None
    for _ in range(tries):
        seen = _inode(path)
        con = connect(path, lock_wait_s=lock_wait_s, origin=origin)
        try:
            foreign = has_table(con, VERSION_TABLE) and not origin.believes(con)
        except BaseException:
            con.close()
            raise
        if not foreign:
            return con, note or set_events_aside(path, origin)
        con.close()
        if origin.key is None:  # it may well be the user's: nobody can tell
            raise ConfigError(
                f"whether the store {path} is yours cannot be told: there is no key in {config_dir()}",
                hint="set KLEENE_CONFIG_DIR to a folder that can be written, or use a store in memory: --store :memory:",
            )
        note = set_aside(path, seen) or note
        time.sleep(POLL_S)  # while another thread still has the foreign file open, DuckDB gives that one for the path
    raise ConfigError(f"the store {path} is foreign and cannot be set aside", hint="use another one with --store PATH")


def set_aside(path: Path, seen: int | None) -> str | None:
    """Rename a foreign store, with its log and its events, unless another thread or process did so meanwhile. A sentence for the user."""
    with _alone(path.parent):
        if seen is None or _inode(path) != seen:
            return None
        aside = beside(path, FOREIGN)
        _move(path, aside)
    return (
        f"the store {path.name} was not made by you at this place (a checkout, a copy or a moved folder brings such): nothing of it is used, and it was "
        f"set aside as {aside.name}; if it is yours: python -m kleene memo trust"
    )


def set_events_aside(path: Path, origin: Origin) -> str | None:
    """Rename event files that nobody wrote for this store: a checkout may bring them alone. A sentence for the user."""
    files = [f for f in (events_path(path), older(events_path(path))) if f.exists()]
    if origin.key is None or all(map(origin.wrote, files)):
        return None
    with _alone(path.parent):
        moved = [f.rename(beside(f, FOREIGN)).name for f in files if f.exists() and not origin.wrote(f)]
    if not moved:  # another thread was first
        return None
    return f"events beside the store {path.name} were not written by you at this place: set aside as {', '.join(moved)}"


def _move(path: Path, to: Path) -> None:
    """Rename a store that nobody has open, with its log and its event files."""
    path.rename(to)
    events = (events_path(path), events_path(to))
    for file, place in ((wal(path), wal(to)), events, (older(events[0]), older(events[1]))):
        with suppress(FileNotFoundError):
            file.rename(place)


def untrusted(path: Path) -> Path | None:
    """The file that ``trust`` is about: the store itself where it is foreign, else the last one that was set aside for it."""
    if path.exists():
        with connect(path) as con:
            if has_table(con, VERSION_TABLE) and not Origin.of(path).believes(con):
                return path
    aside = [
        f for f in path.parent.glob(f"{path.name}{FOREIGN}*") if not re.search(r"\.(wal|events\.jsonl.*)$", f.name)
    ]
    return max(aside, key=lambda f: f.stat().st_mtime_ns, default=None)


def trust(path: Path, file: Path) -> Path | None:
    """Seal a foreign store for this path, and put it there. What was there goes aside: its new place, None where nothing was.

    Raises ``ConfigError`` where the file is no store, or no key can be kept.
    """
    origin = Origin.of(path)
    origin.seal("")
    with connect(file) as con:
        if not has_table(con, VERSION_TABLE):
            raise ConfigError(f"{file} is not a store of kleene")
        con.execute("BEGIN")
        origin.mark(con)
        con.execute("COMMIT")
    before = None
    if path.exists():
        if path.samefile(file):  # however it is spelled
            _adopt(path, origin)
            return None
        before = beside(path, ".before")
        _move(path, before)
    _move(file, path)
    _adopt(path, origin)
    return before


def _adopt(path: Path, origin: Origin) -> None:
    """Put the seal before the events of a store."""
    head = origin.head()
    for file in (events_path(path), older(events_path(path))):
        if head is not None and file.exists() and not origin.wrote(file):
            sealed = beside(file, ".sealed")
            with (
                file.open("rb") as events,
                open(os.open(sealed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out,
            ):
                out.write(line(head))
                shutil.copyfileobj(events, out)
            sealed.replace(file)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time of all who do this in a folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
