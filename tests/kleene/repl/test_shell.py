from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kleene.cli.exits import Exit
from kleene.models import FunctionModel
from kleene.planner.errors import StoreLocked
from kleene.planner.roles import ROLES
from kleene.planner.specs import Price
from tests.kleene.cli.doubles import Engine, Estimate, Plan, answer
from tests.kleene.cli.doubles import said as message
from tests.kleene.repl.prompts import said, shell_on

ONE = """\
┌─────┐
│ one │
├─────┤
│   1 │
└─────┘
1 row
"""


def hello(request: Any) -> str:
    return "hello, " + request.prompt


def test_a_result_is_a_table(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed("SELECT 1 AS one;") is Exit.DONE
        assert said(shell) == (ONE, "")


def test_statements_run_in_order_until_one_fails(tmp_path: Path) -> None:
    engine = Engine()
    with shell_on(tmp_path, engine=engine) as shell:
        assert shell.feed("SELECT 1 AS one; SELECT 'x'::INTEGER; SELECT 3;") is Exit.FAILED
        out, err = said(shell)
    assert engine.asked == ["SELECT 1 AS one", "SELECT 'x'::INTEGER"]
    assert out == ONE and err.startswith("error: Conversion Error: Could not convert string 'x' to INT32")


def test_what_the_engine_has_to_say_is_said_once(tmp_path: Path) -> None:
    engine = Engine(notes=["one", "two"])
    with shell_on(tmp_path, engine=engine) as shell:
        shell.feed("SELECT 1 AS one;")
        engine.notes.append("three")
        assert said(shell) == (ONE, "note: one\nnote: two\n")
        shell.feed("SELECT 'x'::INTEGER;")
        assert said(shell)[1].startswith("note: three\nerror: ")
        shell.feed("SELECT 1 AS one;")
        assert said(shell) == (ONE, "")


def test_nothing_is_nothing(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert [shell.feed(text) for text in ("", " \n", ";", "-- a comment\n;")] == [Exit.DONE] * 4
        assert said(shell) == ("", "")


def test_an_error_has_its_place_and_a_hint(tmp_path: Path) -> None:
    with shell_on(tmp_path) as shell:
        assert shell.feed("SELECT 1 AS one;\nSELECT bdy FROM (SELECT 1 AS body);") is Exit.FAILED
        assert said(shell) == (
            ONE,
            'error: Referenced column "bdy" not found in FROM clause\n'
            "line 2: SELECT bdy FROM (SELECT 1 AS body);\n"
            "               ^^^\n"
            'hint: the nearest column is "body"\n',
        )


def test_a_fault_of_our_own_is_no_traceback(tmp_path: Path) -> None:
    def fail(text: str) -> Any:
        raise KeyError("inside")

    with shell_on(tmp_path, engine=Engine(on_sql=fail)) as shell:
        assert shell.feed("SELECT 1;") is Exit.FAILED
        assert (
            said(shell)[1]
            == "error: KeyError: 'inside'\nhint: this is a fault of Kleene's; --log debug shows where it happened\n"
        )


def test_an_engine_that_cannot_be_opened_ends_the_shell(tmp_path: Path) -> None:
    class Locked(Engine):
        def connect(self, path: str, **options: Any) -> Engine:
            raise StoreLocked("the store is locked", hint="wait")

    with shell_on(tmp_path, engine=Locked()) as shell:
        assert shell.feed("SELECT 1;") is Exit.LOCKED
        assert shell.done
        assert said(shell)[1] == "error: the store is locked\nhint: wait\n"


DEAR = Plan(estimate=Estimate(calls=12, dollars=3.0))


@pytest.mark.parametrize(("reply", "asked"), [("y\n", ["SELECT 1"]), ("n\n", []), ("", [])])
def test_a_dear_statement_is_asked_about(reply: str, asked: list[str], tmp_path: Path) -> None:
    engine = Engine(plan=DEAR)
    with shell_on(tmp_path, engine=engine, stdin=reply) as shell:
        code = shell.feed("SELECT 1;")
        err = said(shell)[1]
    assert err.startswith("This statement may cost $3.00 (12 calls). Run it? [y/N] ")
    assert engine.asked == asked
    assert code is (Exit.DONE if asked else Exit.REFUSED)


def test_null_wide_and_unsafe_cells(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed("SELECT NULL AS n, '日本' AS wide, chr(27) || '[2J' AS unsafe, 'a' || chr(10) || 'b' AS lines;")
        assert said(shell)[0].splitlines()[1:4:2] == [
            "│ n    │ wide │ unsafe  │ lines │",
            "│ NULL │ 日本 │ \\x1b[2J │ a\\nb  │",
        ]


def test_expanded_values_are_shown_in_full(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed("\\x")
        shell.feed(f"SELECT NULL AS n, 'one' || chr(10) || '{'x' * 100}' AS text;")
        assert said(shell)[0] == (
            f"── row 1 ────────────────────────────────────────\nn    │ NULL\ntext │ one\n     │ {'x' * 73}\n     │ {'x' * 27}\n1 row\n"
        )
        shell.feed("\\x off")
        shell.feed("SELECT 1 AS one;")
        assert said(shell)[0] == ONE


def test_a_huge_result_is_capped_with_a_note(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed("SELECT * FROM range(1234567);")
        lines = said(shell)[0].splitlines()
    assert len(lines) == 105
    assert lines[-1] == "1,234,567 rows: the first 100 are shown, \\o FILE.csv takes all"


def test_rows_go_to_a_file_and_back_to_the_screen(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed(f"\\o {tmp_path}/rows.csv")
        shell.feed("SELECT i AS a, NULL AS b FROM range(200) t(i);")
        assert said(shell) == ("", f"rows go to {tmp_path}/rows.csv; \\o alone brings them back\n")
        shell.feed("\\o")
        shell.feed("SELECT 1 AS one;")
        assert said(shell)[0] == ONE
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert (len(lines), lines[:2]) == (201, ["a,b", "0,"])
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed(f"\\o {tmp_path}/no/folder.csv") is Exit.USAGE
        shell.feed("SELECT 1 AS one;")
        assert said(shell)[0] == ONE


def test_a_file_is_run(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("\\timing on\nSELECT 1 AS one;\nSELECT\n  2; SELECT 3\n", encoding="utf-8")
    engine = Engine()
    with shell_on(tmp_path, engine=engine) as shell:
        assert shell.feed(f"\\i {script}") is Exit.DONE
        assert shell.timing
    assert engine.asked == ["SELECT 1 AS one", "SELECT\n  2", "SELECT 3"]


def test_a_file_stops_at_its_first_error(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("SELECT 'x'::INTEGER;\nSELECT 2;", encoding="utf-8")
    engine = Engine()
    with shell_on(tmp_path, engine=engine) as shell:
        assert shell.feed(f"\\i '{script}'") is Exit.FAILED
        assert said(shell)[1].endswith(f"error: {script} was not run to its end\n")
    assert engine.asked == ["SELECT 'x'::INTEGER"]


def test_a_file_cannot_run_itself(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text(f"\\i {script}\n", encoding="utf-8")
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed(f"\\i {script}") is Exit.USAGE
        assert f"error: {script} runs itself" in said(shell)[1]
        assert shell.feed("\\i /no/such/file") is Exit.USAGE
        assert shell.feed("\\i") is Exit.USAGE


def test_an_unknown_command_has_a_near_one(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed("\\tming on") is Exit.USAGE
        assert said(shell)[1] == "error: there is no command \\tming\nhint: did you mean \\timing?\n"
        assert shell.feed("\\timing perhaps") is Exit.USAGE


@pytest.mark.parametrize("text", ["\\q", "/quit", "exit", "quit;", "\\exit"])
def test_leaving(text: str, tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed(text) is Exit.DONE
        assert shell.done


def test_help_names_every_command(tmp_path: Path) -> None:
    from kleene.repl.commands import COMMANDS

    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed("\\?")
        out = said(shell)[0]
    for command in COMMANDS:
        assert f"\\{command.names[0]}" in out and command.summary in out
    assert all(len(line) <= 80 for line in out.splitlines()) and len(out.splitlines()) <= 23


def test_timing_is_said(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        shell.feed("\\timing")
        shell.feed("SELECT 1;")
        assert said(shell)[1].splitlines()[-1].startswith("time: 0.")


def test_a_file_that_is_not_there_is_told_without_advice_for_the_command_line(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine()) as shell:
        assert shell.feed("\\i nowhere.sql") is Exit.USAGE
        assert said(shell) == ("", "error: cannot read nowhere.sql: No such file or directory\n")


def test_a_message_of_a_statement_is_said(tmp_path: Path) -> None:
    with shell_on(tmp_path, engine=Engine(on_sql=lambda text: message("created function f"))) as shell:
        shell.feed("CREATE TABLE f (a INT);")
        assert said(shell) == ("", "created function f\n")


class TestWithTheEngine:
    """One engine for what needs a real one."""

    def test_a_session(self, tmp_path: Path) -> None:
        model = FunctionModel(hello, name="hello", price=Price(1.0, 1.0))
        with shell_on(tmp_path, model=model) as shell:
            shell.feed("CREATE TABLE mails AS SELECT 1 AS id, 'a' AS body; SELECT llm(body) AS x FROM mails;")
            out, err = said(shell)
            assert "│ hello, a │" in out
            assert "1 row\n" in err and "1 request" in err and "$" in err

            shell.feed("\\d")
            assert "│ mails │ table │       2 │" in said(shell)[0]
            shell.feed("\\d mails")
            assert "│ body        │ VARCHAR" in said(shell)[0]

            shell.feed("\\plan SELECT llm('b' || body) FROM mails")
            assert "1 call" in said(shell)[0]
            shell.feed("EXPLAIN SELECT llm('b' || body) FROM mails;")
            assert said(shell)[0].splitlines()[-2].startswith("total: 1 call")
            shell.feed("EXPLAIN SELECT 1;")
            assert "Projections: 1" in said(shell)[0]

            shell.feed("\\trace")
            assert "hello, a" in said(shell)[0]
            shell.feed("\\trace SELECT count(*) AS n FROM trace_calls")
            assert "│ 1 │" in said(shell)[0]

            shell.feed("\\budget calls 1")
            assert "│ calls     │ 1" in said(shell)[0]
            assert shell.fullest() == ("calls", 1.0)
            assert shell.feed("SELECT llm('c'), llm('d');") is Exit.REFUSED
            said(shell)
            shell.feed("\\budget off")
            assert "│ calls     │ NULL" in said(shell)[0]
            assert shell.feed("\\budget much") is Exit.USAGE

            shell.feed("\\df")
            assert "llm_bool" in said(shell)[0]
            shell.feed("\\da")
            assert f"│ {ROLES[0].name}" in said(shell)[0]
            shell.feed("\\models")
            assert "hello" in said(shell)[0]
            shell.feed("\\runs")
            assert "0 rows" in said(shell)[0]

            shell.worker.call(lambda engine: None)
            assert shell.names.tables["mails"] == ("id", "body")
            shell.feed("DROP TABLE mails;")
            shell.worker.call(lambda engine: None)
            assert "mails" not in shell.names.tables
            assert {"llm", "spawn"} <= set(shell.names.calls) and "range" in shell.names.table_functions
            assert shell.names.settings["memo"] == ("on", "off") and "threads" in shell.names.settings

    def test_on_a_screen_functions_and_models_are_brief_and_ones_own_come_first(self, tmp_path: Path) -> None:
        with shell_on(tmp_path, model=FunctionModel(hello, name="hello"), tty=True) as shell:
            shell.feed("CREATE FUNCTION zest(t TEXT) RETURNS TEXT AS PROMPT 'Zest? {t}';")
            said(shell)
            shell.feed("\\df")
            lines = said(shell)[0].splitlines()
            assert [cell.strip() for cell in lines[1].split("│")[1:-1]] == ["signature", "kind", "description"]
            assert lines[3].startswith("│ zest(t TEXT) -> TEXT ") and lines[4].startswith("│ embed(text VARCHAR")
            shell.feed("\\models")
            assert "│ worker │ hello │ python   │ free " in said(shell)[0]
            shell.feed(f"\\o {tmp_path / 'all.csv'}")
            shell.feed("\\df")
        assert (tmp_path / "all.csv").read_text(encoding="utf-8").startswith("name,signature,body,model,volatility,")

    def test_a_run(self, tmp_path: Path) -> None:
        def solve(request: Any) -> str:
            return "```sql\nFINAL(SELECT count(*) AS answer FROM people)\n```"

        with shell_on(tmp_path, model=FunctionModel(solve, name="solve")) as shell:
            shell.feed("CREATE TABLE people AS FROM range(7);")
            said(shell)
            assert shell.feed("/run --table people How many people are there?") is Exit.DONE
            out, err = said(shell)
            assert "│      7 │" in out
            assert (
                "note: no budget given" in err
                and "turn 1\n  FINAL(SELECT count(*) AS answer FROM people)" in err
                and "run 20" in err
            )
            shell.feed("\\trace SELECT outcome FROM trace_sessions")
            assert "final" in said(shell)[0]
            assert shell.feed("/resume") is Exit.FAILED
            assert "resume" in said(shell)[1]
            assert shell.feed("/run") is Exit.USAGE
            assert shell.feed("/run --max-turns x Why?") is Exit.USAGE

    def test_names_in_a_transaction_that_failed(self, tmp_path: Path) -> None:
        with shell_on(tmp_path) as shell:
            shell.feed("BEGIN; CREATE TABLE t (a INT);")
            shell.worker.call(lambda engine: None)
            assert shell.names.tables["t"] == ("a",)
            assert shell.feed("SELECT * FROM nothing;") is Exit.FAILED
            shell.feed("ROLLBACK;")
            said(shell)
            shell.feed("SELECT 1 AS one;")
            assert said(shell)[0] == ONE


def test_a_run_that_ran_out_of_turns_goes_on(tmp_path: Path) -> None:
    def solve(request: Any) -> str:
        done = len(request.messages) > 2
        return "```sql\nFINAL(SELECT 42 AS answer)\n```" if done else "```sql\nSELECT 1\n```"

    with shell_on(tmp_path, model=FunctionModel(solve, name="solve")) as shell:
        assert shell.feed("/run --max-turns 1 What is it?") is Exit.DONE
        assert "the turns ran out before an answer" in said(shell)[1]
        assert shell.feed("\\resume") is Exit.DONE
        assert "│     42 │" in said(shell)[0]


def test_what_a_cancelled_statement_still_reports_is_dropped() -> None:
    from kleene.repl.relay import Relay
    from kleene.udfs.events import RunOfStatement

    def event(statement: str) -> RunOfStatement:
        return RunOfStatement(at=0, statement=statement, run=1, notes=1, answered=0, seconds=0)

    relay, heard = Relay(streams=True), []
    relay(event("0"))
    with relay.heard_by(heard.append):
        relay(event("1"))
    with relay.heard_by(heard.append):
        relay(event("1"))
        relay(event("2"))
    assert heard == [event("1"), event("2")]


def test_a_script_on_stdin_is_run_until_its_first_error(tmp_path: Path) -> None:
    from tests.kleene.cli.doubles import invoke

    at = ("--workspace", str(tmp_path), "--store", ":memory:")
    done = invoke("repl", *at, stdin="\\timing off\nSELECT 1 AS a;\nSELECT 'x'::INTEGER;\nSELECT 3;\n", engine=Engine())
    assert (done.code, [json.loads(line) for line in done.out.splitlines()]) == (1, [{"a": 1}])
    done = invoke("repl", *at, stdin="SELECT 1 AS a", engine=Engine())
    assert (done.code, done.out) == (0, '{"a":1}\n')
    assert answer("SELECT 1").columns == ("1",)
