"""The policy on drawn statements: it crashes on none, and what it accepts touches no file. ``scripts/fuzz_policy.py`` draws for as long as it is let."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import ParseError, PolicyError
from kleene.planner.policy import check_model
from kleene.planner.statements import parse
from tests.planner import hostile
from tests.planner.hostile import FUNCTIONS, MARK, TABLES, Fault, Trap, seeds, statement_of

KNOWN = seeds()


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trap]:
    made = Trap(tmp_path_factory.mktemp("trap") / "files")
    yield made
    made.close()


@settings(max_examples=150)
@given(data=st.binary(min_size=8, max_size=120))
def test_no_drawn_statement_crashes_the_policy_or_touches_a_file(trap: Trap, data: bytes) -> None:
    trap.check(statement_of(data, KNOWN))


FOUND = [
    "DELETE FROMt USING 'data.csv'",
    "SHOW ALL",
    "show all ; SELECT 1",
]
"""What fuzzing found, mended since."""


@pytest.mark.parametrize("sql", FOUND)
def test_what_was_found_is_refused(sql: str) -> None:
    with pytest.raises((ParseError, PolicyError)):
        for statement in parse(sql):
            check_model(statement, functions=FUNCTIONS, tables=TABLES.__contains__)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM 'data.csv'",
        "SELECT * FROM read_text('notes.txt')",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'new.duckdb' AS o",
        "FROM 'data.json'",
    ],
)
def test_the_trap_springs_where_the_policy_would_accept(trap: Trap, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(hostile, "check_model", lambda *args, **kwargs: None)
    with pytest.raises(Fault, match=r"an accepted statement (read a file|wrote)"):
        trap.check(sql)


def test_the_trap_lets_ordinary_statements_run(trap: Trap) -> None:
    before = trap.accepted
    for sql in ("SELECT count(*) FROM t", "FROM ctx SELECT ordinal WHERE text = 'text'", f"SELECT '{MARK[:4]}'"):
        trap.check(sql)
    assert trap.accepted == before + 3
