"""The loop: run the statement, make the calls it asked for, run it again, until it asks for none.

Right by five conditions (``docs/architecture.md``): the text equals the user's once every lookup answers; every run is planned afresh (the
caller executes a fresh text each time); nothing that does not note was missing; arguments are the same from run to run (checked here:
``Shifting``); and what is executed last is what was checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from kleene.planner.errors import Cancelled, Unstable
from kleene.udfs.lookups import Key
from kleene.udfs.statement import Ask, CallSite

T = TypeVar("T")


class Shifting(Exception):
    """Between two runs a site asked for new arguments and no longer for old ones: its arguments change from run to run."""

    def __init__(self, site: str):
        super().__init__(site)
        self.site = site


@attrs.frozen
class RunReport:
    """One run: its number from 1, how many arguments it lacked, how many answers were known when it began, its seconds."""

    number: int
    notes: int
    answered: int
    seconds: float


@attrs.frozen
class Loop:
    """What one fixed point needs.

    ``execute`` runs the emitted text once, freshly planned, and returns its result or raises. ``answer`` makes the calls. ``final`` tells
    whether an error of a run may be the statement's own (a run that noted nothing); errors of other runs are not. ``independent`` are the
    sites whose arguments hold no other call. ``suspicious``: compare two runs before the first call is paid for.
    """

    sites: Sequence[CallSite]
    independent: frozenset[str]
    execute: Callable[[], object]
    answer: Callable[[list[Ask]], None]
    report: Callable[[RunReport], None]
    cancelled: Callable[[], bool]
    error_types: tuple[type[BaseException], ...]
    max_runs: int = 100
    suspicious: bool = False


def run(loop: Loop) -> object:
    """The result of the run that noted nothing.

    Raises ``Shifting`` for a site whose arguments change, ``Unstable`` after ``max_runs``, ``Cancelled``, and whatever ``answer`` raises.
    """
    watched: dict[str, set[Key]] = {}
    number = 0
    while number < loop.max_runs:
        number += 1
        result, error, notes = _once(loop, number)
        if not notes:
            if error is not None:
                raise error
            return result
        del result
        if loop.suspicious and number == 1:
            _, _, again = _once(loop, number)
            _compare_dry_runs(loop, notes, again)
        if error is None:  # a run that failed looked up only part of its arguments
            _check_shift(loop, notes, watched, number)
        loop.answer([Ask(site, key) for site, keys in notes for key in sorted(keys, key=_order)])
    names = ", ".join(site.spec.function for site, _ in notes)
    raise Unstable(
        f"no fixed point after {loop.max_runs} runs: {names} still asks for new arguments",
        site=notes[0][0].name,
        hint="an argument changes from run to run; store it in a table first, or SET max_runs = n",
    )


def _once(loop: Loop, number: int) -> tuple[object, BaseException | None, list[tuple[CallSite, list[Key]]]]:
    if loop.cancelled():
        raise Cancelled("cancelled")
    for site in loop.sites:
        site.answers.begin_run(watch=number > 1 and site.name in loop.independent)
    answered = sum(len(s.answers.answers) for s in loop.sites)
    started = time.perf_counter()
    result: object = None
    error: BaseException | None = None
    try:
        result = loop.execute()
    except loop.error_types as failure:
        error = failure
    notes = [(s, list(s.answers.notes)) for s in loop.sites if s.answers.notes]
    loop.report(RunReport(number, sum(len(k) for _, k in notes), answered, time.perf_counter() - started))
    if loop.cancelled():
        raise Cancelled("cancelled")
    return result, error, notes


def _compare_dry_runs(
    loop: Loop, first: list[tuple[CallSite, list[Key]]], second: list[tuple[CallSite, list[Key]]]
) -> None:
    before = {s.name: set(keys) for s, keys in first}
    for site, keys in second:
        if site.name in loop.independent and before.get(site.name, set()) != set(keys):
            raise Shifting(site.name)


def _check_shift(
    loop: Loop, notes: list[tuple[CallSite, list[Key]]], watched: dict[str, set[Key]], number: int
) -> None:
    """New keys and vanished keys between two runs mean that arguments change; either alone does not (a filter was answered, say)."""
    noted = {site.name: set(keys) for site, keys in notes}
    for site in loop.sites:
        if site.name not in loop.independent:
            continue
        new = noted.get(site.name, set())
        seen = site.answers.seen
        if number > 1 and new and watched.get(site.name, set()) - seen:
            raise Shifting(site.name)
        watched[site.name] = new if number == 1 else set(seen)


def _order(key: Key) -> tuple[str, ...]:
    """Arguments are asked in the order of their text: the same in every run and replay whatever the threads did, and equal beginnings
    follow each other, which a provider's prefix cache serves."""
    return (key,) if isinstance(key, str) else key
