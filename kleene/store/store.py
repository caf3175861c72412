"""The store: one DuckDB file with the memo, the trace and what sessions leave behind, on an instance that is locked."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import duckdb

from kleene.config import config_dir
from kleene.planner.errors import ConfigError
from kleene.store.contents import contents, has_table
from kleene.store.folder import MEMORY, beside, make_folder, make_private
from kleene.store.opening import connect, explain
from kleene.store.origin import connect_to_own
from kleene.store.schema import MIGRATIONS, VERSION_TABLE, Migration
from kleene.store.seal import Origin
from kleene.udfs.memo import Memo

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPILL = "16 GiB"
LOCKDOWN = (
    "SET memory_limit = '50%'",  # of what this process may have; DuckDB takes 80 % by default
    f"SET max_temp_directory_size = '{SPILL}'",
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
SETUP_TRIES = 20  # two threads may open the same new store at the same moment


class Store:
    """An open store. Engines of one process that open the same path share one DuckDB instance, which ends with the last of them.

    ``path`` and ``origin`` are None in memory. ``notes`` are sentences for the user about what opening did (a migration, say).
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        path: Path | None,
        notes: tuple[str, ...] = (),
        origin: Origin | None = None,
    ):
        self._connection = connection
        self.path = path
        self.origin = origin
        self.notes = notes
        self._memos: list[Memo] = []
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path = ":memory:",
        *,
        lock_wait_s: float = 0.0,
        migrations: tuple[Migration, ...] = MIGRATIONS,
    ) -> Store:
        """Opens or creates the store, its tables brought to the last of ``migrations``.

        A store that the user did not make at this path is set aside (``origin``). Raises ``StoreLocked`` where another process holds it for longer
        than ``lock_wait_s`` seconds, and ``ConfigError`` where the file is corrupt (it is renamed), belongs to something else, or was written
        by a newer version.
        """
        if str(path) == MEMORY:
            con = duckdb.connect(MEMORY)
            prepare(con, 0, migrations)
            return cls(con, None)
        place = Path(path).expanduser()
        make_folder(place)
        origin = Origin.of(place)
        is_new = not place.exists()
        con, set_aside = connect_to_own(place, origin, lock_wait_s=lock_wait_s, tries=SETUP_TRIES)
        try:
            version = read_version(con, place, migrations[-1].version, is_new=is_new)
            notes: tuple[str, ...] = () if set_aside is None else (set_aside,)
            if origin.key is None:
                notes += (
                    f"no key can be kept in {config_dir()}: this store will not be believed when it is opened again",
                )
            if 0 < version < migrations[-1].version:
                con.close()
                copy = copy_of(place, version)
                notes += (
                    f"the store was brought from version {version} to {migrations[-1].version}; {copy.name} is a copy of the old one",
                )
                con = connect(place, lock_wait_s=lock_wait_s, origin=origin)
            prepare(con, version, migrations, origin)
        except duckdb.Error as error:
            con.close()
            raise explain(place, str(error), origin) from error
        except BaseException:
            con.close()
            raise
        make_private(place)
        return cls(con, place.absolute(), notes, origin)

    def cursor(self) -> DuckDBPyConnection:
        """A connection of its own to the instance, for one thread at a time. The caller closes it."""
        return self._connection.cursor()

    def memo(self) -> Memo:
        """The memo table, on cursors of its own, which close with the store."""
        memo = Memo(self._connection)
        self._memos.append(memo)
        return memo

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Closes this door to the instance and the memos it gave; a second call does nothing.

        Cursors that are open elsewhere keep the instance alive, and with it the lock on the file.
        """
        if self._closed:
            return
        self._closed = True
        for memo in self._memos:
            memo.close()
        if self.path is not None:
            make_private(self.path)
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def read_version(con: DuckDBPyConnection, path: Path, known: int, *, is_new: bool = False) -> int:
    """The version of the file's tables, 0 for an empty file, as one that ``is_new`` is: opening it has made it.

    Raises ``ConfigError`` where it is newer than ``known``, or where the file holds tables and no version: somebody else's database.
    """
    if not has_table(con, VERSION_TABLE):
        names = [] if is_new else sorted(held.name for held in contents(con))
        if names:
            # Also a view or a macro alone: it would be run in place of a table or function that is meant.
            raise ConfigError(
                f"{path} is a database that is not a store of kleene (it holds {names[0]})",
                hint="it was left as it is; give the store a file of its own with --store PATH",
            )
        return 0
    row = con.execute(f"SELECT max(version) FROM {VERSION_TABLE}").fetchone()
    version = int(row[0] or 0) if row else 0
    if version > known:
        raise ConfigError(
            f"the store {path} has version {version}, this kleene knows {known}",
            hint="upgrade kleene, or use another store with --store PATH",
        )
    return version


def prepare(
    con: DuckDBPyConnection, version: int, migrations: tuple[Migration, ...], origin: Origin | None = None
) -> None:
    """Runs the migrations above ``version`` in one transaction, then locks the instance. Threads that do so at once agree. ``origin`` seals
    a new store."""
    for attempt in range(SETUP_TRIES):
        try:
            migrate(con, version, migrations, origin)
            break
        except (duckdb.TransactionException, duckdb.CatalogException, duckdb.ConstraintException):
            if attempt == SETUP_TRIES - 1:
                raise
            time.sleep(0.01)
            if has_table(con, VERSION_TABLE):
                found = con.execute(f"SELECT max(version) FROM {VERSION_TABLE}").fetchone()
                version = int(found[0] or 0) if found else version
    lock_down(con)


def migrate(
    con: DuckDBPyConnection, version: int, migrations: tuple[Migration, ...], origin: Origin | None = None
) -> None:
    """One transaction: all steps above ``version`` or none."""
    steps = [m for m in migrations if m.version > version]
    if not steps:
        return
    con.execute("BEGIN")
    try:
        con.execute(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (version INTEGER PRIMARY KEY, migrated_at TIMESTAMP)")
        if version == 0 and origin is not None:
            origin.mark(con)
        now = int(time.time() * 1e6)
        done = ", ".join(f"({step.version}, make_timestamp({now}))" for step in steps)
        statements = [s for step in steps if version or not step.in_first for s in step.statements]
        # One text: twenty tables take half as long as one by one, and every start in memory makes them.
        con.execute(";\n".join([*statements, f"INSERT INTO {VERSION_TABLE} VALUES {done}", "COMMIT"]))
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            con.execute("ROLLBACK")
        raise


def lock_down(con: DuckDBPyConnection) -> None:
    """Shuts files, settings and Python's variables out of the instance, for good, and bounds what a model's SQL may take of memory and disk.
    On a locked instance it does nothing."""
    try:
        con.execute("; ".join(LOCKDOWN))
    except duckdb.Error:
        row = con.execute("SELECT current_setting('lock_configuration')").fetchone()
        if not (row and row[0]):
            raise


def copy_of(path: Path, version: int) -> Path:
    """Copies the closed file, once DuckDB has written its log into it on closing, and says where."""
    copy = beside(path, f".v{version}")
    shutil.copy2(path, copy)
    make_private(copy)
    return copy
