"""The memo: answers that were paid for, in a table of the store's DuckDB.

A key is (who answers, everything else that can change the answer, the prompt): ``route_key`` is provider, endpoint and
model, a line each; ``spec_digest`` is ``CallSpec.digest()``. The prompt is hashed in SQL, so that a round of a million is looked up in one join.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
import duckdb
import numpy as np
import pyarrow as pa

from kleene.udfs.text import clean

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMO_SCHEMA = """
CREATE TABLE IF NOT EXISTS memo (
    key BLOB PRIMARY KEY,            -- SHA-256 of the prompt, then 16 bytes of the SHA-256 of route_key and spec_digest
    route_key VARCHAR NOT NULL,
    spec_digest VARCHAR NOT NULL,
    provider VARCHAR GENERATED ALWAYS AS (split_part(route_key, chr(10), 1)) VIRTUAL,
    endpoint VARCHAR GENERATED ALWAYS AS (split_part(route_key, chr(10), 2)) VIRTUAL,
    model VARCHAR GENERATED ALWAYS AS (split_part(route_key, chr(10), 3)) VIRTUAL,
    prompt_digest VARCHAR GENERATED ALWAYS AS (lower(substr(hex(key), 1, 64))) VIRTUAL,
    text VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,           -- answer, or the kind of unknown
    input_tokens BIGINT,
    output_tokens BIGINT,
    dollars DOUBLE,
    stop VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL    -- UTC
)
"""
FOUND = ("text", "kind", "input_tokens", "output_tokens", "dollars", "stop", "created_at")  # in the order of MemoEntry
HITS = pa.schema(
    {
        "i": pa.int64(),
        "text": pa.large_string(),
        "kind": pa.large_string(),
        "input_tokens": pa.int64(),
        "output_tokens": pa.int64(),
        "dollars": pa.float64(),
        "stop": pa.large_string(),
        "created_at": pa.float64(),
    }
)
BY_KEY = 64
"""So many prompts are looked up one by one. Measured with a memo of a million: 1 in 1.2 ms where the join takes 7, 64 in 8.5 where it takes 69,
256 in 30 where it takes 57; with a memo of a thousand 64 in 2.3 ms where it takes 6, 1,000 in 16 where it takes 7."""
CONFLICT = re.compile(r"conflict|constraint|duplicate key", re.IGNORECASE)
CONFLICT_PATIENCE_S = 30.0  # two engines of one process may write one key at one moment: one of them tries again


@attrs.frozen
class MemoEntry:
    """A reply that was complete and valid, or an unknown that is remembered.

    ``text`` is the reply as it came, ``kind`` is ``answer`` or the kind of unknown. Token counts and ``dollars`` are this answer's own
    share of its request, None where not reported. ``created_at`` is in seconds since the epoch, None for now.
    """

    route_key: str
    spec_digest: str
    prompt: str
    text: str
    kind: str = "answer"
    input_tokens: int | None = None
    output_tokens: int | None = None
    dollars: float | None = None
    stop: str = "end"
    created_at: float | None = None


@attrs.frozen(eq=False)
class MemoRows:
    """Answers of one model under one specification, as columns of one length: each a complete reply (kind ``answer``, stop ``end``) to a prompt
    of its own, made at ``created_at``."""

    route_key: str
    spec_digest: str
    prompts: Sequence[str]
    texts: Sequence[str]
    input_tokens: Sequence[int]
    output_tokens: Sequence[int]
    dollars: Sequence[float]
    created_at: float

    def __len__(self) -> int:
        return len(self.prompts)

    def entries(self) -> list[MemoEntry]:
        """The same one by one."""
        columns = (self.prompts, self.texts, self.input_tokens, self.output_tokens, self.dollars)
        return [
            MemoEntry(
                self.route_key, self.spec_digest, prompt, text, "answer", asked, said, dollars, "end", self.created_at
            )
            for prompt, text, asked, said, dollars in zip(*columns, strict=True)
        ]

    def table(self) -> pa.Table:
        """The columns of ``INSERT``. Raises UnicodeEncodeError where a text holds a lone surrogate."""
        size, text = len(self.prompts), pa.large_string()
        tail, digest = bytes.fromhex(scope(self.route_key, self.spec_digest)), hashlib.sha256

        def same(value: object, kind: pa.DataType) -> pa.Array:
            return pa.repeat(pa.scalar(value, kind), size)

        return pa.table(
            {
                # Here rather than in SQL: a column of the prompts would hold them once more.
                "key": pa.array([digest(prompt.encode()).digest() + tail for prompt in self.prompts], pa.binary()),
                "route_key": same(self.route_key, text),
                "spec_digest": same(self.spec_digest, text),
                "text": pa.array(self.texts, text),
                "kind": same("answer", text),
                "input_tokens": pa.array(self.input_tokens, pa.int64()),
                "output_tokens": pa.array(self.output_tokens, pa.int64()),
                "dollars": pa.array(self.dollars, pa.float64()),
                "stop": same("end", text),
                "created_at": same(int(self.created_at * 1e6), pa.timestamp("us")),
            }
        )


Entries: TypeAlias = "Sequence[MemoEntry | MemoRows]"


@attrs.frozen
class MemoStats:
    """``bytes`` counts the replies' text. ``dollars`` is what the entries cost when they were made. Times are seconds since the epoch."""

    entries: int
    answers: int
    unknown: int
    routes: int
    bytes: int
    input_tokens: int
    output_tokens: int
    dollars: float
    oldest: float | None
    newest: float | None


