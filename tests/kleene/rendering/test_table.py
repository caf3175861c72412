from __future__ import annotations

import pytest

from kleene.rendering.table import Limits, table_lines, visible
from tests.kleene.cli.doubles import answer


def table(sql: str, **limits: object) -> str:
    return "\n".join(table_lines(answer(sql), Limits(**limits)))  # type: ignore[arg-type]


def test_numbers_stand_to_the_right_and_null_is_a_word() -> None:
    assert table("SELECT * FROM (VALUES (1, 'one', 1.5), (200, NULL, NULL)) AS t(n, word, d)") == (
        "┌─────┬──────┬──────┐\n"
        "│   n │ word │    d │\n"
        "├─────┼──────┼──────┤\n"
        "│   1 │ one  │  1.5 │\n"
        "│ 200 │ NULL │ NULL │\n"
        "└─────┴──────┴──────┘\n"
        "2 rows"
    )


def test_wide_characters_keep_the_columns_straight() -> None:
    assert table("SELECT * FROM (VALUES ('日本語', 1), ('é', 2)) AS t(word, n)") == (
        "┌────────┬───┐\n│ word   │ n │\n├────────┼───┤\n│ 日本語 │ 1 │\n│ é      │ 2 │\n└────────┴───┘\n2 rows"
    )


def test_a_table_fits_the_screen() -> None:
    text = table("SELECT 1 AS id, repeat('long ', 40) AS body, repeat('x', 30) AS tail", width=40)
    assert text == (
        "┌────┬────────────────┬────────────────┐\n"
        "│ id │ body           │ tail           │\n"
        "├────┼────────────────┼────────────────┤\n"
        "│  1 │ long long lon… │ xxxxxxxxxxxxx… │\n"
        "└────┴────────────────┴────────────────┘\n"
        "1 row"
    )


def test_columns_that_do_not_fit_side_by_side_become_records() -> None:
    assert table("SELECT 1 AS first, NULL AS second, 'three' AS third, 4 AS fourth, 5 AS fifth", width=40) == (
        "── row 1 ──────────────────────────────\n"
        "first  │ 1\n"
        "second │ NULL\n"
        "third  │ three\n"
        "fourth │ 4\n"
        "fifth  │ 5\n"
        "1 row"
    )


def test_a_terminal_is_shown_the_first_rows_and_told_so() -> None:
    lines = table("SELECT i FROM range(1234) AS t(i)", rows=2).splitlines()
    assert lines[3:] == ["│ 0 │", "│ 1 │", "└───┘", "1,234 rows: the first 2 are shown, --format csv prints all"]


def test_no_rows_are_a_table_too() -> None:
    assert table("SELECT 1 AS a WHERE false") == "┌───┐\n│ a │\n├───┤\n└───┘\n0 rows"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x00", r"\x00"),
        ("\x9b2J", r"\x9b2J"),
        ("abc\u202edcb", r"abc\u202edcb"),
        ("é日🙂", "é日🙂"),
    ],
)
def test_nothing_in_a_cell_can_drive_the_terminal(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_null_is_dimmed_where_there_is_colour() -> None:
    assert "│ \x1b[2mNULL\x1b[0m │" in table("SELECT NULL AS a", color=True)
