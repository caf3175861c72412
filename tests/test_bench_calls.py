"""The figures of ``scripts/bench_calls.py``: every statement gives its true rows with no more calls than it is known to make."""

from __future__ import annotations

import doctest

import pytest

from scripts import bench_calls, workloads
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


@pytest.mark.parametrize("name", ["W5", "cheap-or-call", "exists-each"])
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
    assert doctest.testmod(workloads).failed == 0
