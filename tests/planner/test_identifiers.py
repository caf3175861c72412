"""Names that need quotes get them, and no others."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.dialect import CallSQL
from kleene.planner.identifiers import WORDS, written
from kleene.planner.statements import parse


def test_the_words_are_duckdbs() -> None:
    query = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    with duckdb.connect() as con:
        assert {w for (w,) in con.execute(query).fetchall()} <= WORDS


def test_every_keyword_as_written_is_the_column() -> None:
    with duckdb.connect() as con:
        words = [w for (w,) in con.execute("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()]
        con.execute(f"""CREATE TABLE t AS SELECT {", ".join(f'{i} AS "{w}"' for i, w in enumerate(words))}""")
        (statement,) = parse(
            f"SELECT {', '.join(map(written, words))} FROM t GROUP BY {', '.join(map(written, words))}"
        )
        assert statement.tree is not None, statement.unreadable
        for sql in (statement.text, statement.tree.sql(CallSQL)):
            assert con.execute(sql).fetchall() == [tuple(range(len(words)))]


def test_any_name_as_written_is_the_column() -> None:
    with duckdb.connect() as con:

        @settings(max_examples=100, deadline=None)
        @given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12))
        def check(name: str) -> None:
            quoted = name.replace('"', '""')
            assert con.execute(f'SELECT {written(name)} FROM (SELECT 7 AS "{quoted}")').fetchall() == [(7,)]

        check()


@pytest.mark.parametrize("name", ["total", "Total_2", "_x", "é", "名"])
def test_an_ordinary_name_stays_bare(name: str) -> None:
    assert written(name) == name
