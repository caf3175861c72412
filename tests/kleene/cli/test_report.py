"""``report`` and ``explain --html``, on the store of a real run with children."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kleene.planner.specs import Price
from tests.kleene.cli.doubles import invoke
from tests.kleene.reports.traces import Page
from tests.kleene.scripted import Script, sql

EACH = "SELECT answer FROM ctx CROSS JOIN LATERAL rlm('First <b>word</b>?', ctx.text) r WHERE llm_bool('Long? ' || ctx.text)"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """The store, the run's id and its dollars as the run says them."""
    import kleene

    path = tmp_path_factory.mktemp("report") / "run.duckdb"
    script = Script(sql(EACH), sql("FINAL FROM ctx"), children=[sql("FINAL FROM (SELECT left(text, 3) AS w FROM ctx)")])
    k = kleene.connect(store=path, models=kleene.FunctionModel(script, price=Price(3.0, 15.0)))
    try:
        run = k.run("Which <i>words</i>?", context="alpha\n\n漢字 <script>alert(1)</script>")
        assert run.outcome == "final"
        return path, run.run_id, run.usage.dollars
    finally:
        k.close()


def test_a_report_is_a_page_of_the_run(ran: tuple[Path, str, float], tmp_path: Path) -> None:
    store, key, _ = ran
    target = tmp_path / "é.html"
    done = invoke("report", key[:-2], "--html", str(target), "--store", str(store))
    assert (done.code, done.out) == (0, "") and done.err.splitlines()[-1].startswith(f"wrote {target} (")
    page = Page(target.read_text(encoding="utf-8"))
    for said in (
        "Which <i>words</i>?",
        "First <b>word</b>?",
        "漢字 <script>alert(1)</script>",
        "By operator",
        "Turn 2",
    ):
        assert said in page.text
    assert "script" not in {tag for tag, _ in page.elements}
    assert invoke("report", "--html", "-", "--store", str(store)).out == target.read_text(encoding="utf-8")


def test_without_a_page_the_cost_is_rows_that_add_up_to_the_runs(ran: tuple[Path, str, float]) -> None:
    store, _, dollars = ran
    rows = [json.loads(line) for line in invoke("report", "--store", str(store)).out.splitlines()]
    for by in ("all", "alias", "operator", "depth"):
        assert sum(r["dollars"] or 0 for r in rows if r["by"] == by) == pytest.approx(dollars, abs=1e-9)
    assert [(r["name"], r["requests"]) for r in rows if r["by"] == "depth"] == [("depth 0", 4), ("depth 1", 2)]


def test_what_cannot_be_shown_or_written_is_a_usage_error(ran: tuple[Path, str, float], tmp_path: Path) -> None:
    store = str(ran[0])
    done = invoke("report", "nosuch", "--store", store)
    assert done.code == 2
    assert done.err.endswith("error: there is no run nosuch in the store\nhint: python -m kleene runs lists them\n")
    done = invoke("report", "--html", str(tmp_path / "no" / "x.html"), "--store", store)
    assert done.code == 2 and "x.html cannot be written: No such file or directory" in done.err


def test_a_plan_is_a_page(tmp_path: Path) -> None:
    text = "SELECT llm('</pre><script>' || i) FROM range(3) t(i) WHERE llm_bool('x' || i)"
    done = invoke("explain", text, "--html", "-", "--store", str(tmp_path / "s.duckdb"), real=True)
    page = Page(done.out)
    assert done.code == 0
    assert "script" not in {tag for tag, _ in page.elements}
    for said in (text, "llm('</pre><script>' || i)", "waits for #2; pass rate 0.5 assumed", "≈ 5", "counted"):
        assert said in page.text
    pure = Page(invoke("explain", "SELECT 1", "--html", "-", "--store", str(tmp_path / "s.duckdb"), real=True).out)
    assert "no calls: DuckDB runs the statement as it is" in pure.text
