"""A model for session tests: turns from a script by session path, calls by rule, and everything it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import kleene
from kleene.udfs.events import Event, TurnFinished

Turn = str | BaseException | Callable[[Any], Any]


def sql(text: str) -> str:
    """A reply that holds these statements."""
    return f"```sql\n{text}\n```"


class Script:
    """``turns``: the replies of sessions, by the role that asks (``root`` or the alias of children): a text, an error to raise, or a function of
    the request. A session asked more often than scripted gets its last reply again. ``calls`` answers everything else."""

    def __init__(
        self,
        *root: Turn,
        children: Sequence[Turn] | Callable[[Any], Any] = (),
        calls: Callable[[str], Any] = lambda prompt: "true",
    ):
        self._root = root
        self._children = children
        self._calls = calls
        self._lock = threading.Lock()
        self.turns: list[Any] = []
        self.prompts: list[str] = []

    def __call__(self, request: Any) -> Any:
        if request.path is None:
            with self._lock:
                self.prompts.append(request.messages[0].text)
            return self._calls(request.messages[0].text)
        with self._lock:
            self.turns.append(request)
        path, _, n = request.path.rpartition("/")
        replies = self._root if "/" not in path else self._children
        if callable(replies):
            return replies(request)
        reply = replies[min(int(n), len(replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply(request) if callable(reply) else reply

    def asked(self, path: str = "root") -> list[Any]:
        """The requests of the session at this path, in order."""
        return [r for r in self.turns if r.path.rpartition("/")[0] == path]

    def told(self, turn: int, path: str = "root") -> str:
        """What the session was told after a turn."""
        return str(self.asked(path)[turn].messages[-1].text)

    @property
    def child_paths(self) -> list[str]:
        """The paths of child sessions, in the order of their first turn."""
        return list(dict.fromkeys(p for r in self.turns if "/" in (p := r.path.rpartition("/")[0])))


class Events(list[Event]):
    """Collects events; usable as ``on_event``."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def feedback(self, turn: int, session: str | None = None) -> str:
        """What was told after a turn of the root, or of another session."""
        return next(
            e.feedback
            for e in self
            if isinstance(e, TurnFinished)
            and e.turn == turn
            and (e.session == session or (session is None and "." not in e.session))
        )


@contextmanager
def engine(model: Any, **options: Any) -> Iterator[kleene.Engine]:
    """An engine on an empty database with a store in memory (or ``store=``)."""
    options.setdefault("store", ":memory:")
    models = (
        model
        if model is None or isinstance(model, Mapping) or hasattr(model, "send")
        else kleene.FunctionModel(model, "function")
    )
    k = kleene.connect(models=models, **options)
    try:
        yield k
    finally:
        k.close()