class MemoHits(Mapping[int, MemoEntry]):
    """What a look-up found: a mapping from the prompt's index to its entry, and the same as columns.

    ``columns`` has i, text, kind, input_tokens, output_tokens, dollars, stop and created_at (seconds since the epoch), by i. Entries
    are built as they are asked for: a million of them would take longer than the join.
    """

    def __init__(self, route_key: str, spec_digest: str, prompts: Sequence[str] | pa.Array, columns: pa.Table):
        self._route_key = route_key
        self._spec_digest = spec_digest
        self._prompts = prompts
        self.columns = columns
        self._rows: dict[int, int] | None = None
        self._lists: list[list[Any]] | None = None

    @property
    def index(self) -> list[int]:
        """The indexes of the prompts that were found."""
        return cast("list[int]", self.columns["i"].to_pylist())

    @property
    def texts(self) -> list[str]:
        """The replies, in the order of ``index``."""
        return cast("list[str]", self.columns["text"].to_pylist())

    @property
    def kinds(self) -> list[str]:
        """The kinds, in the order of ``index``."""
        return cast("list[str]", self.columns["kind"].to_pylist())

    def __getitem__(self, index: int) -> MemoEntry:
        row = self._by_index()[index]
        if self._lists is None:
            self._lists = [self.columns[name].to_pylist() for name in FOUND]
        prompt = self._prompts[index]
        if not isinstance(prompt, str):
            prompt = prompt.as_py()
        return MemoEntry(self._route_key, self._spec_digest, prompt, *(values[row] for values in self._lists))

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_index())

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __contains__(self, index: object) -> bool:
        return index in self._by_index()

    def _by_index(self) -> dict[int, int]:
        if self._rows is None:
            self._rows = {i: row for row, i in enumerate(self.index)}
        return self._rows


