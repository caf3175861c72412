"""Exit codes, and which error leads to which.

0    done (unknown answers are a warning)
1    the statement or task failed, its turns ran out, or its answer was forced
2    usage: the command line, a file it names or the configuration is wrong
3    refused, or out of budget
4    no model is configured
5    another process holds the store
130  interrupted (Ctrl-C or SIGTERM)
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager

from kleene.planner.errors import BudgetExceeded, Cancelled, ConfigError, KleeneError, NoModel, Refused, StoreLocked


class Exit(enum.IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    NO_MODEL = 4
    LOCKED = 5
    INTERRUPTED = 130


class UsageError(ConfigError):
    """What the command line asks for cannot be: a missing file, an option's value, a configuration that does not load."""


@contextmanager
def misconfigured() -> Iterator[None]:
    """Within the block a configuration that is wrong is a ``UsageError``; one that names no model stays ``NoModel``."""
    try:
        yield
    except NoModel:
        raise
    except ConfigError as error:
        raise UsageError(error.message, hint=error.hint) from error


BY_ERROR: tuple[tuple[type[KleeneError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (NoModel, Exit.NO_MODEL),
    (Refused, Exit.REFUSED),
    (BudgetExceeded, Exit.REFUSED),
    (StoreLocked, Exit.LOCKED),
    (Cancelled, Exit.INTERRUPTED),
)


def exit_of(error: BaseException) -> Exit:
    """The exit code of an error; whatever is not named in ``BY_ERROR`` has failed.

    >>> exit_of(BudgetExceeded("calls", 20, 21))
    <Exit.REFUSED: 3>
    >>> exit_of(KeyboardInterrupt())
    <Exit.INTERRUPTED: 130>
    """
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    return next((code for kind, code in BY_ERROR if isinstance(error, kind)), Exit.FAILED)


OUTCOMES = {
    "final": Exit.DONE,
    "turns_exhausted": Exit.FAILED,
    "budget_exhausted": Exit.REFUSED,
    "failed": Exit.FAILED,
    "cancelled": Exit.INTERRUPTED,
}


def exit_of_run(outcome: str, *, forced: bool) -> Exit:
    """The exit code of a session's outcome. A forced answer has failed unless something worse is to be said.

    >>> exit_of_run("final", forced=False), exit_of_run("final", forced=True)
    (<Exit.DONE: 0>, <Exit.FAILED: 1>)
    """
    code = OUTCOMES.get(outcome, Exit.FAILED)
    return Exit.FAILED if forced and code is Exit.DONE else code
