from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import KleeneError, ParseError, PlanError
from kleene.planner.sought import Sought
from kleene.planner.specs import BudgetLimits, Span, Usage
from kleene.session import render
from kleene.session.world import Outcome


def table(
    rows: list[tuple[object, ...]], *columns: str, row_count: int | None = None, types: tuple[str, ...] | None = None
) -> Outcome:
    kinds = types or ("VARCHAR",) * len(columns)
    return Outcome(columns=columns, types=kinds, rows=rows, row_count=len(rows) if row_count is None else row_count)


def test_a_small_result_is_a_header_lines_and_a_count() -> None:
    result = table(
        [(1, "It was the best\nof times", None), (2, "", 0.1)],
        "ordinal",
        "text",
        "score",
        types=("BIGINT", "VARCHAR", "DOUBLE"),
    )
    assert render.outcome(result) == (
        "ordinal BIGINT | text VARCHAR | score DOUBLE\n1 | E'It was the best\\nof times' | NULL\n2 | '' | 0.1\n2 rows"
    )


def test_an_empty_result_shows_its_columns() -> None:
    assert render.outcome(table([], "a", types=("INTEGER",))) == "a INTEGER\n0 rows"


def test_twenty_rows_are_shown_and_the_way_to_the_rest() -> None:
    result = table([(i, "x" * 190) for i in range(25)], "n", "t", row_count=1000, types=("BIGINT", "VARCHAR"))
    lines = render.outcome(result).split("\n")
    assert lines[0] == "n BIGINT | t VARCHAR"
    assert len(lines) == 22
    assert (
        lines[-1]
        == "... 980 more rows of the statement's 1,000: with an ORDER BY, LIMIT and OFFSET show what follows row 20; or aggregate"
    )


def test_short_rows_are_shown_up_to_a_hundred() -> None:
    lines = render.outcome(table([(i,) for i in range(200)], "n", row_count=1000, types=("BIGINT",))).split("\n")
    assert lines[:2] == ["n BIGINT", "0"]
    assert lines[-2:] == [
        "99",
        "... 900 more rows of the statement's 1,000: with an ORDER BY, LIMIT and OFFSET show what follows row 100; or aggregate",
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(), st.text(max_size=300)), max_size=130))
def test_rows_beyond_twenty_are_shown_while_they_fit(rows: list[tuple[object, ...]]) -> None:
    text = render.outcome(table(rows, "n", "t"))
    shown = len([line for line in text.split("\n") if " | " in line]) - 1
    if text.startswith("n VARCHAR | t VARCHAR\n[row 1]"):
        return
    assert min(20, len(rows)) <= shown <= min(100, len(rows))
    if shown > 20:
        used = sum(min(200, len(str(v))) + 3 for row in rows[:shown] for v in row)
        assert used <= 4_000 or (used <= 5_000 and shown == len(rows))


def test_one_row_too_many_is_named_in_the_singular() -> None:
    assert render.outcome(table([("x" * 300,)] * 20, "n", row_count=21)).split("\n")[-2] == (
        "... 1 more row of the statement's 21: with an ORDER BY, LIMIT and OFFSET show what follows row 20; or aggregate"
    )


def test_rows_that_are_hardly_more_than_fit_are_all_shown() -> None:
    assert render.outcome(table([("x" * 150,)] * 30, "n")).endswith("\n30 rows")
    assert "8 more rows of the statement's 34" in render.outcome(table([("x" * 150,)] * 34, "n"))


def test_a_long_type_is_cut_in_the_header() -> None:
    kind = "STRUCT(kind ENUM('refund', 'replacement', 'heard', 'praise', 'question'), amount DOUBLE)"
    header = render.outcome(table([({"kind": "praise", "amount": 1.0},)], "c", types=(kind,))).split("\n")[0]
    assert header == "c STRUCT(kind ENUM('refund', 'replacement', 'heard', 'praise'…"


def test_a_turn_that_has_shown_much_says_so_where_it_cuts() -> None:
    assert render.outcome(table([("x" * 500,)], "t"), render.SHORT).endswith(
        "\n1 row\ncut cells: this turn has shown a great deal already; the next turn shows more"
    )


LONG = "a" * 3000 + "\nthe needle is here " + "z" * 3000


@pytest.mark.parametrize(
    "sought",
    [
        Sought("like", "%NEEDLE%", any_case=True),
        Sought("text", "needle"),
        Sought("regexp", "nothing like it|the needle"),
        Sought("regexp", "needle (is|was)"),
        Sought("regexp", "(?i)NEEDLE"),
    ],
)
def test_a_cut_cell_shows_what_the_statement_looked_for(sought: Sought) -> None:
    rows = [(LONG,)] * 20
    lines = render.outcome(attrs.evolve(table(rows, "text"), sought=(sought,))).split("\n")
    assert "the needle is here zzz" in lines[1]
    assert lines[1].startswith("[after 2,9") and lines[1].endswith(" more]")
    assert len(lines[1]) < 260


def test_one_row_is_shown_around_what_was_looked_for() -> None:
    result = attrs.evolve(table([("a" * 9000 + "needle" + "z" * 9000,)], "t"), sought=(Sought("text", "needle"),))
    assert render.outcome(result) == (
        f"t VARCHAR\n[after 8,000 characters]… {'a' * 1000}needle{'z' * 2994} …[6,006 more]\n1 row\n"
        "cut: characters 8,001 to 12,000 of 18,006 are shown, around what was looked for; substr(t, 12001, 4000) shows what follows"
    )