class Memo:
    """The memo table seen from one engine. Methods may be called from any thread; reads do not wait for writes.

    ``con`` is a connection of the store's instance, of which two cursors are kept; the table must exist (``MEMO_SCHEMA``).
    """

    def __init__(self, con: DuckDBPyConnection, *, clock: Callable[[], float] = time.time):
        self._clock = clock
        self._reader = con.cursor()
        self._writer = con.cursor()
        self._reading = threading.Lock()
        self._writing = threading.Lock()

    def lookup(
        self,
        route_key: str,
        spec_digest: str,
        prompts: Sequence[str] | pa.Array | pa.ChunkedArray,
        *,
        max_age_s: float | None = None,
        unknown: bool = False,
    ) -> MemoHits:
        """Finds the entries of all prompts: of many in one join, of few by their keys. A NULL prompt finds nothing.

        ``max_age_s`` leaves out older entries. ``unknown``: also unknowns other than refusals are served (``SET memo_unknown = on``).
        """
        if len(prompts) <= BY_KEY:
            texts = prompts if isinstance(prompts, Sequence) else prompts.to_pylist()
            found = self._by_key(scope(route_key, spec_digest), texts, self._since(max_age_s), unknown)
            return MemoHits(route_key, spec_digest, prompts, found)
        if not self._has_any(route_key, spec_digest):
            return MemoHits(route_key, spec_digest, prompts, HITS.empty_table())
        with self._reading, registered(self._reader, "kleene_memo_prompts", numbered(text_array(prompts))):
            relation = self._reader.sql(
                f"""
                SELECT p.i, {COLUMNS} {FROM_MEMO} ORDER BY p.i
                """,
                params={"scope": scope(route_key, spec_digest), "since": self._since(max_age_s), "unknown": unknown},
            )
            # In the order of the prompts, so that who hands a million of them out walks through memory once. Sorted by DuckDB, which takes
            # no longer: Arrow's sort imports pyarrow.compute, 0.1 s of a process's first statement.
            return MemoHits(route_key, spec_digest, prompts, relation.to_arrow_table())

    def _has_any(self, route_key: str, spec_digest: str) -> bool:
        """Whether there is an entry of this model under this specification. A new question has none, which takes 1 ms to see where the join of a
        thousand takes 10, and with a million entries of others 60."""
        with self._reading:
            sql = "SELECT 1 FROM memo WHERE spec_digest = ? AND route_key = ? LIMIT 1"
            return bool(self._reader.execute(sql, [spec_digest, route_key]).fetchall())

    def _by_key(self, scope: str, prompts: Sequence[str | None], since: int, unknown: bool) -> pa.Table:
        """The columns of ``MemoHits``, by the primary key's index: a join reads all keys of the table and is planned for longer than this takes."""
        places: dict[bytes, list[int]] = {}
        for place, prompt in enumerate(prompts):
            if prompt is not None:
                places.setdefault(key_of(prompt, scope), []).append(place)
        rows = []
        if places:
            with self._reading:
                rows = self._reader.execute(
                    f"SELECT {COLUMNS}, m.key FROM memo m WHERE m.key IN ({', '.join('?' * len(places))}) "
                    "AND m.created_at >= make_timestamp(?::BIGINT) AND (? OR m.kind IN ('answer', 'refused'))",
                    [*places, since, unknown],
                ).fetchall()
        found = sorted((place, row) for row in rows for place in places[row[-1]])
        return pa.table(
            [[place for place, _ in found], *([row[n] for _, row in found] for n in range(len(HITS) - 1))], schema=HITS
        )

    def texts(self, route_key: str, spec_digest: str, prompts: pa.Array, *, max_age_s: float | None = None) -> pa.Table:
        """Like ``lookup`` without its unknowns, of many prompts: the columns i, text, kind and stop of those that are there, in no order."""
        if not self._has_any(route_key, spec_digest):
            return HITS.empty_table().select(["i", "text", "kind", "stop"])
        with self._reading, registered(self._reader, "kleene_memo_prompts", numbered(prompts)):
            relation = self._reader.sql(
                f"SELECT p.i, m.text, m.kind, m.stop {FROM_MEMO}",
                params={"scope": scope(route_key, spec_digest), "since": self._since(max_age_s), "unknown": False},
            )
            return relation.to_arrow_table()

    def _since(self, max_age_s: float | None) -> int:
        return 0 if max_age_s is None else int(max(0.0, self._clock() - max_age_s) * 1e6)

    def commit(self, entries: Entries) -> None:
        """Writes the entries in one transaction; on return they are on disk. Raises duckdb.Error where that cannot be done.

        The newest entry of a key stays, but an unknown never replaces an answer.
        """
        if not entries:
            return
        rows = entry_table(entries, self._clock())
        with self._writing, registered(self._writer, "kleene_memo_entries", rows):
            # What was just asked is seldom there already, and looking for it costs as much as writing it.
            with contextlib.suppress(duckdb.ConstraintException, duckdb.TransactionException):
                self._writer.execute(INSERT_NEW)
                return
            retry_conflicts(lambda: self._writer.execute(INSERT))

    def stats(self) -> MemoStats:
        """Counts the entries and sums what they cost."""
        with self._reading:
            row = self._reader.execute(
                """
                SELECT count(*), count(*) FILTER (kind = 'answer'), count(*) FILTER (kind <> 'answer'), count(DISTINCT route_key),
                    coalesce(sum(strlen(text)), 0)::BIGINT, coalesce(sum(input_tokens), 0)::BIGINT,
                    coalesce(sum(output_tokens), 0)::BIGINT, coalesce(sum(dollars), 0), epoch(min(created_at)), epoch(max(created_at))
                FROM memo
                """
            ).fetchone()
        assert row is not None
        return MemoStats(*row)

    def prune(self, older_than_s: float | None = None) -> int:
        """Removes the entries older than ``older_than_s`` seconds, or all where it is None; returns how many."""
        where, params = "", None
        if older_than_s is not None:
            where = "WHERE created_at < make_timestamp($before::BIGINT)"
            params = {"before": int((self._clock() - older_than_s) * 1e6)}
        with self._writing:
            row = self._writer.execute(f"DELETE FROM memo {where}", params).fetchone()
            with contextlib.suppress(duckdb.TransactionException):  # another reader is at it: the space is reused later
                self._writer.execute("CHECKPOINT")
        return int(row[0]) if row else 0

    def close(self) -> None:
        """Closes the two cursors; the store stays open."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()


COLUMNS = "m.text, m.kind, m.input_tokens, m.output_tokens, m.dollars, m.stop, epoch(m.created_at) AS created_at"
FROM_MEMO = """
FROM kleene_memo_prompts p JOIN memo m ON m.key = unhex(sha256(p.prompt) || $scope)
WHERE m.created_at >= make_timestamp($since::BIGINT) AND ($unknown OR m.kind IN ('answer', 'refused'))
"""
INSERT_NEW = """
INSERT INTO memo BY NAME
SELECT key, route_key, spec_digest, text, kind, input_tokens, output_tokens, dollars, stop, created_at
FROM kleene_memo_entries
"""
INSERT = f"""
{INSERT_NEW}
ON CONFLICT (key) DO UPDATE SET text = excluded.text, kind = excluded.kind, input_tokens = excluded.input_tokens,
    output_tokens = excluded.output_tokens, dollars = excluded.dollars, stop = excluded.stop, created_at = excluded.created_at
