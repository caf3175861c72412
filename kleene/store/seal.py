"""Who made a store, and where: a seal, the HMAC (RFC 2104, SHA-256) of the store's own random name and its real path under a key that lies in the
user's configuration and leaves it never. Nobody else can write one, and a copy of a sealed store is none at another path.

An event file begins with a seal of the same kind, of its store's path: it is read while the store is locked and cannot speak for it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import duckdb

from kleene.config import config_dir
from kleene.planner.errors import ConfigError
from kleene.store.contents import has_table
from kleene.store.eventfile import SEALED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KEY_FILE = "store.key"
KEY_BYTES = 32
ORIGIN_TABLE = "kleene_origin"


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
        return self._sign("kleene store", name)

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

    def head(self) -> dict[str, str] | None:
        """The first event of an event file that belongs to the store at this path. None without a key."""
        return None if self.key is None else {"event": SEALED, "seal": self._sign("kleene events")}

    def wrote(self, events: Path) -> bool:
        """Whether an event file begins with this head."""
        try:
            with events.open("rb") as file:
                first = json.loads(file.readline(4096))
        except (OSError, ValueError, RecursionError):
            return False
        if self.key is None or not isinstance(first, dict) or first.get("event") != SEALED:
            return False
        return hmac.compare_digest(self._sign("kleene events").encode(), _bytes(str(first.get("seal"))))

    def _sign(self, *what: str) -> str:
        assert self.key is not None
        return hmac.new(self.key, _bytes("\0".join((*what, self.path))), hashlib.sha256).hexdigest()


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read(file: Path) -> bytes | None:
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        return None
    return key if len(key) == KEY_BYTES else None
