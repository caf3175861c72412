"""The statements of one text, run one by one: each is confirmed when its turn has come, and its errors point into the whole text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kleene.cli.exits import UsageError
from kleene.planner.errors import KleeneError
from kleene.planner.specs import Span

if TYPE_CHECKING:
    from kleene.planner.statements import Statement


def split(text: str) -> tuple[Statement, ...]:
    """The statements, all read before the first one runs. A text without one is a ``UsageError``; ``ParseError`` as the parser has it."""
    from kleene.planner.statements import parse

    statements = parse(text)
    if not statements:
        raise UsageError(
            "there is no statement to run",
            hint='python -m kleene sql "SELECT 6 * 7"; @FILE reads a file, - reads stdin',
        )
    return statements


@contextmanager
def placed(statement: Statement) -> Iterator[None]:
    """Errors of the statement, whose place is in its own text, get their place in the whole text. Other errors pass as they are."""
    try:
        yield
    except KleeneError as error:
        if error.span is not None and error.source == statement.text:
            start = statement.span.start
            error.span = Span.at(statement.source, start + error.span.start, start + error.span.end)
            error.source = statement.source
        raise
