"""Bounds on what one call of a DuckDB function may make where others than the user write statements.

DuckDB is interrupted between vectors, not inside one call of a function: ``lpad('', 1000000000, 'x')`` or ``range(1000000000)`` run for minutes past
a statement's wall, outside of the memory limit. So the connection of a session, and of a locked engine, has temporary macros in the place of the functions that make much of
little, which raise an error above ``MOST`` repetitions, characters or elements. The bound stands inside the argument: DuckDB evaluates a constant
call before it looks at a condition around it.
"""

from __future__ import annotations

import duckdb

MOST = 10_000_000
"""Characters, repetitions or elements: a tenth of a second to a few seconds of work, and far above what a statement reads."""


def _most(amount: str, value: str, name: str) -> str:
    """``value``, or an error where ``amount`` is above the bound. NULL and what is no number pass."""
    said = f"{name} makes at most {MOST:,} at once here"
    return f"CASE WHEN {amount} > {MOST} THEN error('{said}') ELSE {value} END"


def _number(value: str) -> str:
    """An argument as a number; NULL where it is a time."""
    return f"TRY_CAST(CAST({value} AS VARCHAR) AS HUGEINT)"


def _sized(name: str, parameters: str, sized: str = "n") -> str:
    """One signature of a function whose argument ``sized`` says how much it makes."""
    values = parameters.replace(sized, _most(sized, sized, name), 1)
    return f"({parameters}) AS system.main.{name}({values})"


def _series(name: str) -> str:
    span = f"({_number('b')} - {_number('a')})"
    steps = f"{span} / {_number('c')}"
    return ", ".join(
        (
            f"(b) AS system.main.{name}({_most(_number('b'), 'b', name)})",
            f"(a, b) AS system.main.{name}(a, {_most(span, 'b', name)})",
            f"(a, b, c) AS system.main.{name}(a, {_most(steps, 'b', name)}, c)",
        )
    )


BOUNDED: tuple[str, ...] = (
    f"repeat{_sized('repeat', 's, n')}",
    *(f"{name}{_sized(name, 's, n, p')}" for name in ("lpad", "rpad")),
    *(f"{name}{_sized(name, 'l, n')}, {_sized(name, 'l, n, v')}" for name in ("list_resize", "array_resize")),
    *(f"{name}{_series(name)}" for name in ("range", "generate_series")),
)


def bound(con: duckdb.DuckDBPyConnection) -> None:
    """Put the bounded functions in the place of DuckDB's on one connection."""
    con.execute(";".join(f"CREATE OR REPLACE TEMP MACRO {macro}" for macro in BOUNDED))