WHERE excluded.kind = 'answer' OR memo.kind <> 'answer'
"""


REFUSED = 3  # single entries that could not be written, after which their neighbours are not tried either


class MemoWriter:
    """Commits entries in groups: while one commit runs, the next group gathers. So a lone answer waits for one commit, many share one.

    ``done`` of a submission is called in the writer's thread, with None after its entries are on disk or with the error that kept them
    from it. At most ``bound`` entries wait; beyond that ``submit`` blocks. ``max_age_s`` is for ``lookup``.

    What cannot be written (a full disk) was paid for all the same: of a group what still fits is written, and the rest is kept in memory and
    tried again before the next look-up and at ``close``. ``unkept`` is how many entries that are.
    """

    def __init__(self, memo: Memo, *, bound: int = 100_000, max_age_s: float | None = None):
        self._memo = memo
        self.max_age_s = max_age_s
        self._bound = bound
        self._waiting: list[tuple[Entries, Callable[[BaseException | None], None]]] = []
        self._entries = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._unkept: list[MemoEntry] = []
        self.commits = 0

    @property
    def unkept(self) -> int:
        return len(self._unkept)

    def lookup(self, route_key: str, spec_digest: str, prompts: Sequence[str], unknown: bool = False) -> MemoHits:
        """``Memo.lookup``, so that dispatch holds one object."""
        self._write_unkept()
        return self._memo.lookup(route_key, spec_digest, prompts, unknown=unknown, max_age_s=self.max_age_s)

    def texts(self, route_key: str, spec_digest: str, prompts: pa.Array) -> pa.Table:
        """``Memo.texts``."""
        self._write_unkept()
        return self._memo.texts(route_key, spec_digest, prompts, max_age_s=self.max_age_s)

    def submit(self, entries: Entries, done: Callable[[BaseException | None], None]) -> None:
        """Hands entries over; returns before they are written. After ``close`` it raises RuntimeError."""
        count = rows_of(entries)
        with self._changed:
            while self._entries and self._entries + count > self._bound and not self._closed:
                self._changed.wait()
            if self._closed:
                raise RuntimeError("the memo's writer is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kleene-memo", daemon=True)
                self._thread.start()
            self._waiting.append((entries, done))
            self._entries += count
            self._changed.notify_all()

    def commit(self, entries: Entries) -> None:
        """Submits and waits. Raises what the commit raised."""
        finished = threading.Event()
        failed: list[BaseException] = []

        def done(error: BaseException | None) -> None:
            if error is not None:
                failed.append(error)
            finished.set()

        self.submit(entries, done)
        finished.wait()
        if failed:
            raise failed[0]

    def flush(self) -> None:
        """Returns when nothing waits and nothing is being written."""
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait()

    def close(self) -> None:
        """Writes what waits, then ends the thread. A second call does nothing."""
        self._write_unkept()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                group, self._waiting, self._entries, self._busy = self._waiting, [], 0, True
                self._changed.notify_all()
            self._commit(group)

    def _commit(self, group: list[tuple[Entries, Callable[[BaseException | None], None]]]) -> None:
        entries = [entry for entries, _ in group for entry in entries]
        try:
            self._memo.commit(entries)
            self.commits += 1
            failures: list[BaseException | None] = [None] * len(group)
        except Exception as error:
            # One submission must not cost the others theirs: each is tried alone.
            failures = [self._commit_alone(entries, error if len(group) == 1 else None) for entries, _ in group]
        for (_, done), failure in zip(group, failures, strict=True):
            with contextlib.suppress(Exception):
                done(failure)

    def _commit_alone(self, given: Entries, known: BaseException | None) -> BaseException | None:
        """Write what can be written, in ever smaller parts, and remember the rest. ``known``: the error of all of them together."""
        entries = singles(given)
        todo, refused, failure = [entries], 0, known
        while todo:
            part = todo.pop()
            if refused == REFUSED:
                self._remember(part)
                continue
            try:
                if len(part) == len(entries) and known is not None:
                    raise known
                self._memo.commit(part)
                self.commits += 1
            except Exception as error:
                failure = error
                refused += len(part) == 1
                if len(part) > 1:
                    todo += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    self._remember(part)
        return failure

    def _remember(self, entries: list[MemoEntry]) -> None:
        with self._changed:
            self._unkept = [*self._unkept, *entries]

    def _write_unkept(self) -> None:
        """Try again what could not be written. In the caller's thread, which waits for it as for any other commit."""
        with self._changed:
            entries, self._unkept = self._unkept, []
            if entries and self._closed:
                return
        if entries:
            with contextlib.suppress(Exception):
                self.commit(entries)  # what it cannot write it remembers again


