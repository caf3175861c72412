"""The conversation of the plain agent, kept within the model's window: old results are dropped first, then all is summed up."""

from __future__ import annotations

import attrs

from kleene.bench.plain import prompts
from kleene.udfs.protocols import Message, ToolResult

KEPT = 3
"""So many of the last messages with results keep them when old ones are dropped."""

WORTH_DROPPING = 400
"""Characters: a shorter result stays, for what stands in its place is not much shorter."""


@attrs.define
class History:
    """``room`` is how many characters of messages the window holds. Messages only grow at the end, so that a prefix cache serves them, but for
    the moments when room is made."""

    room: int
    messages: list[Message] = attrs.field(factory=list)

    def add(self, *messages: Message) -> None:
        self.messages += messages

    @property
    def characters(self) -> int:
        return sum(len(m.text) + len(m.more) for m in self.messages)

    @property
    def is_full(self) -> bool:
        return self.characters > self.room

    def drop_results(self, kept: int = KEPT) -> bool:
        """Take away the results of all but the last messages that have some. Whether that took anything away."""
        with_results = [n for n, m in enumerate(self.messages) if m.results]
        before = self.characters
        for n in with_results[: len(with_results) - kept]:
            message = self.messages[n]
            self.messages[n] = attrs.evolve(message, results=tuple(_dropped(r) for r in message.results))
        return self.characters < before

    def begin_again(self, summary: str) -> None:
        """Keep the task, and what the model wrote down of all that followed."""
        task = self.messages[0]
        self.messages = [attrs.evolve(task, text=f"{task.text}\n\n{prompts.SUMMARY.format(summary=summary)}")]


def _dropped(result: ToolResult) -> ToolResult:
    if len(result.text) < WORTH_DROPPING:
        return result
    return attrs.evolve(result, text=prompts.DROPPED.format(characters=len(result.text)))
