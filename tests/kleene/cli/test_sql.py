from __future__ import annotations

from pathlib import Path

import pytest

from kleene.planner.specs import BudgetLimits, Usage
from tests.kleene.cli.doubles import Engine, Estimate, Plan, answer, invoke, said


def test_rows_are_json_lines_where_no_terminal_is() -> None:
    done = invoke("sql", "SELECT 1 AS a, 'x' AS b")
    assert (done.code, done.out, done.err) == (0, '{"a":1,"b":"x"}\n', "")


def test_rows_are_a_table_on_a_terminal() -> None:
    assert invoke("sql", "SELECT 1 AS a", tty=True).out == "┌───┐\n│ a │\n├───┤\n│ 1 │\n└───┘\n1 row\n"


def test_the_format_that_is_asked_for_wins() -> None:
    assert invoke("sql", "SELECT 1 AS a", "--format", "csv", tty=True).out == "a\n1\n"
    assert invoke("--format", "csv", "sql", "SELECT 1 AS a").out == "a\n1\n"


def test_a_dash_reads_stdin() -> None:
    assert invoke("sql", "-", stdin="SELECT 2 AS a").out == '{"a":2}\n'


def test_an_at_sign_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes("\ufeffSELECT 'é' AS a".encode())
    assert invoke("sql", f"@{tmp_path}/q.sql").out == '{"a":"é"}\n'


def test_a_file_that_is_not_there_is_a_usage_error() -> None:
    done = invoke("sql", "@nowhere.sql")
    assert (done.code, done.err) == (
        2,
        "error: cannot read nowhere.sql: No such file or directory\nhint: @FILE reads the text from a file; - reads stdin\n",
    )


def test_a_file_that_is_not_utf8_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes(b"SELECT '\xe9'")
    done = invoke("sql", f"@{tmp_path}/q.sql")
    assert (done.code, done.err) == (
        2,
        f"error: {tmp_path}/q.sql is not UTF-8: byte 8 is 0xe9\nhint: save it as UTF-8\n",
    )


def test_a_message_is_a_note_and_quiet_silences_it() -> None:
    engine = Engine(on_sql=lambda text: said("created function is_red"))
    done = invoke("sql", "CREATE FUNCTION ...", engine=engine)
    assert (done.out, done.err) == ("", "created function is_red\n")
    assert invoke("sql", "CREATE FUNCTION ...", "--quiet", engine=engine).err == ""


def with_unknown(count: int) -> Engine:
    return Engine(
        on_sql=lambda text: answer("SELECT 1 AS a", usage=Usage(unknown=count), warnings=(f"{count} unknown answers",))
    )


def test_unknown_answers_are_a_warning() -> None:
    done = invoke("sql", "x", engine=with_unknown(2))
    assert (done.code, done.out, done.err) == (0, '{"a":1}\n', "warning: 2 unknown answers\n")


def test_more_unknown_answers_than_allowed_are_an_error() -> None:
    done = invoke("sql", "x", "--max-unknown", "1", engine=with_unknown(2))
    assert (done.code, done.out) == (1, '{"a":1}\n')
    assert "error: 2 unknown answers, more than --max-unknown 1\n" in done.err
    assert invoke("sql", "x", "--max-unknown", "2", engine=with_unknown(2)).code == 0


def test_options_reach_the_engine(tmp_path: Path) -> None:
    engine = Engine()
    argv = [
        "--store",
        "s.duckdb",
        "--workspace",
        "w",
        "--budget-calls",
        "1_000",
        "--budget-dollars",
        "$2.50",
        "--budget-wall",
        "90s",
    ]
    invoke(
        "sql", "SELECT 1", "--database", "d.duckdb", "--model", "openai:m", "--replay", "r.jsonl", *argv, engine=engine
    )
    del engine.options["on_event"]
    assert engine.options == {
        "path": "d.duckdb",
        "store": "s.duckdb",
        "models": "openai:m",
        "workspace": "w",
        "budget": BudgetLimits(calls=1000, dollars=2.5, wall=90.0),
        "replay": "r.jsonl",
        "mcp": True,
    }


def test_the_store_is_in_the_workspace() -> None:
    engine = Engine()
    invoke("sql", "SELECT 1", "--workspace", "w", engine=engine)
    assert engine.options["store"] == "w/.kleene/run.duckdb"


def test_models_before_and_after_the_command_add_up() -> None:
    engine = Engine()
    invoke("--model", "root=openai:a", "sql", "SELECT 1", "--model", "worker=openai:b", engine=engine)
    assert engine.options["models"] == {"root": "openai:a", "worker": "openai:b"}


def test_a_model_without_an_alias_answers_for_the_others() -> None:
    engine = Engine()
    invoke("sql", "SELECT 1", "--model", "openai:a", "--model", "worker=openai:b", engine=engine)
    assert engine.options["models"] == {
        "root": "openai:a",
        "worker": "openai:b",
        "proxy": "openai:a",
        "judge": "openai:a",
    }


DEAR = Plan(estimate=Estimate(calls=410, dollars=1.234))


def test_a_dear_statement_is_refused_where_nobody_can_be_asked() -> None:
    engine = Engine(plan=DEAR)
    done = invoke("sql", "SELECT 1", engine=engine)
    assert (done.code, done.out, engine.asked) == (3, "", [])
    assert done.err == (
        "error: this statement may cost $1.23 (410 calls); above $0.10 it needs a budget or --yes\n"
        "hint: add --budget-dollars 2.47, or --yes; python -m kleene explain shows where it goes\n"
    )


@pytest.mark.parametrize("argv", [["--yes"], ["--budget-dollars", "0.01"], ["--budget-calls", "1"]])
def test_yes_or_a_budget_lets_a_dear_statement_run(argv: list[str]) -> None:
    engine = Engine(plan=DEAR)
    assert invoke("sql", "SELECT 1", *argv, engine=engine).code == 0
    assert engine.asked == ["SELECT 1"]


@pytest.mark.parametrize(
    ("typed", "code", "asked"), [("y\n", 0, ["SELECT 1"]), ("n\n", 3, []), ("", 3, []), ("yes\n", 0, ["SELECT 1"])]
)
def test_a_person_is_asked(typed: str, code: int, asked: list[str]) -> None:
    engine = Engine(plan=DEAR)
    done = invoke("sql", "SELECT 1", engine=engine, stdin=typed, tty=True)
    assert (done.code, engine.asked) == (code, asked)
    assert done.err.startswith("This statement may cost $1.23 (410 calls). Run it? [y/N] ")


@pytest.mark.parametrize("dollars", [0.0, 0.10])
def test_a_cheap_or_unpriced_statement_runs_without_a_word(dollars: float) -> None:
    assert invoke("sql", "SELECT 1", engine=Engine(plan=Plan(estimate=Estimate(dollars=dollars)))).code == 0
