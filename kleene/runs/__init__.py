"""Runs: a model answers a task in a session of its own, and goes on after whatever stopped it."""

from __future__ import annotations

from kleene.runs.limits import DEFAULT_BUDGET, DEFAULT_UNPRICED_BUDGET
from kleene.runs.run import Run, Task, family_of_host, resume_task, run_task

__all__ = ["DEFAULT_BUDGET", "DEFAULT_UNPRICED_BUDGET", "Run", "Task", "family_of_host", "resume_task", "run_task"]
