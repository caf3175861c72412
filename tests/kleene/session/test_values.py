from __future__ import annotations

import datetime as dt
import re
import uuid
from collections import namedtuple
from decimal import Decimal

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kleene.session.values import cell, is_cut, literal

Interval = namedtuple("Interval", "months days nanoseconds")


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (None, "VARCHAR", "NULL"),
        ("", "VARCHAR", "''"),
        ("NULL", "VARCHAR", "'NULL'"),
        ("null", "VARCHAR", "null"),
        (" a", "VARCHAR", "' a'"),
        ("it's", "VARCHAR", "it's"),
        ("'quoted'", "VARCHAR", "'''quoted'''"),
        ("a | b", "VARCHAR", "'a | b'"),
        ("a\nb\\c'd\x07", "VARCHAR", "E'a\\nb\\\\c''d\\x07'"),
        ("C:\\new", "VARCHAR", "C:\\new"),
        (True, "BOOLEAN", "true"),
        (False, "BOOLEAN", "false"),
        (12345678901234567890, "HUGEINT", "12345678901234567890"),
        (Decimal("1.50"), "DECIMAL(9,2)", "1.50"),
        (Decimal("1E+3"), "DECIMAL(9,0)", "1000"),
        (0.1 + 0.2, "DOUBLE", "0.30000000000000004"),
        (0.10000000149011612, "FLOAT", "0.1"),
        (float("nan"), "DOUBLE", "nan"),
        (float("-inf"), "DOUBLE", "-inf"),
        (dt.datetime(2020, 1, 2, 3, 4, 5), "TIMESTAMP", "2020-01-02 03:04:05"),
        (dt.date(2020, 1, 2), "DATE", "2020-01-02"),
        (dt.time(3, 4), "TIME", "03:04:00"),
        (b"a\x00'\xff", "BLOB", "a\\x00\\x27\\xFF"),
        (uuid.UUID(int=1), "UUID", "00000000-0000-0000-0000-000000000001"),
        ([1, None, "a,b"], "VARCHAR[]", "[1, NULL, 'a,b']"),
        ({"a": 1, "b": ["x\ny"]}, "STRUCT(a INTEGER, b VARCHAR[])", "{'a': 1, 'b': [E'x\\ny']}"),
        (Interval(1, -2, 3_723_500_000_000), "INTERVAL", "1 month -2 days 01:02:03.500000"),
        (Interval(0, 0, 0), "INTERVAL", "00:00:00"),
    ],
)
def test_a_value_is_written_exactly(value: object, type_name: str, expected: str) -> None:
    assert cell(value, type_name) == expected


def test_a_long_text_keeps_head_and_tail_and_says_its_length() -> None:
    assert cell("a" * 1000 + "z" * 1000, width=8) == "aaaaaa …[2,000 characters]… zz"
    assert cell("a\n" + "b" * 30, width=8) == "E'a\\nbbbb' …[32 characters]… E'bb'"
    assert cell(list(range(100)), width=12) == "[0, 1, 2, …[390 characters]… 99]"


def test_a_cell_is_cut_only_beyond_its_width_and_a_quarter() -> None:
    assert not is_cut("x" * 250, width=200) and cell("x" * 250, width=200) == "x" * 250
    assert is_cut("x" * 251, width=200) and len(cell("x" * 251, width=200)) < 230
    assert cell(list(range(8)), width=20) == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert not is_cut(None, width=4)


def test_the_texts_of_a_list_are_cut_each_by_itself() -> None:
    texts = ["a" * 90 + "needle" + "b" * 90, "short", "c" * 190]
    assert cell(texts, width=160, place=re.compile("needle")) == (
        f"[[after 77 characters]… {'a' * 13}needle{'b' * 34} …[56 more], 'short', {'c' * 40} …[190 characters]… {'c' * 13}]"
    )
    assert (
        cell(["x" * 100] * 9, width=100)
        == f"[{'x' * 38} …[100 characters]… {'x' * 12}, {'x' * 38} …[100 characters]… {'x' * 12}, …7 more]"
    )
    assert cell(["it's", None], width=100) == "['it''s', NULL]"


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40))
def test_a_text_reads_back_as_itself(text: str) -> None:
    written = literal(text)
    if written.startswith("E'") or (written.startswith("'") and written.endswith("'")):
        assert duckdb.connect().execute(f"SELECT {written}").fetchall() == [(text,)]
    else:
        assert written == text


@given(st.floats(width=32, allow_nan=False))
def test_a_float_reads_back_as_itself(value: float) -> None:
    assert float(cell(value, "DOUBLE")) == value
