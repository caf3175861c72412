"""A store that somebody else made, or that lies where it was not made, is not believed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
from pathlib import Path

import duckdb
import pytest

from kleene.planner.errors import ConfigError
from kleene.store import Store, TraceWriter
from kleene.store.origin import trust, untrusted
from kleene.store.readonly import open_readonly
from kleene.store.seal import KEY_FILE, Origin, user_key
from kleene.udfs.events import RunStarted
from tests.kleene.cli.doubles import invoke
from tests.kleene.engines import CountingModel, engine
from tests.kleene.scripted import Script, sql
from tests.kleene.scripted import engine as scripted

ASK = "SELECT llm_bool('Is this safe? rm -rf')"
SET_ASIDE = (
    "the store run.duckdb was not made by you at this place (a checkout, a copy or a moved folder brings such): nothing of it is used, and it was "
    "set aside as {}; if it is yours: python -m kleene memo trust"
)


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of somebody else, who makes stores for others to find."""
    return tmp_path / "other"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "checkout" / ".kleene" / "run.duckdb"


def answered(store: Path, answer: str = "true") -> tuple[int, list[str]]:
    """How many calls a question takes with this store, and what was said on opening it."""
    with engine(CountingModel(lambda _: answer), store=store) as (k, model):
        assert k.sql(ASK).fetchall() == [(answer == "true",)]
        return model.calls, [n for n in k.services.notes if "store" in n]


