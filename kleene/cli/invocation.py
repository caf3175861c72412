"""One call of the program: its arguments, its streams and the way to an engine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from kleene.cli.exits import misconfigured
from kleene.cli.terminal import Terminal
from kleene.rendering.formats import SCREEN_ROWS, write_rows
from kleene.rendering.rows import Relation
from kleene.rendering.table import Limits

if TYPE_CHECKING:
    from kleene.planner.errors import KleeneError
    from kleene.planner.specs import BudgetLimits, Usage


class ResultLike(Relation, Protocol):
    """``message`` is what a statement without rows says."""

    @property
    def usage(self) -> Usage: ...

    @property
    def warnings(self) -> Sequence[str]: ...

    @property
    def message(self) -> str | None: ...


class PlanLike(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def duckdb_sql(self) -> str: ...

    @property
    def estimate(self) -> Any: ...

    def to_dict(self) -> dict[str, Any]: ...


class RunLike(Protocol):
    @property
    def answer(self) -> ResultLike | None: ...

    @property
    def outcome(self) -> str: ...

    @property
    def forced(self) -> bool: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def run_id(self) -> str: ...

    @property
    def error(self) -> str | None: ...

    @property
    def cause(self) -> KleeneError | None: ...

    @property
    def notes(self) -> Sequence[str]: ...


class EngineLike(Protocol):
    """What the commands need of an engine; ``kleene.connect`` gives one."""

    @property
    def state(self) -> Any: ...

    @property
    def tools(self) -> Any: ...

    @property
    def notes(self) -> Sequence[str]: ...

    def sql(self, text: str) -> ResultLike: ...

    def explain(self, text: str) -> PlanLike: ...

    def run(
        self,
        task: str,
        *,
        context: Any = None,
        data: Any = None,
        max_turns: int = 30,
        check: str | None = None,
        max_depth: int = 2,
        keep: bool = False,
        from_run: str | None = None,
        allow: Sequence[str] | None = None,
    ) -> RunLike: ...

    def resume(
        self, run_id: str | None = None, *, budget: BudgetLimits | None = None, max_turns: int | None = None
    ) -> RunLike: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


Connect = Callable[..., EngineLike]
Prompt = Callable[["Invocation", str], int]
"""Reads and runs statements on a database until the person leaves; the exit code."""


@attrs.frozen
class Invocation:
    args: argparse.Namespace
    terminal: Terminal
    prompt: Prompt
    connect: Connect | None = None
    _models: list[object | None] = attrs.field(factory=list, init=False)

    @property
    def store(self) -> Path:
        """Where the store is: the path itself, or for the default the place in the workspace."""
        return Path(self.args.store) if self.args.store else Path(self.args.workspace) / ".kleene" / "run.duckdb"

    @property
    def budget(self) -> BudgetLimits | None:
        """What ``--budget-*`` say, or None where none was given."""
        from kleene.planner.specs import BudgetLimits

        args = self.args
        limits = BudgetLimits(
            calls=args.budget_calls, tokens=args.budget_tokens, dollars=args.budget_dollars, wall=args.budget_wall
        )
        return None if limits == BudgetLimits() else limits

    @property
    def models(self) -> Any:
        """What ``--model`` and ``--model-script`` ask for, or None: the configuration decides. A script is run once."""
        from kleene.cli.model_script import load_model

        if not self._models:
            script = load_model(self.args.model_script) if self.args.model_script else None
            self._models.append(models_of(self.args.model or [], script))
        return self._models[0]

    def open(self, path: str = ":memory:", **options: Any) -> EngineLike:
        """An engine on a database. Whatever is wrong with the configuration is a ``UsageError``; a missing model is not looked for here."""
        from kleene.config import load_config

        connect = self.connect or connect_engine()
        args = self.args
        given = {
            "budget": self.budget,
            "record": args.record,
            "replay": args.replay,
            "replay_strict": args.replay_strict,
            "lock_wait": args.lock_wait,
            "allow_hosts": args.allow_host,
            "unsafe_shell": args.unsafe_shell,
            "mcp": args.mcp != "off" and (args.mcp or True),
            "store": str(self.store),
            "workspace": args.workspace,
            **options,
        }
        with misconfigured():
            if args.config and "config" not in options:
                given["config"] = load_config(args.workspace, file=args.config)
            return connect(
                path,
                models=self.models,
                **{name: value for name, value in given.items() if value},
            )

    def write(self, relation: Relation) -> None:
        """Print rows on stdout in the format that was asked for: a table on a terminal, JSON lines elsewhere."""
        terminal = self.terminal
        format_ = self.args.format or ("table" if terminal.shows_tables else "jsonl")
        limits = Limits(terminal.width, SCREEN_ROWS, terminal.color) if terminal.shows_tables else Limits()
        write_rows(relation, format_, terminal.out, limits)
        terminal.out.flush()


def connect_engine() -> Connect:
    """The real ``kleene.connect``; the engine and all that it needs are imported here."""
    from kleene.attaching import connect

    return connect


STANDARD_ALIASES = ("root", "worker", "proxy", "judge")


def models_of(named: Sequence[str], script: object | None = None) -> object | None:
    """``[ALIAS=]MODEL`` arguments as ``models=`` takes them: a model without an alias answers for all that are not named.

    Several models of one alias are tried in order. A model of a script stands for the one without an alias.

    >>> models_of(["openai:m"]), models_of(["root=openai:m", "root=local"])
    ('openai:m', {'root': ['openai:m', 'local']})
    """
    general: list[object] = [] if script is None else [script]
    aliases: dict[str, list[object]] = {}
    for argument in named:
        alias, equals, model = argument.partition("=")
        if equals and alias.isidentifier():
            aliases.setdefault(alias, []).append(model)
        else:
            general.append(argument)
    if not aliases and len(general) <= 1:
        return general[0] if general else None
    if general:
        aliases = {**dict.fromkeys(STANDARD_ALIASES, general), **aliases}
    return {alias: models[0] if len(models) == 1 else models for alias, models in aliases.items()}
