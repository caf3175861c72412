"""Statements plan with what those before them saw of the same calls: pass rates and the length of replies, in a later process too."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kleene
from kleene.udfs.experience import Lesson, Lessons
from tests.fake_server import Ask, FakeServer, Say
from tests.kleene.engines import CountingModel, engine

BOTH = "SELECT i FROM t WHERE f(v) AND g(v)"
SELECTED = "SELECT llm('Sum up ' || v) FROM t WHERE f(v)"


def answer(prompt: str) -> str:
    """TRUE for 90 % of what f is asked, for 5 % of what g is."""
    share = {"f": 90, "g": 5}.get(prompt[0], 0)
    return "true" if zlib.crc32(prompt.encode()) // 7 % 100 < share else "false"


def declare(k: kleene.Engine, rows: int = 600) -> None:
    k.sql("SET memo = off")
    k.sql(f"CREATE TABLE t AS SELECT i, 'v' || i AS v FROM range({rows}) r(i)")
    for name in "fg":
        k.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS BOOLEAN AS PROMPT '{name} {{x}}'")


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[kleene.Engine, CountingModel]]:
    with engine(CountingModel(answer)) as (k, model):
        declare(k)
        yield k, model


@pytest.fixture
def world(opened: tuple[kleene.Engine, CountingModel]) -> tuple[kleene.Engine, CountingModel]:
    """An engine to which nothing is known."""
    k, model = opened
    k.services.lessons = Lessons()
    k.sql("RESET estimates; SET memo = off")
    model.take()
    return opened


def explained(k: kleene.Engine, sql: str, start: str) -> str:
    return next(line for line in k.explain(sql).text.splitlines() if line.startswith(start))


def test_explain_tells_a_rate_that_was_learned(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    assert explained(k, SELECTED, "#1").endswith("≈ 300 calls, ~25800 tok, $0  (waits for #2; pass rate 0.5 assumed)")
    passed = len(k.sql("SELECT x.i FROM t AS x WHERE f(x.v)"))
    told = explained(k, SELECTED, "#1")
    assert told.endswith(f"(waits for #2; pass rate {passed / 600:.2g} learned from 600 answers of #2)")
    assert f"≈ {passed} calls" in told
    assert explained(k, "SELECT i FROM t WHERE NOT f(v) LIMIT 6", "#1").endswith(
        f"(stops at LIMIT 6; pass rate {1 - passed / 600:.2g} learned from 600 answers of #1; at most 600)"
    )


def test_an_order_that_was_learned_is_no_exact_estimate(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    k.sql(BOTH)
    plan = k.explain(BOTH)
    assert "(pass rates learned: #2 " in plan.text and not plan.exact
    assert explained(k, BOTH, "#2").endswith("≈ 600 calls, ~51600 tok, $0  (asked first, unless fewer pass another)")


def test_what_was_learned_is_a_table_and_can_be_switched_off(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    k.sql("SET estimates = off")
    k.sql("SELECT i FROM t WHERE f(v)")
    assert k.sql("FROM estimates").fetchall() == []
    k.sql("RESET estimates")
    passed = len(k.sql("SELECT i FROM t WHERE f(v)"))
    rows = k.sql("SELECT function, template, sel, output_tokens, n FROM estimates").fetchall()
    assert rows == [("f", "f {v}", passed / 600, None, 600)]
    k.sql("SET estimates = off")
    assert "assumed" in explained(k, SELECTED, "#1")


def test_a_later_process_knows_it_and_needs_no_pilot(tmp_path: Path) -> None:
    store = str(tmp_path / "run.duckdb")
    counts, rows = [], []
    for _ in range(2):
        with engine(CountingModel(answer), store=store) as (k, model):
            declare(k)
            rows.append(sorted(k.sql(BOTH).fetchall()))
            counts.append(model.take())
            least = 600 + len(k.sql("SELECT i FROM t WHERE g(v)"))
    assert rows[0] == rows[1]
    assert counts[0] > counts[1] == least


def test_an_order_that_was_learned_of_other_rows_is_tried_on_some_first(
    world: tuple[kleene.Engine, CountingModel],
) -> None:
    """The rates are the other way round now: what is learned costs a wave, not the statement."""
    k, model = world
    k.sql("SET estimates = off")
    wanted = sorted(k.sql(BOTH).fetchall())
    piloted = model.take()
    k.sql("SET estimates = on")
    k.services.lessons = Lessons(list)
    for site in k.explain(BOTH).sites:
        learn(k, site, rate=0.02 if site.site.label.startswith("f") else 0.95)
    assert sorted(k.sql(BOTH).fetchall()) == wanted
    assert piloted < model.take() <= piloted + 200


def learn(k: kleene.Engine, estimate: object, rate: float) -> None:
    """Make an engine believe that a site's calls pass so often."""
    from kleene.planner.experience import fingerprint
    from kleene.udfs.experience import Seen

    site = estimate.site  # type: ignore[attr-defined]
    lesson = Lesson(fingerprint(site), site.spec.function, site.asks)
    k.services.lessons.take(lesson, Seen(1000, round(1000 * rate)), truths=True)


