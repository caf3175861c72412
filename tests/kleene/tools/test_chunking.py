from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import ToolError
from kleene.tools.chunking import cut
from kleene.tools.standard import CHUNKS
from tests.kleene.tools.working import rows

TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["# Head\n", "## Sub\n", "\n\n", "\n", ". ", "word ", "longerword ", "日本語。", "é", "\r\n"]),
        st.text(max_size=5),
    ),
    max_size=60,
).map("".join)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(1, 12))
def test_chunks_hold_the_whole_text_in_order(text: str, size: int) -> None:
    pieces = list(cut(text, size))
    assert all(0 < len(piece) <= 4 * size and piece.strip() for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(2, 12), st.data())
def test_chunks_overlap_by_no_more_than_asked(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(1, size - 1))
    pieces = list(cut(text, size, overlap))
    assert all(0 < len(piece) <= 4 * size for piece in pieces)
    at = 0
    for piece in pieces:
        found = text.find(piece, max(0, at - 4 * overlap))
        assert found >= 0
        assert not text[at:found].strip()
        at = max(at, found + len(piece))
    assert not text[at:].strip()
    assert len(pieces) <= max(1, len(text))


def test_chunks_are_cut_where_it_is_natural(tmp_path: Path) -> None:
    text = "# One\n\nFirst paragraph here.\n\nSecond one. It has two sentences.\n\n# Two\n\nThe last words."
    assert rows(CHUNKS, tmp_path, text, 19) == [
        (1, "# One\n\nFirst paragraph here.\n\nSecond one. It has two sentences.", 16),
        (2, "# Two\n\nThe last words.", 6),
    ]
    assert [row[1] for row in rows(CHUNKS, tmp_path, text, 9)] == [
        "# One\n\nFirst paragraph here.",
        "Second one. It has two sentences.",
        "# Two\n\nThe last words.",
    ]


def test_chunks_overlap_from_a_border(tmp_path: Path) -> None:
    text = "One two three. Four five six. Seven eight nine. Ten eleven twelve."
    assert [row[1] for row in rows(CHUNKS, tmp_path, text, 12, 5)] == [
        "One two three. Four five six. Seven eight nine.",
        "Seven eight nine. Ten eleven twelve.",
    ]


def test_chunks_of_nothing_and_bad_sizes(tmp_path: Path) -> None:
    assert rows(CHUNKS, tmp_path, "", 5) == rows(CHUNKS, tmp_path, " \n\n ", 5) == []
    assert rows(CHUNKS, tmp_path, "short", 5) == [(1, "short", 2)]
    for arguments in (("x", 0), ("x", -1), ("x", 5, 5), ("x", 5, -1)):
        with pytest.raises(ToolError):
            rows(CHUNKS, tmp_path, *arguments)


def test_a_long_text_is_cut_in_linear_time(tmp_path: Path) -> None:
    assert len(rows(CHUNKS, tmp_path, "x" * 2_000_000, 500)) == 1_000
    assert len(rows(CHUNKS, tmp_path, "word " * 400_000, 500, 100)) > 1_000
