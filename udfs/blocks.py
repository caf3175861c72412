"""Prompts that were answered one after the other without a wait, as columns: delivered, kept and traced as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs

from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered
from kleene.udfs.memo import MemoRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleene.udfs.statement import StatementContext
    from kleene.udfs.work import Lane, Work


@attrs.define(eq=False)
class Block:
    """Requests of one lane to its own model, each sent once and answered in full; all lists are as long as ``works``.

    ``started`` and ``finished`` are seconds since the epoch, those of the slice in which a request was made. ``texts`` are the replies as they
    came, ``answers`` what they say.
    """

    lane: Lane
    works: list[Work] = attrs.field(factory=list)
    answers: list[Answered] = attrs.field(factory=list)
    texts: list[str] = attrs.field(factory=list)
    input_tokens: list[int] = attrs.field(factory=list)
    output_tokens: list[int] = attrs.field(factory=list)
    dollars: list[float] = attrs.field(factory=list)
    started: list[float] = attrs.field(factory=list)
    finished: list[float] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.works)

    def usage(self, since: int = 0) -> Usage:
        """What the requests from this one on used, together."""
        return Usage(
            requests=len(self.works) - since,
            input_tokens=sum(self.input_tokens[since:]),
            output_tokens=sum(self.output_tokens[since:]),
            dollars=math.fsum(self.dollars[since:]),
        )

    def rows(self) -> MemoRows:
        """As the memo keeps them."""
        lane = self.lane
        return MemoRows(
            lane.key,
            lane.digest,
            [w.prompt for w in self.works],
            self.texts,
            self.input_tokens,
            self.output_tokens,
            self.dollars,
            self.finished[-1],
        )

    def hand_out(self, context: StatementContext, land: Callable[[Work, Answered], Any]) -> None:
        """Give the answers to all who asked."""
        shared = context.known.get(self.lane.identity)
        counted = not self.lane.route.is_function
        for work, answer, tokens in zip(self.works, self.answers, self.output_tokens, strict=True):
            if shared is not None:
                shared[work.prompt] = answer
            work.site.seen.take(answer.value, tokens if counted else None)
            work.site.answers.given[work.site_key] = answer.value
            if work.more:
                for site, key in work.more:
                    site.answers.given[key] = answer.value
            land(work, answer)
