"""Plans of statements that were run before, for as long as all that they were made from is the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import attrs

from kleene.planner.callplan import CallPlan, Experience, Relations, Site
from kleene.planner.catalog import Catalog
from kleene.planner.learned import Learned
from kleene.planner.settings import Settings
from kleene.planner.statements import Statement
from kleene.planner.views import View

T = TypeVar("T")

MOST = 64  # plans that are kept
LONGEST = 20_000  # characters of a text whose plan is kept


@attrs.frozen
class _Answered:
    """One thing that planning asked: ``again`` asks it once more."""

    again: Callable[[Relations, Experience], object]
    answer: object


@attrs.define
class _Asked:
    """The planner's questions to the database and to experience, passed on and written down. What is a count or a clock's is another the next
    time (``changing``)."""

    relations: Relations
    learned: Experience
    answers: list[_Answered] = attrs.field(factory=list)
    changing: bool = False

    def snapshot(self) -> Relations:
        return self

    def describe(self, query: str) -> tuple[tuple[str, str], ...] | None:
        return self._noted(lambda relations, _: relations.describe(query))

    def ordering(self) -> tuple[str, str]:
        return self._noted(lambda relations, _: relations.ordering())

    def counts(self, query: str, limit_ms: int) -> tuple[int, ...] | None:
        self.changing = True
        return self.relations.counts(query, limit_ms)

    def views(self, names: frozenset[str]) -> tuple[View, ...]:
        return self._noted(lambda relations, _: relations.views(names))

    def clock(self) -> dict[str, tuple[str, str]]:
        self.changing = True
        return self.relations.clock()

    def experience(self, site: Site) -> Learned | None:
        return self._noted(lambda _, learned: learned(site))

    def _noted(self, ask: Callable[[Relations, Experience], T]) -> T:
        answer = ask(self.relations, self.learned)
        self.answers.append(_Answered(ask, answer))
        return answer


@attrs.frozen
class _Made:
    """A plan, None where the statement makes no call, with what it rests on."""

    plan: CallPlan | None
    catalog: Catalog
    settings: Settings
    answers: tuple[_Answered, ...]

    def holds(self, catalog: Catalog, settings: Settings, relations: Relations, learned: Experience) -> bool:
        if self.catalog is not catalog or self.settings != settings:
            return False
        return all(asked.again(relations, learned) == asked.answer for asked in self.answers)


class Plans:
    """The last plans of one connection, by their texts. Whatever planning asked of the database is asked again before one is used, so that a
    changed table or view is noticed; one that rests on counts of rows or on the time is made anew each time."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, _Made] = OrderedDict()

    def plan(
        self,
        statement: Statement,
        catalog: Catalog,
        settings: Settings,
        relations: Relations,
        learned: Experience,
        make: Callable[[Relations, Experience], CallPlan | None],
    ) -> CallPlan | None:
        """The plan of a statement as it was read, by ``make`` where there is none that holds. ``catalog`` is never changed in place: another is
        another object."""
        text = f"{statement.span.start} {statement.source}"
        relations = relations.snapshot()
        known = self._made.get(text)
        if known is not None and known.holds(catalog, settings, relations, learned):
            self._made.move_to_end(text)
            return known.plan
        asked = _Asked(relations, learned)
        made = make(asked, asked.experience)
        self._made.pop(text, None)
        if not asked.changing and len(text) <= LONGEST:
            self._made[text] = _Made(made, catalog, settings, tuple(asked.answers))
            if len(self._made) > MOST:
                self._made.popitem(last=False)
        return made


__all__ = ["Plans"]
