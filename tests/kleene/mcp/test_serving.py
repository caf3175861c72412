"""``kleene mcp serve`` as callers see it: what they get, what they may not, and that they may stop waiting."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kleene
from kleene.planner.specs import Usage
from kleene.runs.grants import granted
from kleene.udfs.runtime import Runtime
from tests.kleene.engines import CountingModel

pytest.importorskip("mcp")

import mcp_types
from mcp import Client

from kleene.mcp.serving import Rules, answer_of, server_of, tools_of
from tests.patience import AT_ONCE_S, until

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11"


class Caller:
    """A client in this process, on a loop of its own, so that tests are plain functions."""

    def __init__(self, engine: Any, rules: Rules):
        self._runtime = Runtime("caller")
        self._server = server_of(engine, rules)
        self.progress: list[str | None] = []

    async def _ask(self, name: str, given: dict[str, Any]) -> mcp_types.CallToolResult:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            self.progress.append(message)

        async with Client(self._server) as client:
            await client.list_tools()
            return await client.call_tool(name, given, progress_callback=progress)

    def begin(self, name: str, **given: Any) -> Any:
        return self._runtime.submit(self._ask, name, given)

    def ask(self, name: str, **given: Any) -> dict[str, Any]:
        """The structured result, which is what its text says too."""
        result = self.begin(name, **given).wait(30)
        assert not result.is_error, result.content[0].text
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    def refused(self, name: str, **given: Any) -> str:
        result = self.begin(name, **given).wait(30)
        assert result.is_error and result.structured_content is None
        return result.content[0].text

    def close(self) -> None:
        self._runtime.close()


@pytest.fixture
def shop(folders: Path) -> Path:
    path = folders / "shop.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE mails AS FROM (VALUES (1, 'ä'), (2, 'b'), (3, NULL)) v(id, body)")
    return path


class Served:
    def __init__(self, shop: Path, rules: Rules, **options: Any):
        self.model = CountingModel(options.pop("rule", lambda prompt: prompt.upper()))
        self.done: list[str] = []
        self.k = kleene.connect(
            shop,
            models=kleene.FunctionModel(self.model),
            store=":memory:",
            workspace=shop.parent / "work",
            trust="model",
            locked=True,
            read_only=not rules.writes,
            tools=[kleene.tool(self.note, volatility="volatile")],
            **options,
        )
        self.k.state.catalog = granted(self.k.state.catalog, rules.allow, approved=False)
        self.caller = Caller(self.k, rules)

    def note(self, text: str) -> str:
        self.done.append(text)
        return "noted"

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        self.caller.close()
        self.k.close()


@pytest.fixture
def served(shop: Path) -> Iterator[Served]:
    with Served(shop, Rules(max_rows=2)) as served:
        yield served


def test_statements_give_rows_and_what_they_used(served: Served) -> None:
    found = served.caller.ask("callsql", sql="SELECT id, llm(body) AS said FROM mails ORDER BY id")
    assert found["columns"] == [{"name": "id", "type": "INTEGER"}, {"name": "said", "type": "VARCHAR"}]
    assert found["rows"] == [{"id": 1, "said": "Ä"}, {"id": 2, "said": "B"}]
    assert (found["row_count"], found["truncated"]) == (3, True)
    assert (found["usage"]["calls"], served.model.calls) == (2, 2)
    assert served.caller.ask("callsql", sql="SELECT llm('b')")["usage"]["from_memo"] == 1
    assert served.caller.ask("callsql", sql="FROM mails", max_rows=1)["rows"] == [{"id": 1, "body": "ä"}]


def test_explain_asks_nothing(served: Served) -> None:
    found = served.caller.ask("explain", sql="SELECT llm(body) FROM mails")
    assert (found["calls"], served.model.calls) == (2, 0)
    assert "2 calls" in found["plan"]


def test_a_run_answers_a_task(shop: Path) -> None:
    def rule(prompt: str) -> str:
        return "```sql\nFINAL FROM (SELECT text, (SELECT count(*) FROM mails) AS n FROM ctx)\n```"

    with Served(shop, Rules(), rule=rule) as served:
        found = served.caller.ask("run", task="Go", context="/etc/passwd", tables=["mails"], budget={"calls": 2})
        assert (found["outcome"], found["turns"]) == ("final", 1)
        assert found["answer"]["rows"] == [{"text": "/etc/passwd", "n": 3}]
        result = served.caller.begin("run", task="Go", budget={"calls": 0}).wait(30)
        assert (result.is_error, result.structured_content["outcome"]) == (True, "budget_exhausted")
        told = served.caller.refused("run", task="Go", tables=["read_text('/etc/passwd')"])
        assert told == "error: tables is [\"read_text('/etc/passwd')\"]\nhint: there are mails"


REFUSED = (
    ("FROM '/etc/passwd'", "looks like a file"),
    ("FROM read_text('/etc/passwd')", "read_text is not available here"),
    ("COPY mails TO '/tmp/x.csv'", "COPY is not available here"),
    ("ATTACH 'x.db'", "ATTACH and DETACH"),
    ("SET memory_limit = '1TB'", "memory_limit"),
    ("INSTALL httpfs", "INSTALL"),
    ("CALL note('x')", "there is no function note here"),
    ("SELECT * FROM note('x')", "note"),
    ("INSERT INTO mails VALUES (9, 'x')", "read-only"),
    ("DROP TABLE mails", "read-only"),
    ("CREATE TABLE t AS SELECT 1", "read-only"),
    ("SELEC 1", "cannot be read"),
    ("SELECT 1/0 + 'x'", "Could not convert"),
    ("FROM pg_settings", "there is no table pg_settings"),
    ("FROM duckdb_databases", "there is no table duckdb_databases"),
    ("FROM trace_calls_of_others", "there is no table"),
)


def test_what_callers_may_not_is_told(served: Served) -> None:
    for sql, told in REFUSED:
        assert told in served.caller.refused("callsql", sql=sql), sql
    assert served.done == []
    assert served.caller.ask("callsql", sql="SELECT count(*) AS n FROM mails")["rows"] == [{"n": 3}]


def test_writes_and_effects_where_they_are_granted(shop: Path) -> None:
    with Served(shop, Rules(writes=True, allow=("note",))) as served:
        served.caller.ask("callsql", sql="INSERT INTO mails VALUES (9, 'x')")
        served.caller.ask("callsql", sql="CALL note(body) FROM mails WHERE id = 9")
        assert served.done == ["x"]
        assert "looks like a file" in served.caller.refused("callsql", sql="FROM '/etc/passwd'")
    with duckdb.connect(str(shop)) as con:
        assert con.execute("SELECT count(*) FROM mails").fetchone() == (4,)


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("callsql", {}, "error: sql is null, not a text"),
    ("callsql", {"sql": 3}, "error: sql is 3, not a text"),
    ("callsql", {"sql": "FROM mails", "max_rows": 0}, "error: max_rows is 0, not a whole number of 1 or more"),
    ("callsql", {"sql": "FROM mails", "max_rows": "x"}, "error: max_rows is 'x', not a whole number of 1 or more"),
    ("run", {"task": "x", "budget": {"euros": 1}}, "error: budget is {'euros': 1}"),
    ("run", {"task": "x", "budget": {"calls": -1}}, "error: budget.calls is -1, not a number of 0 or more"),
    ("drop", {}, "error: there is no tool drop\nhint: there are callsql, explain, run"),
)


def test_wrong_arguments_are_told(served: Served) -> None:
    for name, given, told in WRONG:
        assert served.caller.refused(name, **given).startswith(told), given


def test_the_budget_is_everybodys(shop: Path) -> None:
    with Served(shop, Rules(), budget=kleene.Budget(calls=2)) as served:
        served.caller.ask("callsql", sql="SELECT llm(x) FROM (VALUES ('1'), ('2')) v(x)")
        told = served.caller.refused("callsql", sql="SELECT llm('3')")
        assert "budget" in told
        assert served.model.calls == 2


def test_a_request_that_is_cancelled_ends_and_the_next_runs(served: Served) -> None:
    task = served.caller.begin("callsql", sql=ENDLESS)
    until(lambda: served.k._running is not None)
    task.cancel()
    began = time.monotonic()
    assert served.caller.ask("callsql", sql="SELECT 1 AS a")["rows"] == [{"a": 1}]
    assert time.monotonic() - began < AT_ONCE_S


def test_a_request_has_a_wall_and_says_how_far_it_is(shop: Path) -> None:
    with Served(shop, Rules(wall_s=1.5)) as served:
        told = served.caller.refused("callsql", sql=ENDLESS)
    assert (
        told == "error: not done within 1.5 seconds\nhint: ask for less at once, or serve with a larger --budget-wall"
    )
    assert served.caller.progress == ["0 calls, $0.0000"]


def test_hints_say_what_a_server_may_do() -> None:
    def hints(rules: Rules) -> list[tuple[bool | None, bool | None]]:
        return [
            (t.annotations.read_only_hint, t.annotations.destructive_hint) for t in tools_of(rules) if t.annotations
        ]

    assert hints(Rules()) == [(True, False), (True, None), (True, False)]
    assert hints(Rules(writes=True)) == [(False, True), (True, None), (True, False)]
    assert hints(Rules(allow=("note",))) == [(False, True), (True, None), (False, True)]


def test_an_answer_is_cut_at_its_bytes() -> None:
    with kleene.connect(store=":memory:") as k:
        found = answer_of(k.sql("SELECT repeat('x', 100000) AS a FROM range(50)"), 1000)
    assert (len(found["rows"]), found["row_count"], found["truncated"]) == (10, 50, True)
    assert answer_of(kleene.Result((), (), message="done", usage=Usage()), 5)["message"] == "done"


@pytest.mark.slow
def test_kleene_may_ask_kleene(folders: Path) -> None:
    """Over stdio, as any caller starts it; the server's own servers are off."""
    model = folders / "model.py"
    model.write_text("def answer(request):\n    return request.messages[-1].text.upper()[:1]\n", "utf-8")
    start = ["-m", "kleene", "mcp", "serve", "--model-script", f"{model}:answer", "--budget-calls", "9"]
    root = str(Path(__file__).resolve().parents[3])
    entry = {"command": sys.executable, "args": start, "env": {"PYTHONPATH": root}}
    with kleene.connect(store=":memory:", workspace=folders / "work", mcp={"kleene": entry}) as k:
        assert k.notes == []
        with pytest.raises(kleene.PlanError, match="mcp_kleene_callsql has effects"):
            k.sql("SELECT * FROM mcp_kleene_callsql('SELECT 1')")  # in memory it may write
        rows = k.sql("CALL mcp_kleene_callsql('SELECT llm(''abc'') AS a')")
        assert rows.fetchall()[0][rows.columns.index("row_count")] == 1
        assert k.sql("SELECT calls FROM mcp_kleene_explain('SELECT llm(''abc''), llm(''new'')')").fetchall() == [(1,)]
