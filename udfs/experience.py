"""What statements learn about the calls that they make: of each template how many answers there were, and of what kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

import attrs

from kleene.planner.learned import Learned

MEMORY = 1000  # answers after which older ones count half as much
LEAST = 8  # answers below which nothing is said


@attrs.define(eq=False)
class Seen:
    """What the answers to one call site were, as they came in. Written by the loop, read when the statement is over."""

    answers: int = 0
    passed: int = 0
    replies: int = 0
    tokens: int = 0

    def take(self, value: object, tokens: int | None) -> None:
        """One answer that a model gave now; ``tokens`` of its reply, None where nobody counted them."""
        self.answers += 1
        if value is True:
            self.passed += 1
        if tokens is not None:
            self.replies += 1
            self.tokens += tokens


@attrs.frozen
class Lesson:
    """What is known of one template. ``key`` tells it from all others; ``function`` and ``template`` are for reading. ``answers`` fade."""

    key: str
    function: str
    template: str
    answers: float = 0.0
    rate: float | None = None
    tokens: float | None = None

    def after(self, seen: Seen, *, truths: bool) -> Lesson:
        """With what a further statement saw, each answer counting alike. ``truths``: answers are TRUE or not.

        >>> Lesson("k", "f", "Is {x}?", 10, 0.5).after(Seen(30, 3), truths=True).rate
        0.2
        """
        old = self.answers if self.answers <= MEMORY else self.answers / 2
        both = old + seen.answers
        rate, tokens = None, self.tokens
        if truths:
            rate = (old * (self.rate or 0.0) + seen.passed) / both
        if seen.replies:
            mean = seen.tokens / seen.replies
            tokens = mean if tokens is None else (old * tokens + seen.answers * mean) / both
        return attrs.evolve(self, answers=both, rate=rate, tokens=tokens)

    def learned(self) -> Learned | None:
        """For a plan; None where it is too little to go by."""
        return Learned(round(self.answers), self.rate, self.tokens) if self.answers >= LEAST else None


class Lessons:
    """All templates. ``load`` gives those of earlier processes, when the first is asked for. Its methods may be called from any thread."""

    def __init__(self, load: Callable[[], Iterable[Lesson]] = tuple) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._known: dict[str, Lesson] | None = None
        self._changed: set[str] = set()

    def of(self, key: str) -> Learned | None:
        """What is known of a template."""
        with self._lock:
            found = self._all().get(key)
        return None if found is None else found.learned()

    def take(self, lesson: Lesson, seen: Seen, *, truths: bool) -> None:
        """Add what a statement saw of a template; ``lesson`` is that of one that nothing is known of yet."""
        with self._lock:
            known = self._all()
            known[lesson.key] = known.get(lesson.key, lesson).after(seen, truths=truths)
            self._changed.add(lesson.key)

    def changed(self) -> tuple[Lesson, ...]:
        """What was learned since the last call, to be kept."""
        with self._lock:
            keys, self._changed = sorted(self._changed), set()
            known: Mapping[str, Lesson] = self._known or {}
            return tuple(known[key] for key in keys)

    def _all(self) -> dict[str, Lesson]:
        if self._known is None:
            self._known = {lesson.key: lesson for lesson in self._load()}
        return self._known


__all__ = ["LEAST", "Lesson", "Lessons", "Seen"]
