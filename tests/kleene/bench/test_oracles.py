"""Each oracle against another implementation of its rule, and at its edges."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.bench.oracles import Place, decide
from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.oracles.judge import verdict_of
from kleene.bench.oracles.redline import recall
from kleene.bench.oracles.sat import satisfiable
from kleene.bench.oracles.shell import json_rows
from kleene.bench.verify import Exact, Human, Judge, Number, Oolong, Redline, Sat, Shell, Verify
from kleene.planner.errors import ConfigError
from kleene.tools.sandbox import Sandbox
from tests.kleene.tools.work import needs_sandbox

NOWHERE = Place(Path("/nonexistent"))


def says(
    verify: Verify, *rows: tuple[Any, ...], columns: tuple[str, ...] | None = None, place: Place = NOWHERE
) -> Verdict:
    names = columns or tuple(f"c{n}" for n in range(len(rows[0]) if rows else 1))
    return decide(verify, "the task", Answer(names, rows), place)


# exact

cells = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, -0.0, 1e-7, 1.0000004, 1e300]),
    st.sampled_from([Decimal("1.50"), Decimal("-0.0000001")]), st.sampled_from(["a", " A ", "ß", "SS", "1", "1.0", "1e0", "", "١", "nan", "1_0", "true"]),
    st.text("aA1.ıİ\u0301é\u00a0 \n", max_size=3),
)  # fmt: skip
tables = st.integers(1, 2).flatmap(lambda width: st.lists(st.tuples(*[cells] * width), max_size=4))


def same(one: Any, other: Any) -> bool:
    """Cells are equal: by fractions where both are numbers, else as caseless text."""
    if one is None or other is None:
        return one is other
    numbers = [fraction(v) for v in (one, other)]
    if None not in numbers:
        a, b = (round(n * 10**6) for n in numbers if n is not None)
        return a == b
    return numbers == [None, None] and str(one).strip().casefold() == str(other).strip().casefold()


def fraction(value: Any) -> Fraction | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and (not value.strip().isascii() or "_" in value or "/" in value):
        return None
    try:
        return Fraction(str(value).strip())
    except ValueError:
        return None


def matched(rows: list[Any], others: list[Any]) -> bool:
    """Each row has one of its own among the others, found by taking them away."""
    left = list(others)
    for row in rows:
        at = next((i for i, other in enumerate(left) if len(row) == len(other) and all(map(same, row, other))), None)
        if at is None:
            return False
        del left[at]
    return not left


@given(tables, tables)
def test_exact_compares_as_multisets(rows: list[Any], others: list[Any]) -> None:
    assert says(Exact(tuple(others)), *rows).solved == matched(rows, others)


@given(tables, st.randoms(use_true_random=False))
def test_exact_does_not_mind_order_and_case(rows: list[Any], random: Any) -> None:
    mixed = [tuple(f" {v.upper()}" if v == "a" else v for v in row) for row in rows]
    random.shuffle(mixed)
    assert says(Exact(tuple(rows)), *mixed).solved is True


def test_exact_says_what_differs() -> None:
    verdict = says(Exact((("Harbor", 3),)), ("Harbor", 4), ("x\ny", None))
    assert verdict == Verdict(False, "Harbor, 4; x y, None instead of Harbor, 3")
    assert says(Exact((("a",),))).detail == "no rows instead of a"
    assert says(Exact((("2026-01-05", "[1, a]"),)), (dt.date(2026, 1, 5), [1.0, "A"])).solved


# number


@given(st.decimals(-1000, 1000, places=3), st.integers(-1000, 1000), st.integers(0, 20))
def test_number_is_within_an_absolute_tolerance(found: Decimal, thousandths: int, tolerance: int) -> None:
    value = float(Decimal(thousandths) / 1000)
    verdict = says(Number(value, tolerance / 1000), (f"about {found:,} $",))
    assert verdict.solved == (abs(Fraction(str(found)) - Fraction(thousandths, 1000)) <= Fraction(tolerance, 1000))


def figure(text: str) -> Fraction | None:
    """A text's number, read by hand: the whole of it, else what is left of its digits, points and minus signs."""
    whole = fraction(text)
    if whole is not None:
        return whole
    kept = "".join(c for c in text if c in "0123456789.-")
    sign, body = (-1, kept[1:]) if kept.startswith("-") else (1, kept)
    head, _, tail = body.partition(".")
    if "-" in body or "." in tail or not head + tail:
        return None
    return sign * (Fraction(int(head or 0)) + Fraction(int(tail or 0), 10 ** len(tail)))


