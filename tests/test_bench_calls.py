"""The figures of ``scripts/bench_calls.py`` and its neighbours: every statement gives its true rows with no more calls than it is known to make."""

from __future__ import annotations

import doctest
from pathlib import Path

import duckdb
import pytest

from scripts import bench_calls, bench_movies, bench_peers, peer_server, workloads
from scripts.workloads import SEVEN, SHAPES, Workload

ALL = (*SEVEN, *SHAPES)


@pytest.mark.parametrize("workload", ALL, ids=lambda w: w.name)
def test_the_rows_are_true_and_the_calls_no_more_than_before(workload: Workload) -> None:
    outcome = bench_calls.measure(workload)
    assert (outcome.problem, outcome.right) == (None, True)
    assert outcome.calls <= workload.asks
    if not workload.about:
        assert outcome.calls >= workload.least, "fewer calls than the least: the least is wrong"


@pytest.mark.parametrize("workload", SEVEN, ids=lambda w: w.name)
def test_the_seven_workloads_make_the_calls_that_an_expert_makes(workload: Workload) -> None:
    assert workload.asks == (workload.goal or workload.least)


@pytest.mark.parametrize("name", ["cheap-or-call", "exists-each"])
def test_without_the_rules_a_statement_costs_more(name: str) -> None:
    workload = next(w for w in ALL if w.name == name)
    without = bench_calls.measure(workload, rules=False)
    assert without.right
    assert without.calls > workload.asks


def test_plain_functions_are_called_for_each_row() -> None:
    assert bench_calls.plain_calls(workloads.W1) == 1000
    assert bench_calls.plain_calls(workloads.W7) is None


def test_a_line_names_what_is_above_the_least_and_wrong() -> None:
    ours = bench_calls.Outcome(249, False, 1.0)
    off = bench_calls.Outcome(800, True, 1.0)
    assert bench_calls.line(workloads.W5, ours, off, 800) == (
        "W5                       249       800       800       246   NO      anti-join: 40 claims x 20 counterexamples, 8 stand"
    )


def test_a_prompt_that_no_rule_answers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule answers 'What is this"):
        workloads.reply("What is this?")


def test_the_examples_in_the_docstrings_hold() -> None:
    assert (
        doctest.testmod(workloads).failed
        == doctest.testmod(bench_movies).failed
        == doctest.testmod(peer_server).failed
        == 0
    )


def test_over_http_the_same_calls_are_made_as_by_the_program_written_by_hand() -> None:
    with peer_server.served(0.0) as url:
        ours = bench_peers.by_kleene(url, 8, workloads.W2)
        hand = bench_peers.by_program(bench_peers.hand, url, 8, workloads.W2)
        loop = bench_peers.by_program(bench_peers.loop, url, 8, workloads.W2)
    assert [run.count.requests for run in (ours, hand, loop)] == [100, 100, 1000]
    assert ours.right and hand.right and loop.right


# -- the movie questions, on data of our own ------------------------------------------------------------------------------------------------

GOLD = {
    "Q1": "SELECT reviewId FROM R WHERE liked",
    "Q2": "SELECT reviewId FROM R WHERE liked AND id = 'taken_3'",
    "Q3": "SELECT count(*) FROM R WHERE liked AND id = 'taken_3'",
    "Q4": "SELECT avg(liked::INT) FROM R WHERE id = 'taken_3'",
    "Q5": "SELECT a.id, a.reviewId, b.reviewId FROM R a JOIN R b ON a.id = b.id AND a.reviewId <> b.reviewId AND a.liked = b.liked "
    "WHERE a.id LIKE 'ant%'",
    "Q6": "SELECT a.id, a.reviewId, b.reviewId FROM R a JOIN R b ON a.id = b.id AND a.liked <> b.liked WHERE a.id LIKE 'ant%'",
    "Q7": "SELECT a.id, a.reviewId, b.reviewId FROM R a JOIN R b ON a.id = b.id AND a.liked <> b.liked WHERE a.id LIKE 'ant%'",
    "Q8": "SELECT if(liked, 'POSITIVE', 'NEGATIVE') AS label, count(*) FROM R WHERE id = 'taken_3' GROUP BY ALL",
    "Q9": "SELECT reviewId, stars FROM R WHERE id LIKE 'ant%'",
    "Q10": "SELECT id, avg(stars) FROM R GROUP BY id",
}


@pytest.fixture
def movies(tmp_path: Path) -> Path:
    """Two movies with 20 reviews each, a third to a half of them positive, in the benchmark's files."""
    con = duckdb.connect()
    con.execute("""
        CREATE TABLE R AS SELECT if(i < 20, 'taken_3', 'ant_man_and_the_wasp_quantumania') AS id, i AS reviewId, i % 3 = 1 AS liked,
            1.0 + i % 5 AS stars, 'A word on film ' || i AS reviewText FROM range(40) r(i)""")
    reviews = (
        "SELECT id, reviewId, stars || '/5' AS originalScore, if(liked, 'fresh', 'rotten') AS reviewState, reviewText, "
        "if(liked, 'POSITIVE', 'NEGATIVE') AS scoreSentiment FROM R"
    )
    (tmp_path / "ground_truth").mkdir()
    wanted = {"Reviews": reviews, "Movies": "SELECT DISTINCT id, id AS title FROM R"}
    wanted |= {f"ground_truth/{name}": sql for name, sql in GOLD.items()}
    for name, sql in wanted.items():
        con.execute(f"COPY ({sql}) TO '{tmp_path / name}.csv' (HEADER)")
    con.close()
    return tmp_path


def test_the_movie_questions_are_answered_with_a_call_for_each_fact(movies: Path) -> None:
    alone, together = bench_movies.run(movies)
    assert [a.right for a in (*alone, *together)] == [True] * 20
    calls = {q.id: a.calls for q, a in zip(bench_movies.QUESTIONS, alone, strict=True)}
    assert {name: calls[name] for name in ("Q3", "Q4", "Q7", "Q8", "Q9", "Q10")} == {
        "Q3": 20,
        "Q4": 20,
        "Q7": 20,
        "Q8": 20,
        "Q9": 20,
        "Q10": 40,
    }
    assert max(calls["Q1"], calls["Q2"], calls["Q5"], calls["Q6"]) <= 20
    assert sum(a.calls for a in together) <= 80  # a sentiment and a score for each of 40 reviews
    assert alone[8].correlation == pytest.approx(1.0)


def test_the_model_of_the_movies_reads_pairs_too(movies: Path) -> None:
    model = bench_movies.Reader(bench_movies.Labels.read(movies))
    with bench_movies.engine(movies, model) as k:
        k.sql("SET rules.classify_join = off")
        found = k.sql(
            "SELECT same_sentiment('A word on film 1', 'A word on film 4'), opposite_sentiment('A word on film 1', 'A word on film 2'), "
            "same_sentiment('A word on film 1', 'A word on film 2')"
        )
        assert found.fetchall() == [(True, True, False)]
