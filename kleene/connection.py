"""One DuckDB connection that Kleene runs statements on: in a worker thread, so that the caller's thread stays interruptible."""

from __future__ import annotations

import contextvars
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

import attrs
import duckdb
import pyarrow as pa

from kleene.planner.errors import BusyConnection, KleeneError, PlanError
from kleene.planner.views import View
from kleene.udfs.walls import alarm

T = TypeVar("T")
Params = Sequence[Any] | Mapping[str, Any] | None
MARK = "kleene_nothing_pending"
CLOCKS = {
    "now": "now()",
    "current_timestamp": "now()",
    "transaction_timestamp": "now()",
    "get_current_timestamp": "now()",
    "today": "today()",
    "current_date": "current_date",
    "get_current_date": "current_date",
    "current_time": "get_current_time()",
    "get_current_time": "get_current_time()",
    "current_localtime": "current_localtime()",
    "localtime": "current_localtime()",
    "current_localtimestamp": "current_localtimestamp()",
    "localtimestamp": "current_localtimestamp()",
}

VIEWS = """
SELECT name, sql FROM (
    SELECT view_name AS name, sql, temporary AS first FROM duckdb_views()
    WHERE NOT internal AND (database_name, schema_name) IN (('temp', 'main'), (current_database(), current_schema()))
    UNION ALL
    SELECT table_name, '', true FROM duckdb_tables() WHERE database_name = 'temp' AND NOT starts_with(table_name, 'kleene_')
) ORDER BY first DESC
"""
"""Views, and the temporary tables that hide some, those first that are found first."""
VIEW_TEXTS = "SELECT lower(view_name), lower(sql) FROM duckdb_views() WHERE NOT internal"
"""What is read first, in a quarter of the time: of views without a function none makes calls."""
CALLED = re.compile(r'[\w"]\(')
"""A function in a view's text, where DuckDB writes a blank between a word and a parenthesis that is no function's."""

ARROW_SAFE = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "UBIGINT",
        "FLOAT",
        "DOUBLE",
        "VARCHAR",
        "BLOB",
        "DATE",
        "TIMESTAMP",
    ]
)
"""What survives the way through Arrow and back exactly. All other types are fetched as Python values too."""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _may_call(names: frozenset[str], views: Sequence[tuple[str, str]]) -> bool:
    """Whether a function stands in the text of a view of these names, or of one whose name stands in such a text."""
    left = dict(views) if len(views) == len({name for name, _ in views}) else None
    if left is None:
        return any(CALLED.search(text) for _, text in views)  # one name in several schemas
    todo = [name for name in left if name in names]
    while todo:
        text = left.pop(todo.pop(), "")
        if CALLED.search(text):
            return True
        words = _words(text)
        todo += [name for name in left if _words(name) <= words]
    return False


@attrs.frozen
class Fetched:
    """All rows of a statement: as an Arrow table, as Python tuples, or both where neither keeps all."""

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    table: pa.Table | None = None
    rows: list[tuple[Any, ...]] | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows) if self.table is not None else len(self.rows or ())


class Kept(Protocol):
    """What remembers the uses of a CALL that were done, for a turn of a session that runs again: by key, with their rows as JSON."""

    def effects_done(self) -> list[tuple[str, str]]: ...

    def effect_done(self, key: str, rows: str) -> None: ...