@given(st.text("0123.-+eE $,%a\u0661½ \n", max_size=9), st.sampled_from([0.0, 1.0, -2.0, 12.0, 0.5]))
def test_number_keeps_what_a_number_is_made_of(text: str, value: float) -> None:
    found = figure(text)
    assert says(Number(value), (text,)).solved == (found == Fraction(str(value)))
    if found is not None and abs(found) < 10**6:
        assert says(Number(float(found), 1e-9), (text, None)).solved


@pytest.mark.parametrize(
    ("cell", "solved"),
    [(12.5, True), (Decimal("12.5"), True), ("$ 12.50", True), ("-12.5", False), ("1-2.5", False), ("", False), (None, False), (True, False),
     ("12.5.1", False), (float("nan"), False), ("twelve", False), ("+12.5", True)],
)  # fmt: skip
def test_number_reads_a_cell(cell: object, solved: bool) -> None:
    assert says(Number(12.5), (cell, 99)).solved is solved


def test_number_at_its_edges() -> None:
    assert says(Number(0.3, 0.2), (0.1,)).solved
    assert says(Number(0.0), (1e-7,)).detail == "1E-7 instead of 0 ± 0"
    assert says(Number(0.0)).detail == "no cell is no number"


# sat

formulas = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.lists(st.integers(-n, n).filter(bool), max_size=3).map(tuple), max_size=14)
    )
)


def models(variables: int, clauses: list[tuple[int, ...]]) -> list[tuple[bool, ...]]:
    return [
        values
        for values in itertools.product([False, True], repeat=variables)
        if all(any(values[abs(v) - 1] == (v > 0) for v in clause) for clause in clauses)
    ]


@given(formulas)
def test_sat_agrees_with_trying_every_assignment(formula: tuple[int, list[tuple[int, ...]]]) -> None:
    variables, clauses = formula
    good = models(variables, clauses)
    verify = Sat(variables, tuple(clauses))
    assert satisfiable(variables, clauses) == bool(good)
    assert says(verify, ("UNSAT", None)).solved == (not good)
    for values in itertools.product([False, True], repeat=variables):
        named = ", ".join(f"x{n}" for n, value in enumerate(values, 1) if value)
        assert says(verify, (named, "sat"), columns=("Assignment", "Verdict")).solved == (values in good)


def test_twenty_two_variables_are_searched() -> None:
    clauses = [(v,) for v in range(1, 23)]
    assert satisfiable(22, clauses)
    assert not satisfiable(22, [*clauses, (-22,)])


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (("SAT", "x1 -x2"), ""),
        (("SAT", "1"), ""),
        (("SAT", None), "the clause 1 or 2 does not hold"),
        (("SAT", "x3"), "the assignment names 'x3', which is no variable"),
        (("SAT", "x1 -x1"), "x1 is both true and false"),
        (("perhaps", ""), "the verdict is 'PERHAPS', not SAT or UNSAT"),
        (("UNSAT", ""), "it can be satisfied"),
        (("SAT",), "the clause 1 or 2 does not hold"),
    ],
)
def test_sat_says_why(row: tuple[Any, ...], detail: str) -> None:
    assert says(Sat(2, ((1, 2),)), row) == Verdict(not detail, detail)


# oolong


