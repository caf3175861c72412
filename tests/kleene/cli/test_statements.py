from __future__ import annotations

from kleene.planner.errors import PlanError
from kleene.planner.specs import Span
from tests.kleene.cli.doubles import Answer, Engine, answer, invoke


def test_the_rows_of_every_query_are_printed() -> None:
    engine = Engine()
    assert invoke("sql", "SELECT 1 AS a; -- one\nSELECT 2 AS b;", engine=engine).out == '{"a":1}\n{"b":2}\n'
    assert engine.asked == ["SELECT 1 AS a", "SELECT 2 AS b"]


def test_how_many_rows_a_write_changed_is_a_note() -> None:
    engine = Engine(on_sql=lambda text: answer('SELECT 3 AS "Count"'))
    done = invoke("sql", "INSERT INTO t VALUES (1), (2), (3)", engine=engine)
    assert (done.out, done.err) == ("", "3 rows\n")
    assert invoke("sql", 'SELECT count(*) AS "Count" FROM t', engine=engine).out == '{"Count":3}\n'


def test_an_error_points_into_the_whole_text() -> None:
    source = "SELECT 1 AS a;\n  SELECT bad(x)"

    def fail(text: str) -> Answer:
        if text == "SELECT 1 AS a":
            return answer(text)
        raise PlanError("no such function", span=Span.at(text, 7, 10), source=text)

    done = invoke("sql", source, engine=Engine(on_sql=fail))
    assert (done.code, done.out) == (1, '{"a":1}\n')
    assert done.err == "error: no such function\nline 2:   SELECT bad(x)\n                 ^^^\n"


def test_a_text_without_a_statement_is_a_usage_error() -> None:
    engine = Engine()
    done = invoke("sql", " ; -- nothing", engine=engine)
    assert (done.code, engine.asked) == (2, [])
    assert done.err.startswith("error: there is no statement to run\n")


def test_nothing_runs_where_a_later_statement_is_malformed() -> None:
    engine = Engine()
    done = invoke("sql", "SELECT 1; CREATE FUNCTION f(x TEXT) RETURNS", engine=engine)
    assert (done.code, done.out, engine.asked) == (1, "", [])
    assert done.err.startswith("error: ")
