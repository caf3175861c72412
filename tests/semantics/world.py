"""A world in which every statement has two readings: Kleene's, and the truth.

The truth is DuckDB's own answer to the same text on a second instance with the same tables, where the functions ``f``, ``g``, ``q``
(BOOLEAN), ``h``, ``w`` (TEXT) and ``s`` (DOUBLE) are plain UDFs that answer at once. Kleene's functions of the same names ask a model that
gives the same answers and counts the distinct arguments it was asked. Arguments must be text or whole numbers.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import duckdb
import duckdb.sqltypes
import pyarrow as pa

import kleene
from kleene.planner import rules

BOOLEANS = ("f", "g", "q")
TEXTS = ("h", "w")
DOUBLES = ("s",)
TYPES = {
    **{name: ("BOOLEAN", duckdb.sqltypes.BOOLEAN, pa.bool_()) for name in BOOLEANS},
    **{name: ("TEXT", duckdb.sqltypes.VARCHAR, pa.string()) for name in TEXTS},
    **{name: ("DOUBLE", duckdb.sqltypes.DOUBLE, pa.float64()) for name in DOUBLES},
}
RULES = tuple(rule.__name__ for rule in (*rules.RULES, *rules.LATE))
Answer = Callable[[str], object]


def answer(name: str, argument: str) -> object:
    """The answer of a function: one in ten unknown (None), the others spread over few values."""
    digest = zlib.crc32(f"{name}|{argument}".encode())
    if digest % 10 == 0:
        return None
    digest //= 10
    if name in BOOLEANS:
        return digest % 2 == 0
    if name in DOUBLES:
        return digest % 5 / 4
    return ("a", "b", "c", "d e", "1")[digest % 5]


@attrs.frozen
class Seen:
    """One statement under Kleene: its rows, its column names and types, and the distinct ``(function, argument)`` it asked."""

    rows: list[tuple[Any, ...]]
    columns: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]

    def count(self, name: str | None = None) -> int:
        return sum(name in (None, function) for function, _ in self.calls)


class World:
    """Two instances with the same tables. ``answers`` replaces the default answer of single functions. ``estimates``: statements plan with
    what those before them saw, so that calls depend on these."""

    def __init__(self, setup: Iterable[str] = (), answers: dict[str, Answer] | None = None, *, estimates: bool = False):
        self.answers = dict(answers or {})
        self.asked: Counter[tuple[str, str]] = Counter()
        self.truth = duckdb.connect()
        self.con = duckdb.connect()
        self.engine = kleene.attach(self.con, store=":memory:", models=kleene.FunctionModel(self._reply, name="oracle"))
        for name, (sql_type, kind, arrow) in TYPES.items():
            self.engine.sql(f"CREATE FUNCTION {name}(x TEXT) RETURNS {sql_type} AS PROMPT '{name}|{{x}}'")
            self._create_truth(name, kind, arrow)
        self.engine.sql("SET memo = off")
        self.engine.sql(f"SET estimates = {'on' if estimates else 'off'}")
        self.engine.sql("SET distinct_rows = 0")  # small tables stand for large ones,
        self.engine.sql("SET materialise_ms = 0")  # and quick runs for slow ones
        self.setup(*setup)

    def setup(self, *statements: str) -> None:
        for statement in statements:
            self.truth.execute(statement)
            self.con.execute(statement)

    def close(self) -> None:
        self.engine.close()
        self.con.close()
        self.truth.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- answers ---------------------------------------------------------------------------------------------------------------------------

    def outcome(self, name: str, argument: str) -> object:
        own = self.answers.get(name)
        return own(argument) if own is not None else answer(name, argument)

    def _create_truth(self, name: str, kind: Any, arrow: pa.DataType) -> None:
        def body(column: pa.Array) -> pa.Array:
            values = [None if v is None else self.outcome(name, str(v)) for v in column.to_pylist()]
            return pa.array(values, type=arrow)

        self.truth.create_function(name, body, None, kind, type="arrow", side_effects=False, null_handling="special")

    def _reply(self, request: Any) -> str:
        prompt = request.messages[0].text
        name, _, rest = prompt.partition("|")
        argument = rest.split("\n\nReply with", 1)[0]
        if request.messages[-1] is request.messages[0]:
            self.asked[name, argument] += 1
        value = self.outcome(name, argument)
        if value is None:
            return "" if name in TEXTS else "hard to say"
        return str(value).lower() if isinstance(value, bool) else str(value)

    # -- running ---------------------------------------------------------------------------------------------------------------------------

    def kleene(self, sql: str, *, off: Sequence[str] = ()) -> Seen:
        """Run under Kleene with the rules of ``off`` switched off."""
        self.asked.clear()
        settings = self.engine.state.settings
        self.engine.state.settings = attrs.evolve(settings, rules_off=frozenset(off))
        try:
            result = self.engine.sql(sql)
        finally:
            self.engine.state.settings = settings
        # An empty reply, the unknown text, is asked for once more in the same words.
        repeated = [key for key, count in self.asked.items() if count > (self.outcome(*key) is None) + 1]
        assert not repeated, f"asked twice: {repeated[:3]}"
        return Seen(result.fetchall(), tuple(result.columns), tuple(self.asked), result.warnings)

    def true(self, sql: str) -> list[tuple[Any, ...]]:
        return self.truth.execute(sql).fetchall()

    def check(
        self,
        sql: str,
        *,
        least: int | None = None,
        above_least: int | None = None,
        ordered: bool = False,
        off: Sequence[str] = (),
    ) -> Seen:
        """Rows are the truth's: as a multiset, as a list where ``ordered``. Calls are ``least``, or ``above_least`` where a rule that would
        bring them down to ``least`` is not there yet."""
        seen = self.kleene(sql, off=off)
        wanted = self.true(sql)
        if ordered:
            assert keyed(seen.rows) == keyed(wanted), f"rows differ: {sql}"
        else:
            assert Counter(keyed(seen.rows)) == Counter(keyed(wanted)), f"rows differ: {sql}"
        if above_least is not None:
            assert least is not None and above_least > least
            assert seen.count() == above_least, f"{seen.count()} calls, {above_least} before, least {least}: {sql}"
        elif least is not None:
            assert seen.count() == least, f"{seen.count()} calls, least {least}: {sql}"
        return seen


def keyed(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Rows as comparable values: lists and NaN included."""
    return [repr(row) for row in rows]


__all__ = ["BOOLEANS", "DOUBLES", "RULES", "TEXTS", "TYPES", "Seen", "World", "answer", "keyed"]