def planted(place: Path, other: Path) -> None:
    """A store at the place, with a wrong answer, made under another key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KLEENE_CONFIG_DIR", str(other))
        answered(place, "false")


def test_ones_own_store_is_believed_again(place: Path) -> None:
    assert [answered(place), answered(place)] == [(1, []), (0, [])]


def test_an_answer_of_a_planted_store_is_not_believed(place: Path, other: Path) -> None:
    planted(place, other)
    assert answered(place) == (1, [SET_ASIDE.format("run.duckdb.foreign")])
    assert answered(place) == (0, [])
    with pytest.MonkeyPatch.context() as patch:  # theirs is as it was
        patch.setenv("KLEENE_CONFIG_DIR", str(other))
        with duckdb.connect(str(place.with_name("run.duckdb.foreign"))) as con:
            assert con.execute("SELECT count(*) FROM memo").fetchone() == (1,)


def test_a_planted_run_is_not_gone_on_with(place: Path, other: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KLEENE_CONFIG_DIR", str(other))
        with scripted(Script(sql("SELECT 1")), store=place) as k:
            done = k.run("Write.", max_turns=1, allow=["write"])
    with scripted(Script(sql("CALL write_file('evil', 'x')")), store=place) as k:
        for run in (done.run_id, None):
            with pytest.raises(ConfigError, match="there is no run"):
                k.resume(run)


@pytest.mark.parametrize("how", ["copied", "moved folder"])
def test_a_store_is_its_makers_at_one_path_only(place: Path, tmp_path: Path, how: str) -> None:
    answered(place, "false")
    there = tmp_path / "elsewhere" / ".kleene" / "run.duckdb"
    if how == "copied":
        shutil.copytree(place.parent, there.parent)
    else:
        place.parents[1].rename(there.parents[1])
    assert answered(there) == (1, [SET_ASIDE.format("run.duckdb.foreign")])


def test_a_seal_of_ones_own_in_another_store_is_none(place: Path, other: Path) -> None:
    planted(place, other)
    with duckdb.connect(str(place)) as con:
        for name, seal in (("x", "0" * 64), ("", ""), (None, None)):
            con.execute("DELETE FROM kleene_origin")
            con.execute("INSERT INTO kleene_origin VALUES (?, ?)", [name, seal])
            con.execute("CHECKPOINT")
            assert not Origin.of(place).believes(con)
        con.execute("DROP TABLE kleene_origin")
        con.execute("CREATE VIEW kleene_origin AS SELECT error('it ran') AS name, '' AS seal")
    assert answered(place)[1] == [SET_ASIDE.format("run.duckdb.foreign")]


def test_a_store_from_before_there_were_seals_is_foreign_and_can_be_trusted(place: Path) -> None:
    answered(place)
    with duckdb.connect(str(place)) as con:
        con.execute("DROP TABLE kleene_origin")
    assert answered(place, "false")[0] == 1
    assert untrusted(place) == place.with_name("run.duckdb.foreign")
    before = trust(place, place.with_name("run.duckdb.foreign"))
    assert answered(place, "true") == (0, [])
    assert before == place.with_name("run.duckdb.before") and before.exists() and untrusted(place) is None


@pytest.mark.parametrize("sql", ["CREATE VIEW memo AS SELECT 1 AS x", "CREATE MACRO now() AS 1", "CREATE SCHEMA s_1"])
def test_a_file_with_objects_and_no_tables_is_no_empty_store(place: Path, sql: str) -> None:
    place.parent.mkdir(parents=True)
    with duckdb.connect(str(place)) as con:
        con.execute(sql)
    with pytest.raises(ConfigError, match="is a database that is not a store of kleene"):
        Store.open(place)


HIDDEN = [
    "CREATE SCHEMA x; CREATE TABLE x.kleene_version (version INT); CREATE VIEW main.kleene_version AS SELECT 4 AS version",
    "CREATE TABLE kleene_version (version INT); INSERT INTO kleene_version VALUES (4); CREATE MACRO duckdb_tables() AS TABLE "
    "SELECT 'kleene_version' AS table_name, 'x' AS schema_name, false AS internal",
    "CREATE TABLE memo (a INT); CREATE MACRO duckdb_tables() AS TABLE SELECT 'a' AS table_name, 'b' AS schema_name, false AS internal WHERE false",
    "CREATE TABLE kleene_version (version INT); CREATE MACRO count_star() AS 0; CREATE MACRO max(x) AS 4",
    "CREATE TABLE kleene_version (version INT); CREATE TABLE kleene_origin (x INT)",
    "CREATE TABLE kleene_version (version INT); CREATE TABLE kleene_origin (name VARCHAR, seal VARCHAR); "
    "INSERT INTO kleene_origin VALUES ('a', 'é'), (NULL, NULL)",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_what_a_file_says_of_itself_is_not_asked(place: Path, sql: str) -> None:
    place.parent.mkdir(parents=True)
    with duckdb.connect(str(place)) as con:
        con.execute(sql + "; CREATE TABLE IF NOT EXISTS poison AS SELECT 1 AS a")
    try:
        with Store.open(place) as store, store.cursor() as cursor:
            assert cursor.execute(
                "SELECT count(*) FROM system.main.duckdb_tables() WHERE table_name = 'poison'"
            ).fetchone() == (0,)
        assert place.with_name("run.duckdb.foreign").exists()
    except ConfigError as error:
        assert "is a database that is not a store of kleene" in str(error)


def test_a_store_is_trusted_where_it_lies_however_it_is_spelled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(place)
    monkeypatch.chdir(place.parent)
    assert trust(place, Path("run.duckdb")) is None
    assert answered(place) == (0, [])


def test_events_go_where_their_store_goes(place: Path, other: Path) -> None:
    planted(place, other)
    events = place.with_name("run.events.jsonl")
    events.with_name(events.name + ".1").write_text(events.read_text())
    answered(place)
    aside = place.with_name("run.duckdb.foreign")
    assert {p.name for p in place.parent.glob("*.foreign.events*")} == {
        "run.duckdb.foreign.events.jsonl",
        "run.duckdb.foreign.events.jsonl.1",
    }
    theirs = aside.with_name(aside.name + ".events.jsonl").read_text()
    trust(place, aside)
    head, _, rest = events.read_text().partition("\n")
    assert '"EventsSealed"' in head and rest == theirs
    assert Origin.of(place).wrote(events) and place.with_name("run.duckdb.before.events.jsonl").exists()


def test_events_that_a_checkout_brings_alone_are_not_shown(place: Path, other: Path) -> None:
    planted(place, other)
    events = place.with_name("run.events.jsonl")
    theirs = events.read_text()
    shutil.copy(events, events.with_name(events.name + ".1"))
    place.unlink()
    said: list[str] = []
    with Store.open(place) as store:
        names = ("run.events.jsonl.foreign", "run.events.jsonl.1.foreign")
        assert store.notes == (
            f"events beside the store run.duckdb were not written by you at this place: set aside as {', '.join(names)}",
        )
        assert [place.with_name(n).read_text() for n in names] == [theirs, theirs]
        events.write_text(theirs)  # brought while the store is in use
        with open_readonly(place, say=said.append) as con:
            assert con.execute("SELECT count(*) FROM trace_calls").fetchone() == (0,)
        with TraceWriter(store) as writer:
            writer(RunStarted(at=1.0, run="mine", task="t"))
            writer.flush()
        with open_readonly(place) as con:
            assert con.execute("SELECT count(*) FROM trace_runs").fetchone() == (0,)
        events.unlink()
        with TraceWriter(store) as writer:
            writer(RunStarted(at=2.0, run="mine too", task="t"))
            writer.flush()
            with open_readonly(place, say=said.append) as con:
                assert con.execute("SELECT run FROM trace_runs").fetchall() == [("mine too",)]
    busy = "the store is in use by another connection"
    assert said == [
        f"{busy}, and run.events.jsonl was not written by you at this place: the trace is empty",
        f"{busy}: the trace is read from run.events.jsonl, which may not go back to its beginning",
    ]


@pytest.mark.parametrize(
    "head", ["", "{", "[]", "null", '{"event":"EventsSealed"}', '{"event":"EventsSealed","seal":1}', "[" * 4000]
)
def test_a_head_that_is_none(place: Path, head: str) -> None:
    place.parent.mkdir(parents=True)
    events = place.with_name("run.events.jsonl")
    events.write_text(head + "\n")
    assert not Origin.of(place).wrote(events)
    answered(place)
    assert Origin.of(place).wrote(events) and not Origin.of(place.with_name("x.duckdb")).wrote(events)


@pytest.mark.parametrize("name", ["shop.db", "shop.duckdb", ".kleene/notes.txt"])
def test_what_is_no_store_is_neither_trusted_nor_renamed(place: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"mine" * 5000)
    with pytest.raises(ConfigError, match=r"is not a DuckDB database|is corrupt"):
        trust(place, file)
    done = invoke("memo", "trust", str(file), "--yes", "--workspace", str(tmp_path))
    assert done.code == 2 and str(file) in done.err
    assert file.read_bytes() == b"mine" * 5000 and not list(tmp_path.glob("**/*.corrupt"))


def test_a_file_system_without_links_keeps_a_key_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", link)
    key = user_key(tmp_path / "own")
    assert key is not None and user_key(tmp_path / "own") == key


def test_threads_that_find_a_planted_store_agree_on_one_of_their_own(place: Path, other: Path) -> None:
    planted(place, other)
    start, stores, errors = threading.Barrier(4), list[Store](), list[BaseException]()

    def run() -> None:
        start.wait()
        try:
            stores.append(Store.open(place))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with stores[0].cursor() as cursor:
        cursor.execute("INSERT INTO kleene_memory VALUES ('a', 'b', now()::TIMESTAMP)")
    for store in stores:
        with store.cursor() as cursor:
            assert cursor.execute("SELECT count(*), (SELECT count(*) FROM memo) FROM kleene_memory").fetchone() == (
                1,
                0,
            )
        store.close()
    assert sorted(p.name for p in place.parent.glob("*.foreign*")) == [
        "run.duckdb.foreign",
        "run.duckdb.foreign.events.jsonl",
    ]
    assert answered(place) == (1, [])


def test_a_reader_is_told_whose_word_it_reads(place: Path, other: Path) -> None:
    planted(place, other)
    said: list[str] = []
    open_readonly(place, say=said.append).close()
    assert said == ["the store was not made by you at this place: what it says is somebody else's word"]
    answered(place)
    open_readonly(place, say=said.append).close()
    assert len(said) == 1


def test_the_key_is_private_and_made_once(tmp_path: Path) -> None:
    keys: list[bytes | None] = []
    threads = [threading.Thread(target=lambda: keys.append(user_key(tmp_path / "own"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file = tmp_path / "own" / KEY_FILE
    assert set(keys) == {file.read_bytes()} and len(file.read_bytes()) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and os.listdir(file.parent) == [KEY_FILE]
    assert repr(Origin.of(tmp_path / "x", file.parent)) == f"Origin(path={str(tmp_path / 'x')!r})"


@pytest.mark.parametrize("broken", ["a file", "an empty key"])
def test_without_a_key_nothing_is_believed_and_that_is_said(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    own = tmp_path / "own"
    if broken == "a file":
        own.write_text("")
    else:
        own.mkdir()
        (own / KEY_FILE).touch()
    monkeypatch.setenv("KLEENE_CONFIG_DIR", str(own))
    note = f"no key can be kept in {own}: this store will not be believed when it is opened again"
    with Store.open(place) as store:
        assert store.notes == (note,)
    for _ in range(2):  # it may be the user's own: it is neither believed nor renamed
        with pytest.raises(ConfigError, match=r"whether the store .* is yours cannot be told"):
            Store.open(place)
    assert [p.name for p in place.parent.glob("*.foreign*")] == []


def test_trust_from_the_command_line(place: Path, other: Path) -> None:
    planted(place, other)
    options = ("--workspace", str(place.parents[1]))
    none = invoke("memo", "trust", *options, "--store", str(place.with_name("none.duckdb")))
    assert none.code == 2 and "no store was set aside" in none.err
    asked = invoke("memo", "trust", *options)
    assert asked.code == 2 and "nothing was changed" in asked.err
    done = invoke("memo", "trust", "--yes", *options)
    assert done.code == 0 and re.search(r"run\.duckdb is trusted", done.err), done.err
    assert answered(place, "false") == (0, [])