@pytest.mark.parametrize(("name", "needed"), [("f", 20), ("g", 3)])
def test_a_limit_asks_in_fewer_rounds_and_no_more_calls(
    world: tuple[kleene.Engine, CountingModel], name: str, needed: int
) -> None:
    k, model = world
    sql = f"SELECT i FROM t WHERE {name}(v) ORDER BY i DESC LIMIT {needed}"
    k.sql("SET estimates = off")
    wanted = k.sql(sql).fetchall()
    unknown = model.take()
    k.sql("SET estimates = on")
    k.sql(f"SELECT i FROM t WHERE {name}(v)")
    model.take()
    assert k.sql(sql).fetchall() == wanted
    assert model.take() <= unknown


def test_a_join_needs_no_sample_of_what_is_known(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, model = world
    for table in "ab":
        k.sql(f"CREATE TABLE {table} AS SELECT '{table}' || i AS w FROM range(2) r(i)")
    sql = "SELECT count(*) FROM a, t, b WHERE f(a.w || t.v) AND g(t.v || b.w) AND t.i < 200"
    assert k.explain(sql).joins[0].sample is not None
    wanted = k.sql(sql).fetchall()
    sampled = model.take()
    (join,) = k.explain(sql).joins
    assert join.sample is None
    assert "pass rates #1 9" in join.lines()[0] and " learned from " in join.lines()[0]
    assert k.sql(sql).fetchall() == wanted
    assert model.take() < sampled


def test_the_length_of_replies_is_learned() -> None:
    def reply(ask: Ask) -> Say:
        return Say("fine", usage=(50, 300))

    with FakeServer(reply) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        with kleene.connect(store=":memory:", models=model) as k:
            k.sql("CREATE TABLE t AS SELECT 'v' || i AS v FROM range(40) r(i)")
            k.sql("SELECT llm('Sum up ' || v) FROM t LIMIT 20").fetchall()
            estimate = k.explain("SELECT llm('Sum up ' || x.v) FROM t AS x").estimate
            other = k.explain("SELECT llm('Say ' || x.v) FROM t AS x").estimate
            assert k.sql("SELECT output_tokens, n FROM estimates WHERE template = 'Sum up {v}'").fetchall() == [
                (300, 20)
            ]
    assert 300 <= estimate.tokens / estimate.calls < 400
    assert other.tokens / other.calls < 150


def test_a_call_behind_what_is_remembered_has_its_price(world: tuple[kleene.Engine, CountingModel]) -> None:
    """So that ``confirm.dollars`` sees it."""
    k, _ = world
    k.sql("SET memo = on")
    fresh = k.explain(SELECTED).sites[0]
    k.sql("SELECT i FROM t WHERE f(v)")
    k.sql("SET estimates = off")
    behind = k.explain(SELECTED).sites[0]
    assert (behind.calls, behind.tokens) == (fresh.calls, fresh.tokens)


def templates(k: kleene.Engine) -> list[tuple[str, str]]:
    return k.sql("SELECT function, template FROM estimates WHERE sel IS NOT NULL ORDER BY ALL").fetchall()  # type: ignore[return-value]


def test_of_a_prompt_without_a_rows_values_nothing_is_kept(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    k.sql("SELECT llm_bool('Is it late?'), f('v1'), llm_bool('Is it ' || i || '?') FROM t WHERE i = 1")
    told = [template for _, template in templates(k)]
    assert "Is it {i}?" in told and "Is it late?" not in told and "f v1" not in told


def test_where_texts_are_not_traced_a_templates_is_not_kept(world: tuple[kleene.Engine, CountingModel]) -> None:
    k, _ = world
    k.sql("SET trace_text = off")
    try:
        k.sql("SELECT i FROM t WHERE f(v) AND i < 9")
    finally:
        k.sql("RESET trace_text")
    assert ("f", "") in templates(k)
