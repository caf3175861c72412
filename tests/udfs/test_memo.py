"""kleene.udfs.memo: what was paid for is found again, by exactly what can change the answer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.udfs import memo as memo_module
from kleene.udfs.memo import MEMO_SCHEMA, Memo, MemoEntry, MemoWriter, memo_key, remembered
from kleene.udfs.text import clean

ROUTE, SPEC = "anthropic\nhttps://api.example\nm1", "a" * 64
ENTRY = MemoEntry(
    ROUTE, SPEC, "Is grass green?", "true", input_tokens=9, output_tokens=1, dollars=0.25, created_at=1000.5
)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(MEMO_SCHEMA)
        yield con


@pytest.fixture(params=[0, 64], ids=["in a join", "by key"])
def memo(con: duckdb.DuckDBPyConnection, request: pytest.FixtureRequest) -> Iterator[Memo]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memo_module, "BY_KEY", request.param)
        yield from opened(con)


def opened(con: duckdb.DuckDBPyConnection) -> Iterator[Memo]:
    memo = Memo(con, clock=lambda: 2000.0)
    yield memo
    memo.close()


def entry(prompt: str, text: str = "yes", **more: object) -> MemoEntry:
    return attrs.evolve(ENTRY, prompt=prompt, text=text, **more)  # type: ignore[arg-type]


def test_an_entry_comes_back_as_it_went_in(memo: Memo) -> None:
    memo.commit([ENTRY])
    assert memo.lookup(ROUTE, SPEC, ["no", ENTRY.prompt]) == {1: ENTRY}


def test_counts_that_were_not_reported_stay_unknown(memo: Memo) -> None:
    bare = MemoEntry(ROUTE, SPEC, "p", "", stop="length", kind="refused")
    memo.commit([bare])
    assert memo.lookup(ROUTE, SPEC, ["p"])[0] == attrs.evolve(bare, created_at=2000.0)


def test_equal_prompts_all_find_their_entry(memo: Memo) -> None:
    memo.commit([entry("a", "1"), entry("b", "2")])
    hits = memo.lookup(ROUTE, SPEC, ["b", "a", "c", "b"])
    assert {i: hits[i].text for i in hits} == {0: "2", 1: "1", 3: "2"}
    assert sorted(zip(hits.index, hits.texts, hits.kinds, strict=True)) == [
        (0, "2", "answer"),
        (1, "1", "answer"),
        (3, "2", "answer"),
    ]
    assert len(hits) == 3
    assert 2 not in hits


@pytest.mark.parametrize(
    ("route", "spec", "prompt"),
    [
        ("openai\nhttps://api.example\nm1", SPEC, "1"),
        (ROUTE, "b" * 64, "1"),
        (ROUTE + "a", SPEC[:-1], "1"),
        (ROUTE, SPEC, "1.0"),
        (ROUTE, SPEC, " 1"),
        (ROUTE, SPEC, "1\0"),
        (ROUTE, SPEC, "'1'"),
        (ROUTE, SPEC, ""),
    ],
    ids=["provider", "spec", "border between them", "float", "space", "NUL", "quotes", "empty"],
)
def test_anything_that_can_change_the_answer_misses(memo: Memo, route: str, spec: str, prompt: str) -> None:
    memo.commit([entry("1")])
    assert not memo.lookup(route, spec, [prompt])


def test_texts_that_differ_only_in_normal_form_are_two_prompts(memo: Memo) -> None:
    memo.commit([entry("caf\u00e9", "one"), entry("cafe\u0301", "two")])
    hits = memo.lookup(ROUTE, SPEC, ["cafe\u0301", "caf\u00e9"])
    assert (hits[0].text, hits[1].text) == ("two", "one")


def test_a_null_prompt_finds_nothing(memo: Memo) -> None:
    memo.commit([entry("")])
    assert list(memo.lookup(ROUTE, SPEC, pa.array([None, ""]))) == [1]


def test_no_prompts_make_no_hits(memo: Memo) -> None:
    memo.commit([])
    assert memo.lookup(ROUTE, SPEC, []) == {}


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\0", "\U0001f600", "x" * 1_000_000, "\ud83d", "\ud83d\ude00!", "$1 ' \" \\ %"],
    ids=["NUL inside", "only NUL", "emoji", "long", "lone surrogate", "pair", "signs"],
)
def test_any_text_goes_through_as_prompt_and_reply(memo: Memo, text: str) -> None:
    memo.commit([entry(text, text)])
    assert memo.lookup(ROUTE, SPEC, [text])[0].text == clean(text)


def test_fifty_megabytes_are_remembered(memo: Memo) -> None:
    memo.commit([entry("p" * 50_000_000, "r" * 50_000_000)])
    assert memo.lookup(ROUTE, SPEC, ["p" * 50_000_000])[0].text == "r" * 50_000_000


def test_the_newest_entry_of_a_key_stays(memo: Memo) -> None:
    memo.commit([entry("p", "old"), entry("p", "newer")])
    memo.commit([entry("p", "newest")])
    assert memo.lookup(ROUTE, SPEC, ["p"])[0].text == "newest"


def test_an_unknown_does_not_replace_an_answer_but_an_answer_an_unknown(memo: Memo) -> None:
    memo.commit([entry("p", "good"), entry("q", "Maybe", kind="unreadable")])
    memo.commit([entry("p", "Maybe", kind="unreadable"), entry("q", "true")])
    hits = memo.lookup(ROUTE, SPEC, ["p", "q"])
    assert (hits[0].text, hits[1].text) == ("good", "true")


def test_other_unknowns_than_refusals_are_served_only_when_asked_for(memo: Memo) -> None:
    memo.commit([entry("a", kind="refused"), entry("b", kind="unreadable")])
    assert set(memo.lookup(ROUTE, SPEC, ["a", "b"])) == {0}
    assert set(memo.lookup(ROUTE, SPEC, ["a", "b"], unknown=True)) == {0, 1}


@pytest.mark.parametrize(
    ("kind", "off", "on"), [("answer", True, True), ("refused", True, True), ("truncated", False, True)]
)
def test_refusals_are_remembered_and_other_unknowns_by_choice(kind: str, off: bool, on: bool) -> None:
    assert (remembered(kind), remembered(kind, memo_unknown=True)) == (off, on)


def test_entries_expire_by_age(memo: Memo) -> None:
    memo.commit([entry("old", created_at=1000.0), entry("new", created_at=1950.0)])
    assert list(memo.lookup(ROUTE, SPEC, ["old", "new"], max_age_s=100)) == [1]
    assert sorted(memo.lookup(ROUTE, SPEC, ["old", "new"])) == [0, 1]


def test_pruning_removes_the_old_or_all_and_counts(memo: Memo) -> None:
    memo.commit([entry("old", created_at=1000.0), entry("new", created_at=1950.0)])
    assert memo.prune(older_than_s=100) == 1
    assert memo.prune(older_than_s=100) == 0
    assert memo.prune() == 1
    assert memo.stats().entries == 0


def test_a_pruned_prompt_can_be_paid_for_again(memo: Memo) -> None:
    memo.commit([entry("p", "one")])
    memo.prune()
    memo.commit([entry("p", "two")])
    assert memo.lookup(ROUTE, SPEC, ["p"])[0].text == "two"


def test_the_stats_say_what_the_memo_is_worth(memo: Memo) -> None:
    memo.commit([entry("a", "éé"), entry("b", "no", kind="refused", route_key="local", created_at=1500.0)])
    stats = memo.stats()
    assert (stats.entries, stats.answers, stats.unknown, stats.routes, stats.bytes) == (2, 1, 1, 2, 6)
    assert (stats.input_tokens, stats.output_tokens, stats.dollars) == (18, 2, 0.5)
    assert (stats.oldest, stats.newest) == (1000.5, 1500.0)


def test_the_table_names_who_answered(memo: Memo, con: duckdb.DuckDBPyConnection) -> None:
    memo.commit([ENTRY])
    assert con.execute("SELECT provider, endpoint, model FROM memo").fetchall() == [
        ("anthropic", "https://api.example", "m1")
    ]


def test_the_key_in_python_is_the_key_in_sql(memo: Memo, con: duckdb.DuckDBPyConnection) -> None:
    memo.commit([entry("caf\u00e9 \ud83d")])
    [(key, digest)] = con.execute("SELECT key, prompt_digest FROM memo").fetchall()
    assert key == memo_key(ROUTE, SPEC, "caf\u00e9 \ud83d")
    assert digest == key[:32].hex()


def test_a_large_round_is_looked_up_in_one_join(memo: Memo) -> None:
    # Measured: a million prompts in 1.3 s on two busy cores. The bound here only catches work done row by row.
    prompts = [f"Is {i} prime?" for i in range(50_000)]
    memo.commit([entry(p) for p in prompts])
    start = time.perf_counter()
    hits = memo.lookup(ROUTE, SPEC, prompts)
    assert len(hits.texts) == len(hits.index) == 50_000
    assert time.perf_counter() - start < 3.0


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(codec=None, categories=None), max_size=30))
def test_mended_text_can_be_written_and_keeps_whole_characters(text: str) -> None:
    mended = clean(text)
    mended.encode()
    assert clean(mended) is mended
    assert mended.encode("utf-16-le") == text.encode("utf-16-le", "surrogatepass") or "\ufffd" in mended


@pytest.fixture
def file(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(tmp_path / "memo.duckdb")) as con:
        con.execute(MEMO_SCHEMA)
        yield con


def test_sixteen_threads_commit_the_same_keys_at_once(file: duckdb.DuckDBPyConnection) -> None:
    memos = [Memo(file) for _ in range(4)]
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for round_ in range(2):
                memos[n % 4].commit([entry(f"p{(n + i) % 20}", f"{n}/{round_}") for i in range(10)])
                assert memos[n % 4].lookup(ROUTE, SPEC, [f"p{n % 20}"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert memos[0].stats().entries == 20
    for memo in memos:
        memo.close()


def test_submissions_share_commits_and_are_done_after_them(file: duckdb.DuckDBPyConnection) -> None:
    memo = Memo(file)
    writer = MemoWriter(memo)
    seen: list[bool] = []
    for i in range(100):

        def done(error: BaseException | None, i: int = i) -> None:
            seen.append(error is None and 0 in memo.lookup(ROUTE, SPEC, [f"p{i}"]))

        writer.submit([entry(f"p{i}")], done)
    writer.flush()
    assert seen == [True] * 100
    assert writer.commits < 50
    writer.close()
    memo.close()


def test_a_commit_that_fails_tells_its_own_submitter_only(file: duckdb.DuckDBPyConnection) -> None:
    class Picky(Memo):
        def commit(self, entries: object) -> None:
            if any(e.text == "bad" for e in entries):  # type: ignore[attr-defined]
                raise duckdb.IOException("disk full")
            super().commit(entries)  # type: ignore[arg-type]

    memo = Picky(file)
    writer = MemoWriter(memo)
    results: dict[str, BaseException | None] = {}
    hold = threading.Event()
    writer.submit([entry("first")], lambda error: hold.wait() and None)
    for text in ("good", "bad", "fine"):
        writer.submit([entry(text, text)], lambda error, text=text: results.update({text: error}))  # type: ignore[misc]
    hold.set()
    writer.flush()
    assert results["good"] is results["fine"] is None
    assert str(results["bad"]) == "disk full"
    with pytest.raises(duckdb.IOException, match="disk full"):
        writer.commit([entry("again", "bad")])
    writer.close()
    assert set(memo.lookup(ROUTE, SPEC, ["good", "bad", "fine"])) == {0, 2}
    memo.close()


def test_closing_writes_what_waits_and_takes_no_more(file: duckdb.DuckDBPyConnection) -> None:
    memo = Memo(file)
    writer = MemoWriter(memo)
    for i in range(50):
        writer.submit([entry(f"p{i}")], lambda error: None)
    writer.close()
    writer.close()
    assert memo.stats().entries == 50
    with pytest.raises(RuntimeError, match="closed"):
        writer.commit([ENTRY])
    memo.close()


def test_a_full_queue_waits_for_the_writer(file: duckdb.DuckDBPyConnection) -> None:
    memo = Memo(file)
    writer = MemoWriter(memo, bound=3)
    for i in range(20):
        writer.submit([entry(f"p{i}"), entry(f"q{i}")], lambda error: None)
    writer.submit([entry(f"r{i}") for i in range(10)], lambda error: None)
    writer.close()
    assert memo.stats().entries == 50
    memo.close()


def test_a_look_up_imports_nothing_that_costs() -> None:
    """pyarrow.compute takes 0.1 s to import, most of a process's first statement over known answers."""
    script = (
        "import sys, duckdb, kleene\n"
        "k = kleene.attach(duckdb.connect(), store=':memory:', models=kleene.FunctionModel(lambda r: 'ok'))\n"
        "k.sql(\"SELECT llm('a')\")\n"
        "assert k.sql(\"SELECT llm('a')\").usage.memo_hits == 1\n"
        "k.close()\n"
        "assert 'pyarrow.compute' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
