"""Every error Kleene raises.

    KleeneError
    ├── ParseError        the text is not CallSQL
    ├── PlanError         it parses, but names something unknown or asks for something that has no meaning
    ├── PolicyError       a model's statement reaches outside its allow-list
    ├── Refused           the plan costs more than what remains of the budget; nothing was sent
    ├── BudgetExceeded    a budget dimension ran out while the statement ran
    ├── CallFailed        a model or tool call failed (no answer, as opposed to an unreadable one)
    ├── ToolError         a tool could not do what it was asked (no rows, as opposed to none found)
    ├── Unstable          the arguments of a call change from run to run, so that no fixed point is reached
    ├── Cancelled         the statement was cancelled
    ├── StoreLocked       another process holds the store
    ├── BusyConnection    the connection has a result that was not fetched
    └── ConfigError       a setting, a model or a file of the configuration is wrong
        └── NoModel       no model is configured

A message says what was found and what was expected; ``hint`` says what to do; ``span`` is where, in the user's own text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kleene.planner.specs import Span


class KleeneError(Exception):
    """The root of the tree. ``str(error)`` is the message alone; ``error.render()`` adds the place and the hint, and so does a traceback:
    they are the error's first notes."""

    def __init__(self, message: str, *, hint: str | None = None, span: Span | None = None, source: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span
        self.source = source
        self._added: list[str] = []

    def render(self) -> str:
        """The message, the line with a caret under the place if it is known, and the hint."""
        return "\n".join([f"error: {self.message}", *self._told()])

    def _told(self) -> list[str]:
        lines = [] if self.span is None or self.source is None else caret(self.source, self.span)
        return [*lines, f"hint: {self.hint}"] if self.hint else lines

    # Python prints an error's notes below its message. Place and hint may be set after the error was made, so they are read when it is shown.
    @property
    def __notes__(self) -> list[str]:
        return [*self._told(), *self._added]

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self._added = [*notes]

    def add_note(self, note: str, /) -> None:
        self._added.append(note)


class ParseError(KleeneError, ValueError):
    pass


class PlanError(KleeneError, ValueError):
    pass


class PolicyError(KleeneError, PermissionError):
    pass


class Refused(KleeneError):
    """``plan`` is what would have run; ``dimension``, ``needed`` and ``remaining`` are the dimension that does not fit."""

    def __init__(
        self,
        message: str,
        *,
        plan: object | None = None,
        dimension: str | None = None,
        needed: float | None = None,
        remaining: float | None = None,
        hint: str | None = None,
    ):
        super().__init__(message, hint=hint)
        self.plan = plan
        self.dimension = dimension
        self.needed = needed
        self.remaining = remaining


class BudgetExceeded(KleeneError):
    def __init__(
        self, dimension: str, limit: float, used: float, *, hint: str | None = None, message: str | None = None
    ):
        super().__init__(message or f"{dimension} budget exceeded: {number(used)} > {number(limit)}", hint=hint)
        self.dimension = dimension
        self.limit = limit
        self.used = used


class CallFailed(KleeneError):
    """``call`` describes the first failing call (function and arguments); ``kind`` is the provider error's kind."""

    def __init__(self, message: str, *, call: str | None = None, kind: str = "other", hint: str | None = None):
        super().__init__(message, hint=hint)
        self.call = call
        self.kind = kind


class ToolError(KleeneError):
    """``kind``: access denied, io, invalid arguments, timed out, too large, unsupported, other."""

    def __init__(self, message: str, *, kind: str = "other", hint: str | None = None):
        super().__init__(message, hint=hint)
        self.kind = kind


class Unstable(KleeneError):
    def __init__(self, message: str, *, site: str | None = None, hint: str | None = None):
        super().__init__(message, hint=hint)
        self.site = site


class Cancelled(KleeneError):
    pass


class StoreLocked(KleeneError):
    """``pid`` is the holder's process id where the system tells it."""

    def __init__(self, message: str, *, pid: int | None = None, hint: str | None = None):
        super().__init__(message, hint=hint)
        self.pid = pid


class BusyConnection(KleeneError):
    pass


class ConfigError(KleeneError, ValueError):
    pass


class NoModel(ConfigError):
    pass


def number(value: float) -> str:
    """Print a budget figure: whole numbers without a point, money with as many digits as it needs.

    >>> number(20), number(0.10), number(1.23456789)
    ('20', '0.1', '1.234568')
    """
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}".rstrip("0").rstrip(".")


def caret(source: str, span: Span) -> list[str]:
    """The source line that holds the span's start, and a line with carets under it.

    Lines longer than 100 characters are cut around the place, each end that is cut has an ellipsis.
    """
    begin = source.rfind("\n", 0, span.start) + 1
    end = source.find("\n", span.start)
    line = source[begin : len(source) if end < 0 else end].rstrip("\r").replace("\t", " ")
    column = min(span.start - begin, len(line))
    width = max(1, min(span.end, begin + len(line)) - span.start)
    if len(line) > 100:
        left = max(0, column - 40)
        more = len(line) > left + 100
        line = ("…" if left else line[0]) + line[left + 1 : left + 100] + ("…" if more else "")
        column -= left
        width = max(1, min(width, 100 - column))
    prefix = f"line {span.line}: "
    return [prefix + line, " " * (len(prefix) + column) + "^" * width]


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The nearest known name, or None where nothing is near: ``cutoff`` is the least likeness, from 0 to 1 (``difflib``).

    >>> did_you_mean("llm_boool", ["llm", "llm_bool"])
    'llm_bool'
    """
    import difflib

    by_fold = {k.casefold(): k for k in known}
    near = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=cutoff)
    return by_fold[near[0]] if near else None