class Connection:
    """Wraps a connection that belongs to the user. Changes none of its settings and never closes it."""

    def __init__(self, con: duckdb.DuckDBPyConnection):
        self.con = con
        self.most_rows: int | None = None  # of a query's result
        self._most_hint = "aggregate, filter or LIMIT them, or keep them: CREATE TABLE t AS ..."
        self._kept = False
        self._views: frozenset[str] | None = None
        self._probe = pa.table({"a": pa.array([], pa.int64())})

    # -- running -----------------------------------------------------------------------------------------------------------------------

    def check_free(self) -> None:
        """Raise ``BusyConnection`` when the user's last ``execute`` has rows that were not fetched; running anything would lose them."""
        if self._is_marked():
            return
        self.definitions_changed()  # the user has run something, which may have made a view
        if not self._has_unfinished_result():
            self._drop_kept()
            self._mark()
            return
        # DuckDB tells "not finished", not "rows remain": after execute(...).fetchone() of one row nothing remains. Look, and put back.
        row = self.con.fetchone()
        if row is None:
            return
        self._put_back([row, *self.con.fetchall()])
        raise BusyConnection(
            "the connection has a result that was not fetched",
            hint="fetch it first (con.fetchall()), or run on a cursor: kleene.attach(con.cursor())",
        )

    def _is_marked(self) -> bool:
        """Whether the last ``execute`` was our own mark: then none of the user's can be pending. The full look costs a statement 0.5 ms."""
        try:
            described = self.con.description
        except duckdb.Error:
            return False
        return bool(described) and described[0][0] == MARK

    def _mark(self) -> None:
        with suppress(duckdb.Error):
            self.con.execute(f"SELECT NULL AS {MARK}").fetchall()

    def _has_unfinished_result(self) -> bool:
        try:
            self.con.register("kleene_probe", self._probe)
        except duckdb.Error as error:
            if "closed" in str(error).lower():
                raise KleeneError(
                    "the connection is closed", hint="connect again and attach to the new connection"
                ) from None
            return (
                type(error).__name__ == "ResourceInUseException"
            )  # else an aborted transaction: the statement will say so
        with suppress(duckdb.Error):
            self.con.unregister("kleene_probe")
        return False

    def _put_back(self, rows: list[tuple[Any, ...]]) -> None:
        """Make the connection's pending result these rows again: names, types and order as they were."""
        described = [(str(d[0]), str(d[1])) for d in self.con.description]
        columns = ", ".join(f"c{i} {kind}" for i, (_, kind) in enumerate(described))
        holes = ", ".join("?" for _ in described)
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE kleene_pending (n BIGINT, {columns})")
        self.con.executemany(
            f"INSERT INTO kleene_pending VALUES (?, {holes})", [(n, *row) for n, row in enumerate(rows)]
        )
        items = ", ".join(f'c{i} AS "{name.replace(chr(34), chr(34) * 2)}"' for i, (name, _) in enumerate(described))
        self._kept = True
        self.con.execute(f"SELECT {items} FROM kleene_pending ORDER BY n")

    def _drop_kept(self) -> None:
        if self._kept:
            self._kept = False
            with suppress(duckdb.Error):
                self.con.execute("DROP TABLE IF EXISTS temp.main.kleene_pending")

    def fetch(self, sql: str, params: Params = None, *, query: bool = False) -> Fetched:
        """Run one statement and read all of its rows. ``query``: the text is a SELECT or another query, so that its rows may be read as
        Arrow without a copy; where Arrow would change values they are fetched as Python's too."""
        if query:
            relation = self.con.sql(sql, params=params) if params else self.con.sql(sql)
            if relation is None:
                return Fetched()
            columns, types = tuple(relation.columns), tuple(str(t) for t in relation.types)
            if self.most_rows is not None:
                relation = relation.limit(self.most_rows + 1)
            if columns and all(t in ARROW_SAFE for t in types):
                table = relation.to_arrow_table()
                self._check_rows(table.num_rows)
                return Fetched(columns, types, table=table.rename_columns(columns))
            # Python values and Arrow each lose something the other keeps (months of an interval, bits): both are made of one run.
            relation = relation.materialize()
            table = relation.to_arrow_table()
            self._check_rows(table.num_rows)
            return Fetched(columns, types, table=table.rename_columns(columns), rows=relation.fetchall())
        con = self.con.execute(sql, params) if params else self.con.execute(sql)
        description = con.description
        if not description:
            return Fetched()
        return Fetched(
            tuple(str(d[0]) for d in description), tuple(str(d[1]) for d in description), rows=con.fetchall()
        )

    @contextmanager
    def bounded(self, most_rows: int, hint: str) -> Iterator[None]:
        """For the time of a statement: its query gives at most so many rows, or ``PlanError`` with the hint."""
        before = self.most_rows, self._most_hint
        self.most_rows, self._most_hint = min(most_rows, self.most_rows or most_rows), hint
        try:
            yield
        finally:
            self.most_rows, self._most_hint = before

    def _check_rows(self, count: int) -> None:
        if self.most_rows is not None and count > self.most_rows:
            raise PlanError(f"the query gives more than {self.most_rows:,} rows", hint=self._most_hint)

    def rows(self, sql: str, params: Params = None) -> list[tuple[Any, ...]]:
        """Run a small statement of our own in the calling thread."""
        return self.con.execute(sql, params).fetchall() if params else self.con.execute(sql).fetchall()

    def in_worker(self, function: Callable[[], T], interrupt: Callable[[], None]) -> T:
        """Run ``function`` in a thread and wait for it. Ctrl-C calls ``interrupt``, waits for the end, and is raised again."""
        done = threading.Event()
        outcome: list[Any] = [None, None]

        def work() -> None:
            try:
                outcome[0] = function()
            except BaseException as error:
                outcome[1] = error
            finally:
                done.set()

        # In the caller's context: what is traced there stands below what the caller traces.
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name="kleene-statement", daemon=True)
        thread.start()
        try:
            done.wait()
        except BaseException:
            interrupt()
            while not done.wait(1.0):
                interrupt()
            raise
        thread.join()
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]  # type: ignore[no-any-return]

    def interrupt(self) -> None:
        with suppress(duckdb.Error):
            self.con.interrupt()

    # -- transactions --------------------------------------------------------------------------------------------------------------------

    def in_autocommit(self) -> bool:
        """No transaction of the user's is open. (Trying to begin one would abort theirs: two queries in one transaction share an id.)"""
        first, second = (self.rows("SELECT txid_current()") for _ in range(2))
        return first != second

    def begin(self) -> None:
        self.con.begin()

    def commit(self) -> None:
        self.con.commit()

    def rollback(self) -> None:
        with suppress(duckdb.Error):
            self.con.rollback()

    # -- what the planner asks -----------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What the planner asks, with the same answers for the time of one plan."""
        return Snapshot(self)

    def describe(self, query: str) -> tuple[tuple[str, str], ...] | None:
        """Columns of a query by binding it; runs nothing. None where it does not bind, and in the user's transaction, which a query that
        does not bind would abort."""
        return self.snapshot().describe(query)

    def counts(self, query: str, limit_ms: int) -> tuple[int, ...] | None:
        """The numbers of a query's one row; None where it fails, takes longer, or runs in the user's transaction, which either would abort."""
        return self.snapshot().counts(query, limit_ms)

    def knows_type(self, kind: str) -> bool:
        """DuckDB has a type of this name; also said of all types inside the user's transaction, which a wrong one would abort."""
        try:
            if self.in_autocommit():
                self.con.execute(f"DESCRIBE SELECT CAST(NULL AS {kind})").fetchall()
        except duckdb.Error:
            return False
        return True

    def clock(self) -> dict[str, tuple[str, str]]:
        names = list(CLOCKS)
        values = self.rows("SELECT " + ", ".join(f"({CLOCKS[n]})::VARCHAR, typeof({CLOCKS[n]})" for n in names))[0]
        return {name: (values[2 * i], values[2 * i + 1]) for i, name in enumerate(names)}

    def views(self, names: frozenset[str]) -> tuple[View, ...]:
        """The user's views by a name alone, where one of them has one of these names. What views there are is looked up again after a
        statement that may have made one (``definitions_changed``); what they are, each time."""
        if not names:
            return ()
        try:
            if self._views is None:
                named = self._looked_up("SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal")
                self._views = frozenset(str(row[0]) for row in named)
            return () if self._views.isdisjoint(names) else self._read_views(names)
        except duckdb.Error:  # in an aborted transaction, say
            return ()

    def definitions_changed(self) -> None:
        """Views may have been made, dropped, or be found by other names."""
        self._views = None

    def _read_views(self, names: frozenset[str]) -> tuple[View, ...]:
        """The views of these names, and those that they read."""
        if not _may_call(names, self._looked_up(VIEW_TEXTS)):
            return ()
        texts: dict[str, tuple[str, str]] = {}
        for name, sql in self._looked_up(VIEWS):
            texts.setdefault(str(name).lower(), (str(name), str(sql or "")))
        found: dict[str, View] = {}
        todo = [n for n in texts if n in names]
        while todo:
            name, sql = texts[key := todo.pop()]
            quoted = name.replace('"', '""')
            columns = [str(r[0]) for r in self._looked_up(f'DESCRIBE SELECT * FROM "{quoted}"')] if sql else []
            found[key] = View(name, sql, tuple(columns))
            words = _words(sql.lower())
            todo += [n for n in texts if n not in found and n not in todo and _words(n) <= words]
        return tuple(found.values())

    def _looked_up(self, sql: str) -> list[tuple[Any, ...]]:
        """``rows`` that leave the last ``execute`` what it was, so that the next statement need not look for rows of the user's."""
        return self.con.sql(sql).fetchall()

    def ordering(self) -> tuple[str, str]:
        row = self.rows("SELECT current_setting('default_order'), current_setting('default_null_order')")[0]
        direction = "DESC" if str(row[0]).upper().startswith("DESC") else "ASC"
        nulls = str(row[1]).upper().replace("_", " ")
        first = (
            nulls == "NULLS FIRST"
            or (nulls in ("NULLS FIRST ON ASC LAST ON DESC",) and direction == "ASC")
            or (nulls in ("NULLS LAST ON ASC FIRST ON DESC",) and direction == "DESC")
        )
        return direction, "NULLS FIRST" if first else "NULLS LAST"

    def table_names(self, schema: str | None = None, *, internal: bool = True) -> set[str]:
        """Lower-case names of all tables and views, or of those in one schema. Without ``internal`` those of DuckDB itself are left out."""
        where = "WHERE true" if internal else "WHERE NOT internal"
        where += "" if schema is None else " AND schema_name = $1"
        found = self.rows(
            f"SELECT table_name FROM duckdb_tables() {where} UNION ALL SELECT view_name FROM duckdb_views() {where}",
            [schema] if schema is not None else None,
        )
        return {str(r[0]).lower() for r in found}

    @contextmanager
    def given(self, name: str, column: str, text: str) -> Iterator[None]:
        """Give a text of any size to a statement that takes no parameters: as a table of one row."""
        with self.registered({name: pa.table({column: pa.array([text], pa.large_string())})}):
            yield

    @contextmanager
    def registered(self, tables: Mapping[str, Any]) -> Iterator[None]:
        """Give data frames and Arrow tables names for the time of a statement."""
        done: list[str] = []
        try:
            for name, value in tables.items():
                self.con.register(name, value)
                done.append(name)
            yield
        finally:
            for name in done:
                with suppress(duckdb.Error):
                    self.con.unregister(name)


