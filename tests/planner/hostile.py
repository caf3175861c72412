"""Statements drawn from bytes, ordinary ones and hostile ones mixed, and what must hold of each: for ``scripts/fuzz_policy.py`` and a test.

A statement that the policy accepts is given to a DuckDB that is *not* locked, in a folder with marked files: none of the marks may come back, and
nothing may be written. The lock that lies beneath in a session is not what is tested here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

from kleene.planner.dialect import CallSQL
from kleene.planner.errors import KleeneError
from kleene.planner.policy import check_model, load_allow_list
from kleene.planner.statements import parse

T = TypeVar("T")

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "policy"
FUNCTIONS = frozenset({"llm", "llm_bool", "llm_agg", "files", "read", "grep", "shell", "expand", "mine"})
TABLES = frozenset({"t", "u", "ctx", "nested"})
MARK = "canary7731"
SLOW_S = 10.0
"""So long nothing here may take, on a busy machine."""
RUN_S = 1.0

FILES = ("data.csv", "data.json", "notes.txt", "data.parquet", "other.duckdb")
NAMES = (
    *("'data.csv'", '"data.csv"', "data.csv", "'./data.csv'", "'data*'", '"notes.txt"', "'data.parquet'", '"data.json"', "'other.duckdb'"),
    *("'/etc/passwd'", '"/etc/passwd"', "t", "u", "ctx", "main.t", "memory.main.t", "nested", '"t"', "duckdb_settings", "sqlite_master"),
    *("information_schema.tables", "pg_catalog.pg_class", "$$data.csv$$", "'data' || '.csv'", "E'data\\x2ecsv'", "U&'data'", "'data.csv'::VARCHAR"),
)  # fmt: skip
CALLS = (
    *("read_csv", "read_csv_auto", "read_text", "read_blob", "read_json", "read_json_auto", "read_parquet", "parquet_scan", "glob", "sniff_csv"),
    *("read_json_objects", "read_ndjson", "parquet_metadata", "query", "query_table", "getenv", "which_secret", "duckdb_secrets", "getvariable"),
    *("system.main.read_text", "main.read_text", '"read_text"', "READ_TEXT", "pragma_version", "duckdb_settings", "seq_scan", "arrow_scan"),
    *("pandas_scan", "python_map_function", "sql_auto_complete", "json_execute_serialized_sql", "from_substrait", "checkpoint", "force_checkpoint"),
    *("llm", "llm_bool", "files", "read", "mine", "upper", "list_value", "unnest", "range", "generate_series", "test_all_types", "repeat"),
)  # fmt: skip
WORDS = (
    *("SELECT", "FROM", "WHERE", "(", ")", ",", "*", ";", ".", "AS", "WITH", "RECURSIVE", "UNION ALL", "JOIN", "ON", "USING", "LATERAL", "VALUES"),
    *("COPY", "TO", "ATTACH", "DETACH", "INSTALL", "LOAD", "EXPORT DATABASE", "IMPORT DATABASE", "PRAGMA", "SET", "CALL", "EXPLAIN", "ANALYZE"),
    *("DESCRIBE", "SUMMARIZE", "SHOW", "CREATE", "TEMP", "TABLE", "VIEW", "MACRO", "FUNCTION", "INSERT INTO", "UPDATE", "DELETE", "PIVOT", "UNPIVOT"),
    *("PREPARE", "EXECUTE", "FINAL", "CREATE SECRET", "USE", "::", "->", "->>", "[", "]", "{", "}", "'", '"', "$$", "--", "/*", "*/", "\\", "\n"),
    *("\u00a0", "\u200b", "\u2019", "\ufeff", "\0", "é", "😀", "1", "1e999", "NULL", "?", "$1", "@", "COLUMNS(*)", "TABLESAMPLE 10%", "QUALIFY"),
)  # fmt: skip
FORMS = (
    *("SELECT * FROM {n}", "FROM {n}", "TABLE {n}", "SELECT {c}({n})", "SELECT * FROM {c}({n})", "SELECT * FROM t, {c}({n})", "SELECT {n}.{c}()"),
    *("SELECT ({s})", "SELECT * FROM ({s}) x", "WITH x AS ({s}) FROM x", "WITH {w} AS ({s}) SELECT * FROM {n}", "{s} UNION ALL {s}", "EXPLAIN {s}"),
    *("DESCRIBE {n}", "SUMMARIZE {n}", "SUMMARIZE {s}", "CREATE TABLE v AS {s}", "CREATE OR REPLACE TEMP VIEW v AS {s}; FROM v", "INSERT INTO t {s}"),
    *("COPY ({s}) TO 'out.csv'", "COPY t FROM {n}", "COPY {n} TO 'out.csv'", "ATTACH {n} AS o", "PREPARE p AS {s}; EXECUTE p", "CALL {c}({n})"),
    *("SELECT list_transform([{n}], x -> {c}(x))", "SELECT [{c}(x) for x in [{n}]]", "SELECT * FROM t WHERE a IN (FROM {n})", "PIVOT {n} ON a"),
    *("PIVOT ({s}) ON a USING count(*)", "UNPIVOT {n} ON COLUMNS(*)", "SELECT * FROM t POSITIONAL JOIN {n}", "FROM t SELECT (FROM {n} LIMIT 1)"),
    *("SELECT * FROM t ASOF JOIN {n} ON true", "SELECT x FROM (VALUES ({n})) v(x)", "UPDATE t SET a = ({s})", "DELETE FROM t USING {n}"),
    *("CREATE MACRO mine(x) AS {c}(x); SELECT mine({n})", "CREATE MACRO m2(x) AS TABLE SELECT * FROM {c}(x); FROM m2({n})", "FINAL FROM ({s})"),
    *("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SQL ({s}); SELECT f('x')", "SET VARIABLE v = {n}; FROM query(getvariable('v'))", "EXPORT DATABASE {n}"),
    *("/* {s} */ FROM {n}", "-- {s}\nFROM {n}", "SELECT '{s}'", "{s}; {s}", "({s})", "SELECT CASE WHEN true THEN ({s}) END", "EXECUTE IMMEDIATE {n}"),
    *("SELECT EXISTS ({s})", "SELECT * FROM {c}(ARRAY[{n}])", "SELECT * FROM {c}(path := {n})", "SELECT * EXCLUDE a REPLACE (({s}) AS b) FROM t"),
)  # fmt: skip


class Fault(AssertionError):
    """What must not be: the statement, and what it did."""


class Draw:
    """Choices out of bytes; when they are used up all choices are the first."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def number(self, below: int) -> int:
        value = self._data[self._at] if self._at < len(self._data) else 0
        self._at += 1
        return value % below

    def choice(self, of: Sequence[T]) -> T:
        if len(of) > 256:
            return of[(self.number(256) * 256 + self.number(256)) % len(of)]
        return of[self.number(len(of))]


