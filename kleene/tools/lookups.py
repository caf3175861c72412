"""The tools that look a name up: env, skill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kleene.planner.errors import ToolError, did_you_mean
from kleene.tools.base import Row, Work


def env(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (name,) = arguments
    if name not in work.env:
        raise ToolError(
            f"{name} is not among the environment variables that tools may see",
            kind="access denied",
            hint=_listed("visible", work.env),
        )
    yield (work.env[name],)


def skill(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    (name,) = arguments
    if name not in work.skills:
        near = did_you_mean(name, work.skills)
        hint = f"did you mean {near!r}?" if near else _listed("there are", work.skills)
        raise ToolError(f"there is no skill {name!r}", kind="invalid arguments", hint=hint)
    yield (work.skills[name],)


def _listed(what: str, names: Iterable[str]) -> str:
    return f"{what}: {', '.join(sorted(names)) or 'none'}"