def remembered(kind: str, *, memo_unknown: bool = False) -> bool:
    """Says whether a reply of this kind enters the memo: answers and refusals always, other unknowns with ``SET memo_unknown = on``."""
    return memo_unknown or kind in ("answer", "refused")


def scope(route_key: str, spec_digest: str) -> str:
    """The second half of a key (32 hex digits): who answers and how, apart from the prompt."""
    return hashlib.sha256(f"{len(route_key)}:{route_key}{spec_digest}".encode("utf-8", "replace")).hexdigest()[:32]


def memo_key(route_key: str, spec_digest: str, prompt: str) -> bytes:
    """The key of one prompt, as the table has it: for a trace row that names an entry."""
    return key_of(prompt, scope(route_key, spec_digest))


def key_of(prompt: str, scope: str) -> bytes:
    """The key of a prompt in a ``scope`` (that function's)."""
    return hashlib.sha256(clean(prompt).encode()).digest() + bytes.fromhex(scope)


def numbered(prompts: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The prompts with their places. By way of a buffer: ``pa.array`` of numpy's imports numpy.ma, a tenth of a process's first statement."""
    count = len(prompts)
    places = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(np.arange(count, dtype=np.int64))])
    return pa.table({"i": places, "prompt": prompts})


def text_array(texts: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Texts as an Arrow column, lone surrogates mended; an Arrow column is returned as it is."""
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        return texts
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([None if t is None else clean(t) for t in texts], pa.large_string())


def rows_of(entries: Entries) -> int:
    """How many rows of the memo these are."""
    return sum(len(e) if isinstance(e, MemoRows) else 1 for e in entries)


def singles(entries: Entries) -> list[MemoEntry]:
    """Entries and columns of them, one by one."""
    found: list[MemoEntry] = []
    for e in entries:
        found += e.entries() if isinstance(e, MemoRows) else [e]
    return found


def entry_table(entries: Entries, now: float) -> pa.Table:
    """The entries as columns, the last of each key only."""
    alone = [e for e in entries if not isinstance(e, MemoRows)]
    try:
        blocks = [e.table() for e in entries if isinstance(e, MemoRows)]
    except UnicodeEncodeError:
        blocks, alone = [], singles(entries)
    table = pa.concat_tables([*blocks, _entry_table(alone, now)])
    keys = table["key"].to_pylist()
    if len(set(keys)) == len(keys):
        return table
    return _entry_table(list(dict(zip(map(_key, one := singles(entries)), one, strict=True)).values()), now)


def _key(entry: MemoEntry) -> bytes:
    return memo_key(entry.route_key, entry.spec_digest, entry.prompt)


def _entry_table(last: list[MemoEntry], now: float) -> pa.Table:
    made = [int((now if e.created_at is None else e.created_at) * 1e6) for e in last]
    return pa.table(
        {
            "key": pa.array(map(_key, last), pa.binary()),
            "route_key": text_array([e.route_key for e in last]),
            "spec_digest": text_array([e.spec_digest for e in last]),
            "text": text_array([e.text for e in last]),
            "kind": text_array([e.kind for e in last]),
            "input_tokens": pa.array([e.input_tokens for e in last], pa.int64()),
            "output_tokens": pa.array([e.output_tokens for e in last], pa.int64()),
            "dollars": pa.array([e.dollars for e in last], pa.float64()),
            "stop": text_array([e.stop for e in last]),
            "created_at": pa.array(made, pa.timestamp("us")),
        }
    )


def retry_conflicts(write: Callable[[], object], patience_s: float = CONFLICT_PATIENCE_S) -> None:
    """Calls ``write``, a whole transaction, until it meets no other; after ``patience_s`` seconds its error is raised.

    All other errors are raised at once: a full disk is a TransactionException too.
    """
    end, wait = time.monotonic() + patience_s, 0.002
    while True:
        try:
            write()
            return
        except (duckdb.TransactionException, duckdb.ConstraintException) as error:
            if time.monotonic() >= end or not CONFLICT.search(str(error)):
                raise
        time.sleep(random.uniform(0.0, wait))
        wait = min(wait * 1.5, 0.1)


@contextlib.contextmanager
def registered(con: DuckDBPyConnection, name: str, rows: Any) -> Iterator[None]:
    """Gives an Arrow table a name on one connection for the time of the block."""
    con.register(name, rows)
    try:
        yield
    finally:
        with contextlib.suppress(
            duckdb.Error
        ):  # must not hide the block's own error; the next registration replaces the name
            con.unregister(name)
