"""Differences between two runs, and the figures of curves, against other ways to the same numbers."""

from __future__ import annotations

import itertools
import xml.dom.minidom
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.bench.compare import compare, interval
from kleene.bench.plots import PLOTS, Given, front_of, plot
from kleene.bench.report import summarise
from kleene.bench.results import Row, line_of
from kleene.bench.series import curve, q_error, sparkline
from kleene.planner.errors import ConfigError
from tests.kleene.bench.test_running import ROW, bench

HEADER = ",".join(f.name for f in attrs.fields(Row)) + "\n"


def rows(mode: str, calls: Sequence[Sequence[int]], solved: Sequence[bool] = ()) -> list[Row]:
    """A row a repeat of each task."""
    return [
        attrs.evolve(
            ROW, mode=mode, task=f"t{t}", repeat=r + 1, calls=n, solved=not solved or solved[t], dollars=n / 100
        )
        for t, repeats in enumerate(calls)
        for r, n in enumerate(repeats)
    ]


def exact_interval(gaps: Sequence[float]) -> tuple[float, float]:
    """Every resample of the tasks there is, each as likely."""
    means = [float(np.mean(picked)) for picked in itertools.product(gaps, repeat=len(gaps))]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("gaps", [[1, 2, 3, 4, 10], [0, 0, 0, 1, -1], [5, 5, 5, 5], [-3, 8, 2, 2, 7, 1]])
def test_the_interval_is_that_of_all_resamples(gaps: list[float]) -> None:
    low, high = interval([[g + 7] for g in gaps], [[7.0]] * len(gaps), resamples=40_000)
    expected = exact_interval(gaps)
    spread = max(gaps) - min(gaps)
    # A quantile of 40,000 draws is off by under a hundredth of the spread, or by one step between two means that are possible.
    assert abs(low - expected[0]) <= 0.02 * spread and abs(high - expected[1]) <= 0.02 * spread


def test_repeats_are_drawn_too() -> None:
    """One task of two repeats that are 0 and 1 against a certain 0: the mean of two draws is 0, 1/2 or 1 with 1/4, 1/2, 1/4."""
    assert interval([[0.0, 1.0]], [[0.0]], resamples=20_000) == (0.0, 1.0)
    # Of eight draws from one 1 and seven 0, three are 1 or fewer with 0.989, two or fewer with 0.933.
    assert interval([[1.0] + [0.0] * 7], [[0.0]], resamples=20_000) == (0.0, 0.375)
    ragged = interval([[0.0, 1.0], [1.0]], [[0.0], [0.0, 0.0, 0.0]], resamples=20_000)
    assert 0.0 <= ragged[0] < ragged[1] == 1.0


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says() -> None:
    """40 tasks, 3 repeats, true difference 0.2: 95 % intervals of 120 runs of it hold it in 88 to 100 % (percentile intervals are a bit short)."""
    rng = np.random.default_rng(5)
    held = 0
    for run in range(120):
        ease = rng.uniform(0.2, 0.6, 40)
        first = (rng.random((40, 3)) < (ease + 0.2)[:, None]).astype(float)
        second = (rng.random((40, 3)) < ease[:, None]).astype(float)
        low, high = interval(first.tolist(), second.tolist(), seed=run, resamples=200)
        held += low <= 0.2 <= high
    assert 0.88 <= held / 120 <= 1.0


def test_differences_are_by_task() -> None:
    found = compare(rows("frozen", [[2, 4], [10]]), rows("plain", [[5], [10], [99]]), resamples=500)
    by_name = {d.metric: d for d in found}
    calls = by_name["calls"]
    assert (calls.tasks, calls.first, calls.second, calls.difference) == (2, 6.5, 7.5, -1.0)
    assert (calls.more, calls.less, calls.same) == (0, 1, 1)
    assert calls.low <= -1.0 <= calls.high
    assert (by_name["solved"].difference, by_name["solved"].low, by_name["solved"].high) == (0.0, 0.0, 0.0)
    assert list(by_name) == ["solved", "calls", "tokens", "dollars", "seconds"]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.integers(0, 2**32))
