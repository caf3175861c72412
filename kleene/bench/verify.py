"""What decides whether an answer is right: one frozen class an oracle, as a pack writes it (``verify = {oracle = "number", value = 3}``)."""

from __future__ import annotations

from typing import TypeAlias

import attrs

Cell: TypeAlias = str | int | float | bool | None


@attrs.frozen
class Exact:
    """The same rows in any order (``kleene.bench.oracles.exact``)."""

    rows: tuple[tuple[Cell, ...], ...]


@attrs.frozen
class Number:
    """The first cell of the first row, within an absolute ``tolerance``."""

    value: float
    tolerance: float = 0.0


@attrs.frozen
class Sat:
    """``clauses`` over variables 1 to ``variables``: a satisfying assignment, or that there is none."""

    variables: int
    clauses: tuple[tuple[int, ...], ...]


@attrs.frozen
class Shell:
    """A command that must end with 0 in the workspace; it reads the answer's rows as JSON on its stdin."""

    command: str


@attrs.frozen
class Judge:
    """A model compares the answer with a rubric, and with a ``reference`` where there is one."""

    rubric: str
    reference: str = ""


@attrs.frozen
class Oolong:
    """An answer of OOLONG: ``kind`` is label, date, id, comparison or number; any of ``gold`` is right, and a number scores by
    how near it is to the nearest (``kleene.bench.oracles.oolong``)."""

    kind: str
    gold: tuple[str, ...]


@attrs.frozen
class Redline:
    """A clause to be redrafted: the column ``redline`` against the ``original`` and a ``reference`` of what should have become of it."""

    original: str
    reference: str


@attrs.frozen
class Human:
    """Nobody but a person can say: the answer waits as needs_review."""

    instructions: str = ""


Verify: TypeAlias = Exact | Number | Sat | Shell | Judge | Oolong | Redline | Human
ORACLES: tuple[type[Verify], ...] = (Exact, Number, Sat, Shell, Judge, Oolong, Redline, Human)


def oracle_name(kind: type[Verify] | Verify) -> str:
    """
    >>> oracle_name(Exact), oracle_name(Number(3))
    ('exact', 'number')
    """
    return (kind if isinstance(kind, type) else type(kind)).__name__.lower()
