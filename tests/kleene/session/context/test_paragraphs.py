from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kleene.session.context.paragraphs import paragraphs


def test_blank_lines_part_paragraphs() -> None:
    assert list(paragraphs(["\n", "a\n", "  b \n", "\t\n", "\n", "c\n"])) == ["a\n  b ", "c"]


def test_a_text_without_lines_has_no_paragraph() -> None:
    assert list(paragraphs([])) == []
    assert list(paragraphs(["\n", "  "])) == []


def test_a_huge_paragraph_is_split_at_line_ends_only() -> None:
    lines = ["x" * 9_000 + "\n"] * 3 + ["y" * 50_000 + "\n", "z\n"]
    assert [len(p) for p in paragraphs(lines)] == [18_001, 9_000, 50_000, 1]


def test_a_paragraph_of_exactly_the_limit_stays_whole() -> None:
    assert list(paragraphs(["abc\n", "def\n"], limit=7)) == ["abc\ndef"]
    assert list(paragraphs(["abc\n", "def\n"], limit=6)) == ["abc", "def"]


@given(st.lists(st.text(alphabet="ab \t", max_size=6)), st.integers(1, 12))
def test_no_line_that_is_not_blank_is_lost_or_changed(lines: list[str], limit: int) -> None:
    found = list(paragraphs([line + "\n" for line in lines], limit=limit))
    assert [line for p in found for line in p.split("\n")] == [line for line in lines if line.strip()]
    assert all(len(p) <= limit or "\n" not in p for p in found)
