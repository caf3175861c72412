"""An index of the workspace's words, kept in DuckDB: which files hold which words how often, ranked by BM25.

BM25 with k1 = 1.2 and b = 0.75, and ln(1 + (N - n + 0.5) / (n + 0.5)) as the weight of a word (Robertson and Zaragoza, "The Probabilistic
Relevance Framework", 2009; the form that is never negative). Words are runs of letters and digits, in small letters and without accents; an
ideograph is a word by itself.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa

from kleene.store.contents import contents

VERSION = 1
FOLDER, FILE = ".kleene", "search.duckdb"
BATCH_CHARACTERS = 8 << 20
K1, B = 1.2, 0.75
WAIT_S = 0.02

_WORDS = (
    "list_filter(regexp_extract_all(strip_accents(lower({})), "
    r"'[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]|[\p{{L}}\p{{N}}]+'), lambda word: len(word) <= 64)"
)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS files(id BIGINT, path VARCHAR, size BIGINT, mtime_ns BIGINT, length BIGINT, text VARCHAR);
CREATE TABLE IF NOT EXISTS words(file BIGINT, word VARCHAR, times BIGINT);
CREATE TABLE IF NOT EXISTS version AS SELECT {VERSION} AS number;
"""
_ADD = f"""
CREATE OR REPLACE TEMP TABLE added AS
    SELECT id, word, count(*) AS times FROM (SELECT id, unnest({_WORDS.format("text")}) AS word FROM incoming) GROUP BY ALL;
INSERT INTO words SELECT id, word, times FROM added;
INSERT INTO files SELECT i.id, path, size, mtime_ns, coalesce(n.length, 0), CASE WHEN keep THEN text END
    FROM incoming i LEFT JOIN (SELECT id, sum(times)::BIGINT AS length FROM added GROUP BY id) n ON n.id = i.id ORDER BY i.id;
"""
_RANK = f"""
WITH asked AS (SELECT DISTINCT unnest({_WORDS.format("$query")}) AS word),
     found AS (SELECT w.file, w.word, w.times FROM words w WHERE w.word IN (SELECT word FROM asked)),
     weights AS (
        SELECT word, ln(1 + ((SELECT count(*) FROM files) - count(*) + 0.5) / (count(*) + 0.5)) AS weight FROM found GROUP BY word),
     mean AS (SELECT greatest(avg(length), 1) AS length FROM files)
SELECT f.path, f.text,
       round(sum(weight * times * ({K1} + 1) / (times + {K1} * (1 - {B} + {B} * f.length / mean.length))), 6) AS score
FROM found JOIN weights USING (word) JOIN files f ON f.id = found.file, mean
GROUP BY f.path, f.text ORDER BY score DESC, f.path
"""
_LINES = f"""
WITH asked AS (SELECT DISTINCT unnest({_WORDS.format("$query")}) AS word),
     found AS (SELECT word, count(*) AS files FROM words WHERE word IN (SELECT word FROM asked) GROUP BY word),
     weights AS (
        SELECT word, ln(1 + ((SELECT count(*) FROM files) - files + 0.5) / (files + 0.5)) AS weight FROM found),
     held AS (SELECT DISTINCT path, lineno, unnest({_WORDS.format("text")}) AS word FROM lines),
     scored AS (SELECT path, lineno, round(sum(weight), 6) AS weight FROM held JOIN weights USING (word) GROUP BY ALL)
SELECT path, min(lineno) AS lineno FROM (SELECT *, max(weight) OVER (PARTITION BY path) AS most FROM scored) WHERE weight = most GROUP BY path
"""
_INCOMING = pa.schema(
    [
        ("id", pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("text", pa.string()),
        ("keep", pa.bool_()),
    ]
)
_LINE = pa.schema([("path", pa.string()), ("lineno", pa.int64()), ("text", pa.string())])


@attrs.frozen
class Seen:
    """A file as it lies there: what tells whether it changed."""

    path: str
    size: int
    mtime_ns: int


@attrs.frozen
class Text:
    """A file's text to index. ``keep``: the text is to be kept too, because making it again is dear (documents)."""

    seen: Seen
    text: str
    keep: bool = False


@attrs.frozen
class Hit:
    """A file that holds a word of the query. ``text`` is that of a document, None for a text file."""

    path: str
    text: str | None
    score: float


class SearchIndex:
    """The index of one workspace, for all threads. It is opened when it is first used, in ``.kleene/search.duckdb``, and in memory where that
    cannot be (another process has it, the folder is not writable or is a link). ``root`` None: in memory."""

    def __init__(self, root: str | None) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._statement = ""

    @contextmanager
    def session(self, check: Callable[[], None]) -> Iterator[Session]:
        """Exclusive use. ``check`` is asked while it waits; it raises to give up."""
        while not self._lock.acquire(timeout=WAIT_S):
            check()
        try:
            if self._connection is None:
                self._connection = _opened(self._root)
            yield Session(self._connection, check, self)
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def is_fresh_for(self, statement: str) -> bool:
        """Whether the index was brought up to date for this statement. Under a ``session`` only, as ``fresh_for``."""
        return bool(statement) and statement == self._statement

    def fresh_for(self, statement: str) -> None:
        """Says that it was."""
        self._statement = statement


@attrs.frozen
class Session:
    """The index while nobody else uses it."""

    connection: duckdb.DuckDBPyConnection
    check: Callable[[], None]
    index: SearchIndex

    def changed(self, there: Iterable[Seen]) -> list[Seen]:
        """Forgets files that are gone or changed, and returns those that are to be added."""
        now = {seen.path: seen for seen in there}
        known = {
            path: (number, Seen(path, size, mtime_ns))
            for number, path, size, mtime_ns in self.connection.execute(
                "SELECT id, path, size, mtime_ns FROM files"
            ).fetchall()
        }
        gone = [number for path, (number, seen) in known.items() if now.get(path) != seen]
        if gone:
            self.connection.execute("BEGIN")
            try:
                for table, column in (("words", "file"), ("files", "id")):
                    self.connection.execute(
                        f"DELETE FROM {table} WHERE {column} IN (SELECT unnest($1::BIGINT[]))", [gone]
                    )
                self.connection.execute("COMMIT")
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
        return [seen for path, seen in now.items() if path not in known or known[path][1] != seen]

    def add(self, texts: Iterable[Text]) -> None:
        """Adds files, some megabytes at a time: what was added before an error stays."""
        held: list[Text] = []
        size = 0
        for text in texts:
            held.append(text)
            size += len(text.text) + 256
            if size > BATCH_CHARACTERS:
                self._add(held)
                held, size = [], 0
        if held:
            self._add(held)

    def rank(self, query: str) -> Iterator[Hit]:
        """The files that hold words of the query, the best first; equal ones by path."""
        # A cursor of its own: its rows need not be read to their end before the connection is used again.
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(_RANK, {"query": query})
            while rows := cursor.fetchmany(256):
                self.check()
                yield from (Hit(*row) for row in rows)

    def best_lines(self, query: str, texts: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """For each path the number (from 1) of the first line with the weightiest words of the query."""
        paths: list[str] = []
        numbers: list[int] = []
        lines: list[str] = []
        for path, content in texts.items():
            paths += [path] * len(content)
            numbers += range(1, len(content) + 1)
            lines += content
        self.connection.register("lines", pa.table([paths, numbers, lines], schema=_LINE))
        try:
            return dict(self.connection.execute(_LINES, {"query": query}).fetchall())
        finally:
            self.connection.unregister("lines")

    def _add(self, texts: list[Text]) -> None:
        self.check()
        ((first,),) = self.connection.execute("SELECT coalesce(max(id), 0) + 1 FROM files").fetchall()
        columns = [
            pa.array(range(first, first + len(texts)), pa.int64()),
            *(pa.array([getattr(t.seen, name) for t in texts]) for name in ("path", "size", "mtime_ns")),
            pa.array([t.text for t in texts], pa.string()),
            pa.array([t.keep for t in texts], pa.bool_()),
        ]
        self.connection.register("incoming", pa.table(columns, schema=_INCOMING))
        try:
            self.connection.execute(f"BEGIN; {_ADD} COMMIT")
        except BaseException:
            with suppress(duckdb.Error):
                self.connection.execute("ROLLBACK")
            raise
        finally:
            self.connection.unregister("incoming")


def _opened(root: str | None) -> duckdb.DuckDBPyConnection:
    path = None if root is None else _file(root)
    if path is not None:
        with suppress(duckdb.Error, OSError):
            return _connected(path)
    return _connected(":memory:")


def _file(root: str) -> str | None:
    """Where the index lies; None where its folder is not the workspace's own."""
    folder = Path(root) / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return None
    except OSError:
        return None
    path = folder / FILE
    return str(path) if all(_is_plain(p) for p in (path, folder / f"{FILE}.wal", folder / f"{FILE}.tmp")) else None


def _is_plain(path: Path) -> bool:
    """Nothing, or what DuckDB itself makes there: no link to another place, no pipe, no file with another name elsewhere."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    return (stat.S_ISREG(status.st_mode) and status.st_nlink == 1) or stat.S_ISDIR(status.st_mode)


def _connected(path: str) -> duckdb.DuckDBPyConnection:
    connection = _plain(path)
    try:
        same = _holds_tables_only(connection)
        connection.execute(_SCHEMA)
        same = same and connection.execute("SELECT number FROM version").fetchall() == [(VERSION,)]
        connection.execute("SELECT id, path, size, mtime_ns, length, text FROM files LIMIT 0").fetchall()
        connection.execute("SELECT file, word, times FROM words LIMIT 0").fetchall()
    except duckdb.Error:
        same = False
    if same:
        return connection
    connection.close()
    for name in (path, f"{path}.wal"):
        with suppress(FileNotFoundError):
            os.unlink(name)
    connection = _plain(path)
    connection.execute(_SCHEMA)
    return connection


def _holds_tables_only(connection: duckdb.DuckDBPyConnection) -> bool:
    """A checkout may bring an index of its own: a view or macro in it would run, and for ever, under the names that are used here."""
    return all(held.kind == "table" for held in contents(connection))


def _plain(path: str) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        path,
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
            "lock_configuration": True,
        },
    )
