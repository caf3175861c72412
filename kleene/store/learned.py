"""What was learned about models and calls, kept in the table ``estimates``: one row a model whose ``branch`` is the tokens that a character
makes, and one row a template of calls with the share that is TRUE (``sel``), the tokens of a reply and the answers that both rest on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import duckdb

from kleene.store.state import EstimateRecord, State
from kleene.udfs.experience import Lesson
from kleene.udfs.tokens import TokenRatio

if TYPE_CHECKING:
    from kleene.store.store import Store

FUNCTION = "tokens a character"


def load_ratios(store: Store) -> tuple[TokenRatio, ...]:
    """Every model's ratio as it was kept."""
    with closing(State(store)) as state:
        found = state.all(EstimateRecord, function=FUNCTION)
    return tuple(TokenRatio(r.template, r.n / r.branch, r.n) for r in found if r.branch and r.n)


def save_ratios(store: Store, ratios: Iterable[TokenRatio]) -> None:
    """Keep ratios, each replacing its model's."""
    _save(
        store,
        (
            EstimateRecord(
                template_hash=f"tokens of {ratio.model}",
                function=FUNCTION,
                template=ratio.model,
                branch=ratio.tokens / ratio.characters,
                n=round(ratio.tokens),
            )
            for ratio in ratios
            if ratio.characters > 0
        ),
    )


def load_lessons(store: Store) -> tuple[Lesson, ...]:
    """What was kept of every template of calls; nothing where the store cannot say."""
    try:
        with closing(State(store)) as state:
            found = state.all(EstimateRecord)
    except duckdb.Error:
        return ()
    return tuple(
        Lesson(r.template_hash, r.function, r.template, r.n, r.sel, r.output_tokens)
        for r in found
        if r.function != FUNCTION and r.n > 0 and _is_share(r.sel) and _is_length(r.output_tokens)
    )


def _is_share(value: float | None) -> bool:
    return value is None or 0 <= value <= 1


def _is_length(value: float | None) -> bool:
    return value is None or 0 <= value < math.inf


def save_lessons(store: Store, lessons: Iterable[Lesson]) -> None:
    """Keep lessons, each replacing its template's."""
    _save(
        store,
        (
            EstimateRecord(
                template_hash=lesson.key,
                function=lesson.function,
                template=lesson.template,
                sel=lesson.rate,
                output_tokens=lesson.tokens,
                n=round(lesson.answers),
            )
            for lesson in lessons
        ),
    )


def _save(store: Store, records: Iterable[EstimateRecord]) -> None:
    """Keep records. They only sharpen estimates, so that a store that cannot take them is no error."""
    found = tuple(records)
    with suppress(duckdb.Error), closing(State(store)) as state:
        if found:
            state.save(*found)
