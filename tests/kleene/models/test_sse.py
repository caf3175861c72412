"""Server-sent events out of bytes that are cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.models.sse import SseEvent, SseParser

STREAM = "\ufeff: hello\n\nevent: a\ndata: one\ndata: two\n\ndata:three\nid: 7\nretry: 10\n\nevent: lost\n\ndata: h\u00e9 \U0001f600\n\ndata"
EVENTS = [SseEvent("a", "one\ntwo"), SseEvent("", "three"), SseEvent("", "h\u00e9 \U0001f600"), SseEvent("", "")]


def read(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [e for chunk in chunks for e in parser.feed(chunk)] + parser.close()


@settings(deadline=None)
@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 200), max_size=12))
def test_any_cut_and_any_line_end_gives_the_same_events(end: str, cuts: list[int]) -> None:
    data = STREAM.replace("\n", end).encode()
    places = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    assert read([data[a:b] for a, b in pairwise(places)]) == EVENTS


def test_a_blank_line_split_between_cr_and_lf_is_one_line_end() -> None:
    assert read([b"data: a\r", b"\n\r", b"\ndata: b\r\n\r\n"]) == [SseEvent("", "a"), SseEvent("", "b")]


@pytest.mark.parametrize(("data", "text"), [(b"data: a\xff\n\n", "a\ufffd"), (b"data: \xc3", "\ufffd")])
def test_bytes_that_are_no_utf8_become_replacement_characters(data: bytes, text: str) -> None:
    assert read([data]) == [SseEvent("", text)]


def test_a_line_is_found_without_reading_the_whole_again() -> None:
    parser = SseParser()
    for _ in range(20_000):
        assert parser.feed(b"x" * 10) == []
    assert len(parser.feed(b"\n\ndata: end\n\n")) == 1
