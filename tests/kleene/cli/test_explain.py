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
