"""Oracles: each decides whether an answer to a task is right."""

from __future__ import annotations

from pathlib import Path

import attrs

from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.oracles.exact import exact
from kleene.bench.oracles.judge import JudgeModel, judge
from kleene.bench.oracles.number import number
from kleene.bench.oracles.oolong import oolong
from kleene.bench.oracles.redline import redline
from kleene.bench.oracles.sat import sat
from kleene.bench.oracles.shell import shell
from kleene.bench.verify import Exact, Human, Judge, Number, Oolong, Redline, Sat, Shell, Verify
from kleene.planner.errors import ConfigError
from kleene.tools.sandbox import Sandbox


@attrs.frozen
class Place:
    """What an oracle may use besides the answer: the workspace the task was done in, how commands are confined, a judge, and the pack's folder for
    its commands."""

    workspace: Path
    sandbox: Sandbox = attrs.field(factory=Sandbox)
    judge: JudgeModel | None = None
    pack: Path | None = None


def decide(verify: Verify, task: str, answer: Answer, place: Place) -> Verdict:
    """What the task's oracle says. Raises ``ConfigError`` where a judge is needed and there is none, ``ToolError`` where a sandbox is."""
    match verify:
        case Exact():
            return exact(verify, answer)
        case Number():
            return number(verify, answer)
        case Sat():
            return sat(verify, answer)
        case Shell():
            return shell(verify, answer, place.workspace, place.sandbox, pack=place.pack)
        case Oolong():
            return oolong(verify, answer)
        case Redline():
            return redline(verify, task, answer, place.judge)
        case Judge():
            if place.judge is None:
                raise ConfigError(
                    "the task needs a judge", hint="--model judge=PROVIDER:NAME, another model than the solver's"
                )
            return judge(verify, task, answer, place.judge)
        case Human():
            return Verdict(None, "needs_review")