def test_the_other_way_round_is_the_negative_and_the_seed_decides(pairs: list[tuple[int, int]], seed: int) -> None:
    first, second = rows("frozen", [[a] for a, _ in pairs]), rows("plain", [[b] for _, b in pairs])
    one, same = (compare(first, second, seed=seed, resamples=50) for _ in range(2))
    other = compare(second, first, seed=seed, resamples=50)
    assert one == same
    for a, b in zip(one, other, strict=True):
        assert (a.difference, a.first, a.more, a.less) == (-b.difference, b.second, b.less, b.more)
        assert (a.low, a.high) == pytest.approx((-b.high, -b.low))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ([], "the second results hold no attempt"),
        ([ROW, attrs.evolve(ROW, mode="plain")], "the second results hold frozen by m, plain by m"),
        ([attrs.evolve(ROW, digest="e")], "different packs, or of different texts of one"),
        ([attrs.evolve(ROW, pack="q")], "different packs"),
        ([attrs.evolve(ROW, task="u")], "no task in common"),
    ],
)
def test_what_cannot_be_compared_is_refused(second: list[Row], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        compare([ROW], second)


def test_attempts_that_wait_for_a_person_have_no_rate() -> None:
    waiting = [attrs.evolve(ROW, solved=None)]
    assert [d.metric for d in compare(waiting, waiting, resamples=10)] == ["calls", "tokens", "dollars", "seconds"]


def test_a_curve_is_the_rate_of_the_last_five() -> None:
    solved = [True, False, True, True, True, False, None, False]
    given = [attrs.evolve(ROW, solved=s, dollars=0.25, task=f"t{n}") for n, s in enumerate(solved)]
    steps = curve([*given, attrs.evolve(ROW, mode="plain", solved=None)])
    assert [s.rate for s in steps] == [1.0, 0.5, 0.6667, 0.75, 0.8, 0.6, 0.6, 0.6, None]
    assert [s.solved_so_far for s in steps][:8] == [1, 1, 2, 3, 4, 4, 4, 4]
    assert (steps[7].dollars_so_far, steps[7].attempt, steps[8].attempt) == (2.0, 8, 1)
    assert sparkline(s.rate for s in steps) == "█▅▆▇▇▅▅▅ "


def test_the_report_has_the_median_factor_of_estimates() -> None:
    given = [attrs.evolve(ROW, est_calls=e, calls=c) for e, c in ((10, 10), (5, 10), (10, 1))]
    assert summarise(given)[0].estimate_q == 2.0
    assert summarise([ROW])[0].estimate_q is None
    assert q_error(7, 21) == q_error(21, 7) == 3.0


def test_a_front_is_of_those_that_nothing_beats() -> None:
    def line(dollars: float, rate: float) -> object:
        return attrs.evolve(summarise([ROW])[0], dollars=dollars, pass_rate=rate)

    lines = [line(3, 0.9), line(1, 0.5), line(2, 0.4), line(1, 0.2), line(4, 0.9)]
    assert front_of(lines) == [(1.0, 0.5), (3.0, 0.9)]  # type: ignore[arg-type]


def test_results_are_compared_joined_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = rows("frozen", [[2], [3]]), rows("plain", [[4], [4], [5]], [True, False, True])
    (tmp_path / "a.csv").write_text(HEADER + "".join(map(line_of, first)))
    (tmp_path / "b.csv").write_text(HEADER + "".join(map(line_of, second)))
    both = ("a.csv", "b.csv")
    done = bench(tmp_path, "compare", *both, "--format", "csv", monkeypatch=monkeypatch)
    assert done.code == 0
    assert done.out.splitlines()[2].startswith("calls,2,2.5,4.0,-1.5,-2.0,-1.0,0,2,0")
    assert done.err == "1 tasks are in one of them only and were left out\n"
    for resamples in ("0", "1_000_001", str(10**14)):
        refused = bench(tmp_path, "compare", *both, "--resamples", resamples, monkeypatch=monkeypatch)
        assert (refused.code, refused.out) == (2, "")
        said = (
            f"error: {int(resamples):,} resamples are not 1 to 1,000,000\nhint: 10,000 give both ends to two digits\n"
        )
        assert refused.err == said
    joined = bench(tmp_path, "csv", *both, monkeypatch=monkeypatch).out
    assert [line.split(",")[2] for line in joined.splitlines()] == ["mode", *["frozen"] * 2, *["plain"] * 3]
    shown = bench(tmp_path, "curve", *both, "--format", "csv", monkeypatch=monkeypatch)
    assert shown.out.splitlines()[4].startswith("p,plain,m,2,t1,false,0.5,1,")
    assert shown.err == "██ p · frozen · m\n█▅▆ p · plain · m\n"
    other = line_of(attrs.evolve(ROW, pack="q", mode="plain"))
    (tmp_path / "c.csv").write_text(HEADER + other)
    cells = bench(tmp_path, "results", *both, "c.csv", "--format", "csv", monkeypatch=monkeypatch).out.splitlines()
    assert [line.split(",")[:4] for line in cells[1:]] == [
        ["p", "frozen", "m", "1.0"],
        ["p", "plain", "m", "0.6667"],
        ["q", "frozen", "m", ""],
        ["q", "plain", "m", "1.0"],
    ]


@pytest.mark.slow  # the first picture on a machine waits for matplotlib's list of fonts
def test_pictures_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    given = [attrs.evolve(r, est_calls=3, bare_calls=9) for r in rows("frozen", [[2], [0]])] + rows("plain", [[4]])
    files = plot(given, tmp_path / "one")
    assert [f.stem for f in files] == list(PLOTS)
    texts = [f.read_text() for f in files]
    assert all("<svg" in t for t in texts) and "p · frozen · m" in texts[0]
    assert [f.read_text() for f in plot(given, tmp_path / "two")] == texts
    wide = [attrs.evolve(ROW, model=f"m{n}", dollars=d, calls=10 * n) for n, d in enumerate((0.0, 0.0007, 0.4))]
    for some, ticks in ((wide, {"0", "0.0001", "0.1"}), (wide[1:], {"0.001", "0.1"})):
        text = plot(some, tmp_path / f"wide{len(some)}")[0].read_text()
        assert all(f">{tick}</text>" in text for tick in ticks), "plain figures, of zero too"
        assert "mathdefault" not in "".join(f.read_text() for f in (tmp_path / f"wide{len(some)}").iterdir())
    hostile = [attrs.evolve(r, model="a$b_{c$\x1b\x08") for r in given]
    for file in plot(hostile, tmp_path / "hostile"):
        xml.dom.minidom.parse(str(file))
    assert "no attempt was decided" in plot([], tmp_path / "none")[0].read_text()


def test_a_picture_without_data_says_why() -> None:
    whys = {name: draw(None, Given.of([])) for name, draw in PLOTS.items()}
    assert whys["pareto"] == whys["learning_curve"] == "no attempt was decided"
    assert whys["cost_parity"] == "nothing cost a dollar: the models had no price"
    assert whys["estimate_accuracy"] == whys["plan_space"]
    assert PLOTS["estimate_accuracy"](None, Given.of([ROW])) == (
        "no attempt has an estimate: the mode relational asks EXPLAIN for one"
    )