@given(st.integers(-50, 50), st.lists(st.integers(0, 50), min_size=1, max_size=3))
def test_a_number_of_oolong_is_scored_by_its_error(found: int, gold: list[int]) -> None:
    verdict = says(Oolong("number", tuple(map(str, gold))), (found,))
    assert verdict.score == pytest.approx(max(Fraction(3, 4) ** abs(found - g) for g in gold))
    assert verdict.solved == (found in gold)


@given(
    st.lists(st.text("aA1. \n\u00a0ßé", max_size=4), min_size=1, max_size=3),
    st.one_of(cells, st.text("aA1. \n\u00a0ßéS", max_size=4)),
)
def test_other_kinds_of_oolong_take_any_of_the_gold(gold: list[str], cell: Any) -> None:
    """Cells are equal as those of ``exact``, with blanks in them run together."""
    words = " ".join(cell.split()) if isinstance(cell, str) else cell
    expected = cell is not None and any(same(words, " ".join(g.split())) for g in gold)
    assert says(Oolong("label", tuple(gold)), (cell, 1)).solved == expected


@pytest.mark.parametrize("kind", ["label", "number"])
def test_no_rows_are_no_answer_of_oolong(kind: str) -> None:
    assert says(Oolong(kind, ("0",))) == Verdict(False, "None instead of 0", 0.0)


@pytest.mark.parametrize(
    ("kind", "gold", "cell", "solved"),
    [
        ("label", ("Place", "person"), " PERSON", True),
        ("label", ("place",), "a place", False),
        ("comparison", ("more common than",), "More  common\nthan", True),
        ("date", ("2025-03-01",), dt.date(2025, 3, 1), True),
        ("id", ("17",), 17, True),
        ("id", ("17",), None, False),
        ("number", ("3",), "3.0", True),
        ("number", ("3",), "three", False),
        ("label", ("None",), None, False),
    ],
)
def test_other_answers_of_oolong_are_right_or_wrong(
    kind: str, gold: tuple[str, ...], cell: object, solved: bool
) -> None:
    verdict = says(Oolong(kind, gold), (cell,))
    assert (verdict.solved, verdict.score) == (solved, 1.0 if solved else 0.0)


# redline

words = st.lists(
    st.sampled_from(["fee", "Notice", "thirty", "days,", "without", "cause", "groß", "a1b2c3"]), max_size=6
)


@given(words, words, words)
def test_redline_counts_the_references_new_words(original: list[str], reference: list[str], found: list[str]) -> None:
    def known(text: list[str]) -> set[str]:
        letters = (w.strip(",").casefold() for w in text)
        return {w for w in letters if len(w) >= 4 and w.isalpha()}

    verdict = says(Redline(" ".join(original), " ".join(reference)), (" ".join(found),))
    if not found or found == original:
        assert (verdict.solved, verdict.score) == (False, 0.0)
        return
    new = known(reference) - known(original)
    expected = len(new & known(found)) / len(new) if new else 1.0
    assert (verdict.solved, verdict.score) == (expected >= 0.5, expected)


letters = st.characters(categories=["Lu", "Ll", "Lo", "Mn", "Nd", "Po", "Zs", "Pc"])


@given(*[st.text(letters | st.sampled_from("abcd "), max_size=12)] * 3)
def test_words_of_a_redline_are_runs_of_letters(original: str, reference: str, found: str) -> None:
    def known(text: str) -> set[str]:
        runs = ("".join(run) for is_word, run in itertools.groupby(text.casefold(), str.isalpha) if is_word)
        return {run for run in runs if len(run) >= 4}

    new = known(reference) - known(original)
    assert recall(original, reference, found) == (len(new & known(found)) / len(new) if new else 1.0)


def test_a_judge_decides_on_a_redline() -> None:
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return "FAIL\nNo."

    place = Place(Path("/"), judge=model)
    verify = Redline("The fee is due at once.", "The fee is due within thirty days.")
    verdict = says(verify, ("", "The fee is due within thirty days."), columns=("id", "redline"), place=place)
    assert verdict == Verdict(False, "recall of new words 1.00; FAIL No.", 1.0)
    assert "Original:\nThe fee is due at once." in asked[0]
    assert says(verify, ("the clause is  \n gone",), place=Place(Path("/"))).score == 0.0