class Snapshot:
    """The planner's questions to a connection while one plan is made: each is asked once, and so is whether a transaction is open."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._free: bool | None = None
        self._described: dict[str, tuple[tuple[str, str], ...] | None] = {}

    def snapshot(self) -> Snapshot:
        return self

    def describe(self, query: str) -> tuple[tuple[str, str], ...] | None:
        if query not in self._described:
            self._described[query] = self._bound(query)
        return self._described[query]

    def _bound(self, query: str) -> tuple[tuple[str, str], ...] | None:
        try:
            if not self._is_free():
                return None
            return tuple((str(r[0]), str(r[1])) for r in self._connection.rows(f"DESCRIBE {query}"))
        except duckdb.Error:
            return None

    def counts(self, query: str, limit_ms: int) -> tuple[int, ...] | None:
        try:
            if not self._is_free():
                return None
            with alarm(limit_ms / 1000, self._connection.interrupt):
                rows = self._connection.rows(query)
        except duckdb.Error:
            return None
        return tuple(int(value) for value in rows[0])

    def _is_free(self) -> bool:
        if self._free is None:
            self._free = self._connection.in_autocommit()
        return self._free

    def views(self, names: frozenset[str]) -> tuple[View, ...]:
        return self._connection.views(names)

    def clock(self) -> dict[str, tuple[str, str]]:
        return self._connection.clock()

    def ordering(self) -> tuple[str, str]:
        return self._connection.ordering()
