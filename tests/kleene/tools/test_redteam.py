"""A hostile model, a hostile checkout and a tool that misbehaves gain nothing, and leave the session and the process usable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kleene
from kleene.tools import toolbox
from kleene.tools.effects import shortened
from kleene.tools.index import SearchIndex
from tests.kleene.scripted import Script, engine, sql

ENDLESS = "FROM range(3000000000) a, range(1000000) b"


def noting(done: list[str]) -> Any:
    def note(text: str) -> str:
        done.append(text)
        return f"noted {text}"

    return kleene.tool(note, volatility="volatile")


def told(*turns: str, tools: Any = (), allow: Any = (), **options: Any) -> list[str]:
    """What a session is told after each of its turns."""
    script = Script(*map(sql, turns), sql("FINAL(1)"))
    with engine(script, tools=list(tools), **options) as k:
        assert k.run("Go", allow=allow).outcome == "final"
    return [script.told(i + 1) for i in range(len(turns))]


@pytest.mark.parametrize("where", ["link", "pipe", "device"])
def test_instructions_are_read_from_inside_only(tmp_path: Path, where: str) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (tmp_path / "secret").write_text("TOPSECRET")
    planted = workspace / "AGENTS.md"
    if where == "pipe":
        os.mkfifo(planted)
    else:
        planted.symlink_to(tmp_path / "secret" if where == "link" else "/dev/zero")
    script = Script(sql("FINAL(1)"))
    with engine(script, workspace=workspace) as k:
        assert k.run("Go").outcome == "final"
    assert "TOPSECRET" not in script.asked()[0].messages[0].text


@pytest.mark.parametrize(
    "view",
    [
        f"CREATE VIEW plan AS SELECT count(*)::VARCHAR AS step, 'x' AS status {ENDLESS}",
        f"CREATE VIEW memory AS SELECT count(*)::VARCHAR AS key, 'x' AS value {ENDLESS}",
    ],
)
def test_what_is_read_between_turns_is_no_view(view: str) -> None:
    assert "created view" in told(view)[0]


def raising(error: type[BaseException]) -> Callable[[str], str]:
    def bad(text: str) -> str:
        raise error(text)

    return bad


def late(text: str) -> list[int]:
    def items() -> Iterator[int]:
        yield 1
        raise GeneratorExit

    return items()  # type: ignore[return-value]


@pytest.mark.parametrize("function", [raising(SystemExit), raising(KeyboardInterrupt), raising(GeneratorExit), late])
def test_a_tool_that_ends_the_program_ends_itself_only(function: Any) -> None:
    tools = [kleene.tool(function, name="bad"), kleene.tool(function, name="worse", volatility="volatile")]
    found = told("SELECT * FROM bad('x')", "CALL worse('x')", "SELECT 6 * 7", tools=tools, allow=["worse"])
    assert "error: bad('x') failed: " in found[0]
    assert "42" in found[2]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT * FROM range(4000000000)", "error: the query gives more than 1,000,000 rows"),
        ("SELECT i::HUGEINT FROM range(4000000000) t(i)", "error: the query gives more than 1,000,000 rows"),
        ("FINAL FROM (FROM range(4000000000))", "error: the query gives more than 1,000,000 rows"),
        ("CALL note(range::VARCHAR) FROM range(4000000000)", "error: the query gives more than 100,000 rows"),
        ("EXPLAIN CALL note(range::VARCHAR) FROM range(4000000000)", "error: the query gives more than 100,000 rows"),
    ],
)
def test_rows_are_bounded_before_they_are_gathered(statement: str, error: str) -> None:
    done: list[str] = []
    found = told(statement, "SELECT 6 * 7", tools=[noting(done)], allow=["note"])
    assert error in found[0]
    assert "42" in found[1]
    assert done == []


def test_what_tools_give_one_statement_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def long(n: int) -> str:
        return "x" * 1000

    monkeypatch.setattr(toolbox, "STATEMENT_BYTES", 50_000)
    found = told("SELECT count(*) FROM range(1000) r(i), LATERAL long(r.i)", "FROM long(1)", tools=[long])
    assert "the tools of this statement give more than 50,000 bytes" in found[0]
    assert "xxx" in found[1]


def test_a_sessions_duckdb_is_bounded() -> None:
    with engine(Script(sql("FINAL(1)"))) as k:
        cursor = k.services.store.cursor()
        spill = cursor.execute("SELECT current_setting('max_temp_directory_size')").fetchall()
        ours = cursor.execute("SELECT current_setting('memory_limit')").fetchall()
        cursor.close()
    assert spill == [("16.0 GiB",)]
    assert ours != duckdb.connect().execute("SELECT current_setting('memory_limit')").fetchall()


# -- approvals


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("# tidy up\nrm -rf .", r"# tidy up\nrm -rf ."),
        ("echo a\x1b[1A\x08 rm b", r"echo a\x1b[1A\x08 rm b"),
        ("echo\u3164\u2800 \u202ex", r"echo\u3164\u2800 \u202ex"),
        ("echo a" + " " * 5000 + "; rm b", "echo a ; rm b"),
    ],
)
def test_an_approval_shows_what_is_done(command: str, shown: str) -> None:
    assert shortened(command, 200) == shown
    asked: list[str] = []

    def approve(effect: kleene.Effect) -> bool:
        asked.append(str(effect))
        return False

    def note(text: str) -> str:
        raise AssertionError

    literal = "'" + command + "'"
    tools = [kleene.tool(note, volatility="volatile")]
    told(f"CALL shell({literal})", f"CALL note({literal})", tools=tools, allow=None, approve=approve)
    assert asked == [f"run: {shown}", f"note('{shown}')"]


def test_what_is_left_out_of_an_approval_is_counted() -> None:
    asked: list[str] = []

    def approve(effect: kleene.Effect) -> bool:
        asked.append(str(effect))
        return False

    told(f"CALL note('{'a' * 100}')", tools=[noting([])], allow=None, approve=approve)
    assert asked == [f"note('{'a' * 60}... (40 more)')"]


def test_explain_runs_no_command(tmp_path: Path) -> None:
    asked: list[str] = []

    def approve(effect: kleene.Effect) -> bool:
        asked.append(str(effect))
        return False

    with engine(Script(), workspace=tmp_path, approve=approve, tools=[noting([])]) as k:
        k.sql("CREATE FUNCTION who(a TEXT) RETURNS TEXT AS SHELL 'id {a}'")
        plan = k.sql("EXPLAIN CALL note(who('-u'))").plan
    assert plan is not None
    assert plan.endswith("then note, once a row")
    assert asked == []


def test_the_command_of_a_function_is_asked_for_its_session() -> None:
    asked: list[tuple[str, bool]] = []

    def approve(effect: kleene.Effect) -> bool:
        asked.append((str(effect), effect.session is not None))
        return False

    told("CREATE FUNCTION f(a TEXT) RETURNS TEXT AS SHELL 'id {a}'; SELECT f('x')", allow=None, approve=approve)
    assert asked == [('run: kleene_a=x\\nid "${kleene_a}"', True)]


# -- once


@pytest.mark.parametrize("around", ["", "EXPLAIN ANALYZE ", "EXPLAIN ANALYZE CREATE TABLE t AS "])
def test_effects_of_a_turn_that_runs_again_are_done_once(tmp_path: Path, around: str) -> None:
    """The turn is cancelled in the middle of the second CALL, and runs again in another engine."""
    done: list[str] = []

    def note(text: str) -> str:
        if text == "2" and "2" not in done and not again:
            k.cancel()
            return "never"
        done.append(text)
        return f"noted {text}"

    again = False
    tools = [kleene.tool(note, volatility="volatile")]
    turn = sql(f"{around}CALL note('first'); CALL note(range::VARCHAR) FROM range(4)")
    store = tmp_path / "run.duckdb"
    with engine(Script(turn, sql("FINAL(1)")), tools=tools, store=store) as k:
        assert k.run("Go", allow=["note"]).outcome == "cancelled"
    before = list(done)
    again = True
    script = Script(turn, sql("FINAL(1)"))
    with engine(script, tools=tools, store=store) as k:
        assert k.resume().outcome == "final"
    assert before == ["first", "0", "1"]
    assert sorted(done) in (["0", "1", "2", "3", "first"], ["0", "1", "3", "first"])
    assert done.count("first") == done.count("0") == done.count("1") == done.count("3") == 1


# -- the search index of somebody else


def planted(path: Path, statement: str) -> None:
    con = duckdb.connect(str(path))
    con.execute(
        "CREATE TABLE files(id BIGINT, path VARCHAR, size BIGINT, mtime_ns BIGINT, length BIGINT, text VARCHAR)"
    )
    con.execute(
        "CREATE TABLE words(file BIGINT, word VARCHAR, times BIGINT); CREATE TABLE version AS SELECT 1 AS number"
    )
    con.execute(statement)
    con.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE MACRO strip_accents(x) AS (SELECT count(*)::VARCHAR {ENDLESS})",
        f"DROP TABLE files; CREATE VIEW files AS SELECT count(*) AS id, '' AS path, 1 AS size, 1 AS mtime_ns, 1 AS length, '' AS text {ENDLESS}",
        f"DROP TABLE version; CREATE VIEW version AS SELECT count(*) AS number {ENDLESS}",
    ],
)
def test_nothing_of_a_planted_index_runs(tmp_path: Path, statement: str) -> None:
    (tmp_path / ".kleene").mkdir()
    planted(tmp_path / ".kleene" / "search.duckdb", statement)
    (tmp_path / "a.txt").write_text("the needle is here\n")
    with engine(Script(), workspace=tmp_path, store=tmp_path / "store" / "run.duckdb") as k:
        assert k.sql("SELECT path FROM search('needle')").fetchall() == [("a.txt",)]


@pytest.mark.parametrize("name", ["search.duckdb", "search.duckdb.wal", "search.duckdb.tmp"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_an_index_that_leads_elsewhere_is_not_used(tmp_path: Path, name: str, kind: str) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / ".kleene").mkdir(parents=True)
    place = work / ".kleene" / name
    if kind == "link":
        place.symlink_to(outside)
    else:
        os.mkfifo(place)
    index = SearchIndex(str(work))
    with index.session(lambda: None) as session:
        assert session.changed([]) == []
    index.close()
    assert not outside.exists()