def seeds() -> list[str]:
    return [
        line
        for name in ("allowed.sql", "refused.sql")
        for line in (FIXTURES / name).read_text("utf-8").splitlines()
        if line.strip()
    ]


def statement_of(data: bytes, known: Sequence[str]) -> str:
    """A statement: a form with its holes filled, or a known one, then some changes of its words."""
    draw = Draw(data)
    text = _form(draw, known, 0)
    for _ in range(draw.number(4)):
        text = _changed(draw, text, known)
    return text


def _form(draw: Draw, known: Sequence[str], depth: int) -> str:
    if depth > 3 or draw.number(3) == 0:
        return draw.choice(known)

    def fill(hole: re.Match[str]) -> str:
        match hole[1]:
            case "s":
                return _form(draw, known, depth + 1)
            case "n":
                return draw.choice(NAMES)
            case "c":
                return draw.choice(CALLS)
        return draw.choice(("x", "t", "read_text", '"data.csv"', "llm"))

    return re.sub(r"\{([snwc])\}", fill, draw.choice(FORMS))


def _changed(draw: Draw, text: str, known: Sequence[str]) -> str:
    words = re.findall(r"\w+|\s+|.", text, re.DOTALL) or [" "]
    at = (draw.number(256) * 256 + draw.number(256)) % len(words)
    match draw.number(6):
        case 0:
            del words[at]
        case 1:
            words.insert(at, f" {draw.choice(WORDS)} ")
        case 2:
            words[at] = draw.choice((*NAMES, *CALLS))
        case 3:
            other = re.findall(r"\w+|\s+|.", draw.choice(known), re.DOTALL)
            words[at:] = other[draw.number(256) % max(1, len(other)) :]
        case 4:
            words[at] = words[at].swapcase()
        case 5:
            words[at:at] = words[at : at + 1 + draw.number(8)] * (1 + draw.number(30))
    return "".join(words)