@pytest.mark.parametrize("text", ["needle" + "a" * 6000, "a" * 6000 + "needle", "a" * 6000])
def test_a_text_that_shows_its_hit_or_has_none_is_cut_in_the_middle(text: str) -> None:
    result = attrs.evolve(table([(text,)], "text"), sought=(Sought("like", "%needle%"),))
    assert render.outcome(result) == render.outcome(attrs.evolve(result, sought=()))


def test_a_long_cell_is_cut_in_the_middle() -> None:
    result = table([("a" * 3000 + "z" * 3000,)], "text")
    head, note = render.outcome(result).rsplit("\n", 1)
    assert head == f"text VARCHAR\n{'a' * 3000} …[6,000 characters]… {'z' * 1000}\n1 row"
    assert note == "cut: characters 3,001 to 5,000 of 6,000 are hidden; substr(text, 3001, 4000) shows what follows"


def test_cells_have_two_hundred_characters_in_a_full_table() -> None:
    result = table([("b" * 300, i) for i in range(20)], "Some text", "n", types=("VARCHAR", "BIGINT"))
    lines = render.outcome(result).split("\n")
    assert lines[1] == f"{'b' * 150} …[300 characters]… {'b' * 50} | 0"
    assert lines[-2:] == [
        "20 rows",
        'cut cells: fewer rows show more of each; substr("Some text", 1, 4000) of one row shows 4,000 characters',
    ]


def test_a_cut_list_names_no_substr() -> None:
    result = table([(list(range(2000)),)], "l", types=("INTEGER[]",))
    assert render.outcome(result).endswith(
        "\n1 row\ncut cells: fewer rows show more of each; a part of one shows 4,000 characters"
    )


def test_wide_rows_become_records() -> None:
    result = table([("x" * 300, "y" * 300, None), ("a", "b", "c")], "one", "two", "three")
    assert render.outcome(result) == (
        "one VARCHAR | two VARCHAR | three VARCHAR\n"
        f"[row 1]\none: {'x' * 300}\ntwo: {'y' * 300}\nthree: NULL\n"
        "[row 2]\none: a\ntwo: b\nthree: c\n2 rows"
    )


def test_a_very_wide_table_shows_fewer_rows() -> None:
    result = table([tuple("w" * 200 for _ in range(30)) for _ in range(20)], *(f"c{i}" for i in range(30)))
    text = render.outcome(result)
    assert len(text) < 13_000
    assert text.endswith(
        "... 19 more rows of the statement's 20: with an ORDER BY, LIMIT and OFFSET show what follows row 1; or aggregate"
    )


def test_calls_and_warnings_follow_the_rows() -> None:
    result = Outcome(
        columns=("b",),
        types=("BOOLEAN",),
        rows=[(True,)],
        row_count=1,
        usage=Usage(requests=1, memo_hits=2, input_tokens=1200, output_tokens=34, dollars=0.00125),
        warnings=("1 answer could not be read\n(unknown: NULL)",),
    )
    assert render.outcome(result) == (
        "b BOOLEAN\ntrue\n1 row\n1 call, 2 from memo, 1,234 tokens, $0.00125\nwarning: 1 answer could not be read (unknown: NULL)"
    )


def test_unpriced_calls_are_not_said_to_be_free() -> None:
    assert render.spent(Usage(requests=2, unpriced=2, input_tokens=10)) == "2 calls, 10 tokens, unpriced"


def test_a_statement_without_rows_shows_its_message() -> None:
    assert (
        render.outcome(Outcome(message="created function f(x TEXT) -> BOOLEAN"))
        == "created function f(x TEXT) -> BOOLEAN"
    )
    assert render.outcome(Outcome()) == "done"


def test_an_error_shows_what_where_and_what_works() -> None:
    source = "SELECT 1;\nSELECT llm_boool(text) FROM ctx"
    problem = PlanError(
        "no function llm_boool\nhere",
        hint="did you mean llm_bool(prompt TEXT)?",
        span=Span.at(source, 17, 26),
        source=source,
    )
    assert render.error(problem) == (
        "error: no function llm_boool here\n"
        "line 2: SELECT llm_boool(text) FROM ctx\n"
        "               ^^^^^^^^^\n"
        "hint: did you mean llm_bool(prompt TEXT)?"
    )


def test_an_error_without_its_source_points_into_the_given_one() -> None:
    problem = ParseError("expected an expression", span=Span(7, 8))
    assert render.error(problem, "SELECT )") == "error: expected an expression\nline 1: SELECT )\n               ^"
    assert render.error(problem) == "error: expected an expression"


def test_a_long_error_is_cut() -> None:
    text = render.error(KleeneError("x" * 2000, hint="y" * 2000))
    assert text == f"error: {'x' * 799}…\nhint: {'y' * 499}…"


def test_the_footer_shows_used_and_limit() -> None:
    usage = Usage(requests=12, memo_hits=3, input_tokens=15_000, output_tokens=204, dollars=0.0312)
    limited = BudgetLimits(calls=188, tokens=84_796, dollars=0.9688, wall=12.5)
    assert (
        render.footer(3, 30, usage, limited)
        == "turn 3/30 · 12/200 calls (and 3 from memo) · 15,204/100,000 tokens · $0.0312/$1"
    )
    assert render.footer(1, 30, Usage(requests=1), BudgetLimits()) == "turn 1/30 · 1 call · 0 tokens · $0"


def test_short_limits_show_three_rows() -> None:
    text = render.outcome(table([("x" * 500,)] * 10, "t"), render.SHORT)
    assert (
        text.split("\n")[-2]
        == "... 7 more rows of the statement's 10: with an ORDER BY, LIMIT and OFFSET show what follows row 3; or aggregate"
    )
    assert len(text) < 700
