"""Whose store a file is. A checkout may bring one, and its answers would be believed, its runs go on with what they were granted.

So a store says who made it, and where: a seal, the HMAC (RFC 2104, SHA-256) of its own random name and its real path under a key that lies in
the user's configuration and leaves it never. Nobody else can write one, and a copy of a sealed store is none at another path. A store without
the right seal is *foreign*: nothing of it is used until ``trust`` seals it.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import duckdb

from kleene.config import config_dir
from kleene.planner.errors import ConfigError
from kleene.store.contents import has_table
from kleene.store.eventfile import events_path, older
from kleene.store.folder import beside, wal
from kleene.store.opening import connect
from kleene.store.schema import VERSION_TABLE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEY_FILE = "store.key"
KEY_BYTES = 32
ORIGIN_TABLE = "kleene_origin"
FOREIGN = ".foreign"
POLL_S = 0.02


@attrs.frozen
class Origin:
    """Seals the store at one path. ``key`` is None where none can be kept: then no store is believed."""

    path: str
    key: bytes | None = attrs.field(repr=False)

    @classmethod
    def of(cls, path: Path, folder: Path | None = None) -> Origin:
        """The user's key, which is made where there is none yet. ``folder`` is that of the configuration."""
        return cls(os.path.realpath(path), user_key(config_dir() if folder is None else folder))

    def seal(self, name: str) -> str:
        """In hexadecimal. Raises ``ConfigError`` without a key."""
        if self.key is None:
            raise ConfigError("there is no key to seal a store with", hint=f"see whether {config_dir()} can be written")
        return hmac.new(self.key, _bytes(f"kleene store\0{name}\0{self.path}"), hashlib.sha256).hexdigest()

    def believes(self, con: DuckDBPyConnection) -> bool:
        """Whether the store on this connection has the user's seal for this path."""
        if self.key is None or not has_table(con, ORIGIN_TABLE):
            return False
        try:
            rows = con.execute(f"SELECT name, seal FROM main.{ORIGIN_TABLE} LIMIT 10").fetchall()
        except duckdb.Error:
            return False  # it is not what we write
        return any(hmac.compare_digest(self.seal(str(name)).encode(), _bytes(str(seal))) for name, seal in rows)

    def mark(self, con: DuckDBPyConnection) -> None:
        """Put the seal into a store, in place of another. Without a key there is none."""
        if self.key is not None:
            name = secrets.token_hex(16)
            con.execute(f"CREATE TABLE IF NOT EXISTS main.{ORIGIN_TABLE} (name VARCHAR, seal VARCHAR)")
            con.execute(f"DELETE FROM main.{ORIGIN_TABLE}")
            con.execute(f"INSERT INTO main.{ORIGIN_TABLE} VALUES (?, ?)", [name, self.seal(name)])


def user_key(folder: Path) -> bytes | None:
    """The key in the user's configuration, made with the first use; None where it can be neither read nor made. Processes that make it at the same
    moment agree on one."""
    file = folder / KEY_FILE
    with suppress(OSError):
        if (found := _read(file)) is not None:
            return found
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = folder / f".{KEY_FILE}.{secrets.token_hex(8)}"
        try:
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(secrets.token_bytes(KEY_BYTES))
                out.flush()
                os.fsync(out.fileno())
            _name(made, file)
        finally:
            made.unlink(missing_ok=True)
        return _read(file)
    return None


def _name(made: Path, file: Path) -> None:
    """Give the finished key its name, unless another process was first. Where the file system knows no hard links it is renamed: of two that
    are made at the same moment the later one stays, and a store that was sealed between is foreign once."""
    try:
        os.link(made, file)
    except FileExistsError:
        pass
    except OSError:
        if not file.exists():
            made.rename(file)


def connect_to_own(
    path: Path, origin: Origin, *, lock_wait_s: float, tries: int
) -> tuple[DuckDBPyConnection, str | None]:
    """The store's file, opened, and a note where a foreign one was set aside for it. Raises as ``connect`` does."""
    note = None
    for _ in range(tries):
        seen = _inode(path)
        con = connect(path, lock_wait_s=lock_wait_s)
        try:
            foreign = has_table(con, VERSION_TABLE) and not origin.believes(con)
        except BaseException:
            con.close()
            raise
        if not foreign:
            return con, note
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
            return None
        before = beside(path, ".before")
        _move(path, before)
    _move(file, path)
    return before


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read(file: Path) -> bytes | None:
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        return None
    return key if len(key) == KEY_BYTES else None


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