class Trap:
    """A DuckDB without a lock in a folder of marked files; ``spring`` says what a statement did there that it must not do."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "data.csv").write_text(f"a,b\n{MARK},1\n")
        (folder / "data.json").write_text(f'{{"a": "{MARK}", "b": 1}}\n')
        (folder / "notes.txt").write_text(f"{MARK}\n")
        with duckdb.connect(str(folder / "other.duckdb")) as con:
            con.execute(f"CREATE TABLE IF NOT EXISTS hidden AS SELECT '{MARK}' AS a")
            con.execute(f"COPY (SELECT '{MARK}' AS a) TO '{folder / 'data.parquet'}'")
        self._known = {str(p) for p in folder.rglob("*")}
        self._allow = load_allow_list()
        self.accepted = self.run = 0
        self._fresh()

    def _fresh(self) -> None:
        self._con = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
        self._con.execute("SET threads = 1; SET memory_limit = '200MB'; SET max_temp_directory_size = '0MB'")
        for name in TABLES:
            self._con.execute(
                f"CREATE TABLE {name} AS SELECT i AS a, 'x' || i AS b, i AS ordinal, 'text' AS text FROM range(3) r(i)"
            )

    def close(self) -> None:
        self._con.close()

    def check(self, text: str) -> None:
        """Raises ``Fault``; whatever else escapes is a fault of the parser or the policy too."""
        started = time.monotonic()
        try:
            statements = parse(text)
            for statement in statements:
                check_model(statement, functions=FUNCTIONS, tables=TABLES.__contains__, allow_list=self._allow)
        except KleeneError:
            statements = ()
        if time.monotonic() - started > SLOW_S:
            raise Fault(f"it took {time.monotonic() - started:.0f} s: {text[:2000]!r}")
        for statement in statements:
            self.accepted += 1
            printed = (
                statement.tree.sql(CallSQL) if statement.tree is not None and not statement.has_own else statement.text
            )
            for form in dict.fromkeys((statement.text, printed)):
                self._spring(form, text)

    def _spring(self, sql: str, text: str) -> None:
        timer = threading.Timer(RUN_S, self._con.interrupt)
        timer.start()
        shown = ""
        before = os.getcwd()
        try:
            os.chdir(self.folder)
            with contextlib.suppress(duckdb.Error, RuntimeError, OverflowError, UnicodeError, ValueError):
                found = self._con.execute(sql)
                shown = str(found.fetchmany(50))
                self.run += 1
        except (MemoryError, NotImplementedError):
            pass
        finally:
            os.chdir(before)
            timer.cancel()
            timer.join()
        if MARK in shown or "root:x:" in shown:
            raise Fault(f"an accepted statement read a file: {sql!r}, of {text!r}")
        there = {str(p) for p in self.folder.rglob("*")}
        if there != self._known:
            for path in there - self._known:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            raise Fault(f"an accepted statement wrote {sorted(there - self._known)}: {sql!r}, of {text!r}")
        if self.accepted % 500 == 0:  # whatever statements made is forgotten
            self._con.close()
            self._fresh()


def numbered() -> Iterator[bytes]:
    """Bytes without end, for a run without a library that draws them."""
    for n in itertools.count():
        yield os.urandom(16 + n % 200)
