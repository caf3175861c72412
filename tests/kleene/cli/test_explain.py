from __future__ import annotations

import json

import pytest

from tests.kleene.cli.doubles import Engine, Estimate, Plan, invoke

PLAN = Plan(text="scan mails\ntotal: 3 calls", duckdb_sql="SELECT kleene_get_text('1:1', x)", estimate=Estimate(3, 0.5))


@pytest.mark.parametrize(
    ("form", "out"), [("text", "scan mails\ntotal: 3 calls\n"), ("sql", "SELECT kleene_get_text('1:1', x)\n")]
)
def test_a_plan_is_printed_in_the_form_that_is_asked_for(form: str, out: str) -> None:
    engine = Engine(plan=PLAN)
    done = invoke("explain", "SELECT 1", "--plan", form, engine=engine)
    assert (done.code, done.out, engine.asked, engine.closed) == (0, out, [], True)


def test_a_plan_is_json_for_programs() -> None:
    assert json.loads(invoke("explain", "x", "--plan", "json", engine=Engine(plan=PLAN)).out) == {
        "estimate": {"calls": 3, "dollars": 0.5}
    }


def test_the_format_of_rows_stands_for_the_form_of_a_plan_where_there_is_one() -> None:
    assert (
        json.loads(invoke("explain", "x", "--format", "json", engine=Engine(plan=PLAN)).out)["estimate"]["calls"] == 3
    )
    assert invoke("explain", "x", "--format", "table", engine=Engine(plan=PLAN)).out.startswith("scan mails")
    done = invoke("explain", "x", "--format", "csv", engine=Engine(plan=PLAN))
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: a plan has no form csv\nhint: --plan text, --plan json or --plan sql\n"
