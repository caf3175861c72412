from __future__ import annotations

from kleene.session.excerpt import excerpt
from kleene.session.world import Outcome


def ctx(texts: list[str], row_count: int | None = None) -> Outcome:
    rows: list[tuple[object, ...]] = list(enumerate(texts, 1))
    return Outcome(
        columns=("ordinal", "text"), types=("BIGINT", "VARCHAR"), rows=rows, row_count=row_count or len(rows)
    )


def test_a_short_table_is_shown_whole() -> None:
    text = excerpt("ctx", ctx(["x" * 3_000] * 3))
    assert (
        text
        == "All of ctx:\nordinal BIGINT | text VARCHAR\n"
        + "".join(f"[row {n}]\nordinal: {n}\ntext: {'x' * 3000}\n" for n in (1, 2, 3))
        + "3 rows"
    )


def test_a_long_table_shows_its_first_rows() -> None:
    text = excerpt("ctx", ctx(["x" * 300] * 100))
    assert text == (
        "The beginning of ctx:\nordinal BIGINT | text VARCHAR\n"
        + "".join(f"{n} | {'x' * 150} …[300 characters]… {'x' * 50}\n" for n in (1, 2, 3))
        + "... 97 more rows of the statement's 100: with an ORDER BY, LIMIT and OFFSET show what follows row 3; or aggregate\n"
        "cut cells: fewer rows show more of each; substr(text, 1, 4000) of one row shows 4,000 characters"
    )


def test_rows_that_were_not_fetched_are_not_said_to_be_all() -> None:
    assert excerpt("ctx", ctx(["a"] * 20, row_count=21)).startswith("The beginning of ctx:")


def test_an_empty_table_shows_nothing() -> None:
    assert excerpt("ctx", ctx([])) == ""