# judge and human


def test_the_judge_sees_every_cell() -> None:
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return "pass\nfine"

    rows = [(n, "long " * 200) for n in range(51)]
    assert says(Judge("Say so.", "As known."), *rows, columns=("n", "text"), place=Place(Path("/"), judge=model)).solved
    assert asked[0].count("long ") == 50 * 200
    assert asked[0].startswith("Judge an answer by a rubric. The first line of your reply is PASS or FAIL")
    for part in (
        "Task:\nthe task",
        "Rubric:\nSay so.",
        "Reference, which is right:\nAs known.",
        "(The first 50 of 51 rows)",
        "n: 49; ",
    ):
        assert part in asked[0]


@given(
    st.lists(
        st.sampled_from(["PASS", "pass", "FAIL", "fail", "**", "# ", " ", "\n", "\u2028", ": ", "ED", "x", "ﬁ"]),
        max_size=6,
    )
)
def test_the_first_line_of_a_judges_reply_decides(parts: list[str]) -> None:
    reply = "".join(parts)
    first = re.split("[\n\u2028]", reply.strip())[0]
    assert verdict_of(reply).solved == bool(re.match(r"(?i)[*_#`>\s]*pass(?!.*fail)", first))


def test_without_a_judge_it_is_said_how_to_get_one() -> None:
    with pytest.raises(ConfigError, match="the task needs a judge") as caught:
        says(Judge("r"), ("x",))
    assert caught.value.hint == "--model judge=PROVIDER:NAME, another model than the solver's"


def test_a_person_decides_later() -> None:
    assert says(Human(), ("x",)) == Verdict(None, "needs_review")


# shell


@given(tables)
def test_a_command_reads_the_rows_as_json(rows: list[Any]) -> None:
    def plain(value: Any) -> Any:
        is_number = isinstance(value, float | Decimal) and not isinstance(value, bool)
        return float(value) if is_number else value

    read = json.loads(json_rows(Answer(("a",), tuple(rows))))
    assert [[(type(v), v) for v in row] for row in read] == [[(type(w := plain(v)), w) for v in row] for row in rows]


@needs_sandbox
@pytest.mark.parametrize(
    ("command", "solved", "detail"),
    [
        ("grep -q hello greeting.txt", True, ""),
        ("cat > seen.json # a comment", True, ""),
        ("echo wrong >&2; exit 3", False, "exit code 3: wrong"),
        ("kill -9 $$", False, "[ended by signal 9, SIGKILL]"),
        ("test -e answer.json", False, "exit code 1"),
    ],
)
def test_a_command_decides(tmp_path: Path, command: str, solved: bool, detail: str) -> None:
    (tmp_path / "greeting.txt").write_text("hello\n")
    rows = ((1, 'it\'s "so"\n'), (Decimal("2.5"), None), (float("inf"), dt.date(2026, 1, 5)), (True, "ü"))
    verdict = says(Shell(command), *rows, place=Place(tmp_path))
    assert verdict == Verdict(solved, detail)
    if "seen" in command:
        seen = json.loads((tmp_path / "seen.json").read_text())
        assert seen == [[1, 'it\'s "so"\n'], [2.5, None], ["inf", "2026-01-05"], [True, "ü"]]


@needs_sandbox
def test_a_large_answer_reaches_the_command(tmp_path: Path) -> None:
    command = "python3 -c 'import json, sys; sys.exit(len(json.load(sys.stdin)) != 20000)'"
    assert says(Shell(command), *[(n, "x" * 20) for n in range(20_000)], place=Place(tmp_path)).solved


def test_without_a_sandbox_nothing_is_judged(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no sandbox for commands"):
        says(Shell("true"), (1,), place=Place(tmp_path, Sandbox(program="no-such-bwrap")))
