"""The engine: a person's DuckDB connection with Kleene on it. ``kleene.attach`` and ``kleene.connect`` make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.budgets import checked
from kleene.executor import Executor
from kleene.planner.specs import BudgetLimits
from kleene.udfs.waiting import in_thread

if TYPE_CHECKING:
    from kleene.runs import Run
    from kleene.udfs.children import Children


class Engine(Executor):
    """Runs statements, and lets a model answer a task: what runs need is imported when the first one is asked for."""

    def run(
        self,
        task: str,
        *,
        context: Any = None,
        tables: Sequence[str] = (),
        data: Sequence[str | Path] | None = None,
        budget: BudgetLimits | None = None,
        max_turns: int = 30,
        max_depth: int = 2,
        check: str | Callable[..., Any] | None = None,
        keep: bool = False,
        from_run: str | None = None,
        allow: Sequence[str] | None = None,
    ) -> Run:
        """Let a model answer a task by writing CallSQL, turn by turn, in a locked database of its own.

        ``context`` is a text (or paths of files, as a list) that the model reads as the table ``ctx``; ``tables`` are tables of this
        connection that are handed over; ``data`` are files. ``max_depth`` bounds the levels of child sessions. ``check`` is a command that
        must succeed, or a function of the answer, before FINAL is taken. ``keep``: its tables stay after the answer, so that another run may
        begin with them: ``from_run``. ``allow`` names the tools with effects that the model may use (``write``, ``git``, ``shell``, ``web``, ``all``, or
        a tool's name); without it they are all there where ``approve`` was given to ``attach``, and none elsewhere. Raises a ``KleeneError`` only for wrong input: how the run ended is in ``outcome``.
        """
        from kleene.runs import Task, run_task

        asked = Task(
            task,
            context=context,
            tables=tuple(tables),
            data=tuple(data or ()),
            max_turns=max_turns,
            max_depth=max_depth,
            check=check,
            keep=keep,
            from_run=from_run,
            allow=None if allow is None else (allow,) if isinstance(allow, str) else tuple(allow),
        )
        self._check_place()
        return run_task(self, asked, checked(budget))

    def resume(
        self,
        run_id: str | None = None,
        *,
        budget: BudgetLimits | None = None,
        max_turns: int | None = None,
        check: Callable[..., Any] | None = None,
    ) -> Run:
        """Go on with a run that has no answer: after its turns or its budget were used up, a cancel, or a kill. Nothing is paid twice.

        Without ``run_id`` it is the last such run of the store. ``budget`` is for the whole run, what it has used included; the run's own
        stays where None. ``max_turns`` are further turns: None gives a run that has used up its turns as many again. ``check`` is needed
        where the run had a function for it. Raises ``ConfigError`` where there is nothing to resume.
        """
        from kleene.runs import resume_task

        self._check_place()
        return resume_task(self, run_id, budget=checked(budget), max_turns=max_turns, check=check)

    def _family(self) -> Children:
        """Who answers this engine's calls of sessions."""
        if self.children is None:
            from kleene.runs import family_of_host

            self.children = family_of_host(self)
        return self.children

    async def run_async(self, task: str, **options: Any) -> Run:
        """``run`` for trio and asyncio."""
        return await in_thread(lambda: self.run(task, **options), self.cancel)
