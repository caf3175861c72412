"""What PROXY and VIA declare: the rows they promise and the calls they save, counted at the model's side."""

from __future__ import annotations

import collections
from collections.abc import Iterator

import duckdb
import pytest

import kleene


@pytest.fixture
def world() -> Iterator[tuple[kleene.Engine, collections.Counter[str]]]:
    asked: collections.Counter[str] = collections.Counter()

    def rule(request):
        word, *numbers = request.messages[0].text.split("\n")[0].split(" ")
        asked[word] += 1
        values = [int(n) for n in numbers]
        if word == "same":
            return "true" if values[0] % 3 == values[1] % 3 else "false"
        if word == "label":
            return f"L{values[0] % 3}"
        if word == "score":
            return "?" if values[0] == 77 else str(values[0] % 10 / 10)
        return "true" if values[0] % 10 >= 5 else "false"

    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i FROM range(80) r(i)")
    with kleene.attach(con, store=":memory:", models=kleene.FunctionModel(rule)) as k:
        k.sql("SET memo = off")
        k.sql("CREATE FUNCTION label(x TEXT) RETURNS TEXT AS PROMPT 'label {x}'")
        k.sql("CREATE FUNCTION same(a TEXT, b TEXT) RETURNS BOOLEAN AS PROMPT 'same {a} {b}' VIA label")
        k.sql("CREATE FUNCTION differ(a TEXT, b TEXT) RETURNS BOOLEAN AS PROMPT 'differ {a} {b}' VIA <> label")
        k.sql("CREATE FUNCTION score(x TEXT) RETURNS DOUBLE AS PROMPT 'score {x}'")
        k.sql("CREATE FUNCTION oracle(x TEXT) RETURNS BOOLEAN AS PROMPT 'oracle {x}' PROXY score THRESHOLDS (0.3, 0.7)")
        yield k, asked


@pytest.mark.parametrize(
    ("sql", "rows", "calls"),
    [
        ("SELECT a.i, b.i FROM t a JOIN t b ON a.i < b.i AND same(a.i, b.i)", 1027, {"label": 80}),
        ("SELECT a.i, b.i FROM t a, t b WHERE a.i < b.i AND same(a.i, b.i)", 1027, {"label": 80}),
        ("SELECT a.i, b.i FROM t a, t b WHERE a.i < b.i AND NOT same(a.i, b.i)", 2133, {"label": 80}),
        ("SELECT a.i, b.i FROM t a, t b WHERE a.i < b.i AND differ(a.i, b.i)", 2133, {"label": 80}),
        ("SELECT a.i FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.i > 70 AND same(a.i, b.i))", 80, {"label": 80}),
        ("SELECT a.i, b.i FROM t a, t b WHERE a.i + 1 = b.i AND a.i < 5 AND same(a.i, b.i)", 0, {"same": 5}),
        ("SELECT a.i, b.i FROM t a, t b WHERE a.i = 1 AND b.i IN (4, 5) AND same(a.i, b.i)", 1, {"same": 2}),
        ("SELECT same(NULL, '1')", 1, {}),
    ],
)
def test_a_predicate_over_pairs_becomes_labels_where_that_is_cheaper(world, sql, rows, calls):
    k, asked = world
    assert (len(k.sql(sql)), dict(asked)) == (rows, calls)


def test_without_the_rule_every_pair_is_asked(world):
    k, asked = world
    k.sql("SET rules.classify_join = off")
    assert len(k.sql("SELECT a.i, b.i FROM t a JOIN t b ON a.i < b.i AND same(a.i, b.i)")) == 1027
    assert dict(asked) == {"same": 3160}


@pytest.mark.parametrize(
    ("sql", "rows", "calls"),
    [
        # The score of 77 cannot be read, is asked for twice, and leaves the decision to the oracle.
        ("SELECT i FROM t WHERE oracle(i)", 40, {"score": 81, "oracle": 33}),
        ("SELECT i FROM t WHERE i < 10 AND oracle(i)", 5, {"score": 10, "oracle": 4}),
        ("SELECT i FROM t WHERE i < 10 AND (i = 3 OR oracle(i))", 6, {"score": 9, "oracle": 3}),
        ("SELECT i, oracle(i) FROM t WHERE i < 10", 10, {"score": 10, "oracle": 4}),
        ("SELECT CASE WHEN oracle(i) THEN i END FROM t WHERE i < 10", 10, {"score": 10, "oracle": 4}),
        ("SELECT a.i FROM t a JOIN t b ON a.i = b.i AND oracle(b.i) WHERE a.i < 10", 5, {"score": 10, "oracle": 4}),
    ],
)
def test_the_oracle_is_asked_between_the_thresholds_only(world, sql, rows, calls):
    k, asked = world
    assert (len(k.sql(sql)), dict(asked)) == (rows, calls)


def test_without_the_rule_the_oracle_answers_alone(world):
    k, asked = world
    k.sql("SET rules.cascade = off")
    assert len(k.sql("SELECT i FROM t WHERE oracle(i)")) == 40
    assert dict(asked) == {"oracle": 80}


def test_explain_names_the_declaration_that_applies(world):
    k, _ = world
    assert "classify_join" in k.explain("SELECT 1 FROM t a JOIN t b ON same(a.i, b.i)").rules
    assert "cascade" in k.explain("SELECT 1 FROM t WHERE oracle(i)").rules
    assert k.explain("SELECT 1 FROM t a JOIN t b ON a.i < b.i AND same(a.i, b.i)").estimate.calls == 80
