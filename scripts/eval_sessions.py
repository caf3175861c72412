"""Run a folder of tasks against a model and print how it fared: ``python scripts/eval_sessions.py [FOLDER] [--model MODEL]``.

Each task is a folder with task.md, task.json and its files (tasks/eval/README.md says how). Without --model the configured one answers, as for
``python -m kleene run``; --model-script and --replay work as there. One line a task, then the sums: solved, turns, calls, tokens, dollars, and the
share of statements that ran without an error. --without leaves a part of the system prefix out, to see what it is worth.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs

import kleene
from kleene.cli.invocation import models_of
from kleene.cli.model_script import load_model
from kleene.session import loop
from kleene.session.prefix import system_prefix
from kleene.session.validity import valid_share
from kleene.udfs.events import Event, TurnFinished

ROOT = Path(__file__).resolve().parent.parent


@attrs.frozen
class Task:
    """``context`` and ``data`` are the files, ``files`` those of the workspace, ``expected`` the right rows; ``check`` is rows, number or share."""

    name: str
    text: str
    context: tuple[Path, ...]
    data: tuple[Path, ...]
    expected: list[list[Any]]
    check: str = "rows"
    tolerance: float = 1e-6
    files: tuple[Path, ...] = ()


@attrs.frozen
class Score:
    name: str
    solved: bool
    outcome: str
    turns: int
    usage: kleene.Usage
    valid: int
    statements: int
    answer: str


def read_tasks(folder: Path, only: Sequence[str] = ()) -> list[Task]:
    """The tasks of a folder in order of name."""
    return [read_task(p.parent) for p in sorted(folder.glob("*/task.json")) if not only or p.parent.name in only]


def read_task(folder: Path) -> Task:
    body = json.loads((folder / "task.json").read_text("utf-8"))
    return Task(
        name=folder.name,
        text=(folder / "task.md").read_text("utf-8").strip(),
        context=tuple((folder / p).resolve() for p in body.get("context", ())),
        data=tuple((folder / p).resolve() for p in body.get("data", ())),
        expected=body["expected"],
        check=body.get("check", "rows"),
        tolerance=body.get("tolerance", 1e-6),
        files=tuple((folder / p).resolve() for p in body.get("files", ())),
    )


def run_task(task: Task, options: dict[str, Any], budget: kleene.Budget, max_turns: int) -> Score:
    """Run one task in a store of its own, so that no task is answered from another's memo."""
    turns: list[TurnFinished] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TurnFinished):
            turns.append(event)

    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"  # the right answers lie in ours
        workspace.mkdir()
        for path in task.files:
            shutil.copy(path, workspace)
        with kleene.connect(store=Path(folder) / "run.duckdb", workspace=workspace, on_event=on_event, **options) as k:
            run = k.run(
                task.text, context=list(task.context) or None, data=list(task.data), budget=budget, max_turns=max_turns
            )
    valid, statements = valid_share(turns)
    rows = [] if run.answer is None else [list(r) for r in run.answer.rows]
    shown = json.dumps(rows[:5], default=str, ensure_ascii=False) if run.answer is not None else str(run.error)
    solved = run.outcome == "final" and is_right(rows, task)
    return Score(task.name, solved, run.outcome, run.turns, run.usage, valid, statements, shown)


def is_right(rows: list[list[Any]], task: Task) -> bool:
    """Whether the rows are the expected ones; column names do not matter. A share is that of the rows in both among those in either."""
    if task.check == "share":
        found_rows, expected = {tuple(normal(r)) for r in rows}, {tuple(normal(r)) for r in task.expected}
        return len(found_rows & expected) >= task.tolerance * len(found_rows | expected)
    if task.check == "number":
        found = number_in(rows[0][0]) if rows and rows[0] else None
        return found is not None and abs(found - float(task.expected[0][0])) <= task.tolerance
    return sorted(map(normal, rows)) == sorted(map(normal, task.expected))


def normal(row: list[Any]) -> list[str]:
    return [cell(v) for v in row]


def cell(value: Any) -> str:
    text = str(value).strip().casefold()
    try:
        return f"{float(text):.6f}"
    except ValueError:
        return text


def number_in(value: Any) -> float | None:
    """The first number of a cell: 1,234.5 and $12 and 14.3% are read."""
    found = re.search(r"-?\d[\d,]*(?:\.\d+)?", str(value))
    return float(found.group().replace(",", "")) if found else None


@contextmanager
def leaving_out(names: Sequence[str]) -> Iterator[None]:
    """Sessions that begin within have a system prefix without these parts."""

    def part(*args: Any, **more: Any) -> str:
        text = system_prefix(*args, **more)
        for name in names:
            text = without(text, name)
        return text

    with patch.object(loop, "system_prefix", part):
        yield


def without(text: str, name: str) -> str:
    """A text without what begins with ``name``: a section with its heading, a list with its title, or lines. Unchanged where nothing does.

    >>> text = "# A\\nOne.\\nTwo.\\n\\n# B\\nList:\\n- x\\n- y\\nThree."
    >>> without(text, "# A"), without(text, "List:"), without(text, "T")
    ('# B\\nList:\\n- x\\n- y\\nThree.', '# A\\nOne.\\nTwo.\\n\\n# B\\nThree.', '# A\\nOne.\\n\\n# B\\nList:\\n- x\\n- y')
    """
    if name.startswith("# "):
        return "\n\n".join(section for section in text.split("\n\n") if not section.startswith(name))
    kept, listed = list[str](), False
    for line in text.split("\n"):
        listed = (line.startswith(name) and line.endswith(":")) or (listed and line.startswith("- "))
        if not listed and not line.startswith(name):
            kept.append(line)
    return "\n".join(kept)


def report(scores: list[Score]) -> str:
    """The table, one line a task, and the sums."""
    lines = [f"{'task':32} {'':6} {'turns':>5} {'calls':>6} {'tokens':>9} {'dollars':>9}  valid"]
    lines += [line_of(s.name, "solved" if s.solved else s.outcome, s) for s in scores]
    usage = sum((s.usage for s in scores), kleene.Usage())
    total = Score(
        "",
        True,
        "",
        sum(s.turns for s in scores),
        usage,
        sum(s.valid for s in scores),
        sum(s.statements for s in scores),
        "",
    )
    solved = sum(s.solved for s in scores)
    share = 100 * total.valid / total.statements if total.statements else 0.0
    lines.append(line_of(f"{solved} of {len(scores)} solved", "", total) + f" ({share:.0f}% at the first try)")
    return "\n".join(lines)


def line_of(name: str, word: str, score: Score) -> str:
    usage = score.usage
    return (
        f"{name:32} {word[:6]:6} {score.turns:5} {usage.requests:6,} {usage.tokens:9,} {usage.dollars:9.4f}  "
        f"{score.valid}/{score.statements}"
    )


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "tasks" / "eval")
    parser.add_argument("--model", action="append", metavar="[ALIAS=]MODEL", help="as for python -m kleene run")
    parser.add_argument("--model-script", metavar="FILE.py:NAME", help="a Python function as the model")
    parser.add_argument("--only", action="append", default=[], metavar="TASK", help="this task; may be repeated")
    parser.add_argument("--budget-dollars", type=float, default=None, help="for each task")
    parser.add_argument("--budget-calls", type=int, default=200, help="for each task (default: 200)")
    parser.add_argument("--max-turns", type=int, default=20)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="TEXT",
        help="leave out of the system prefix what begins so: a section ('# How to work'), a list ('Agents:') or lines ('- NULL in'); may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a task instead of the table")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = parsed(argv)
    script = load_model(args.model_script) if args.model_script else None
    options = {"models": models_of(args.model or [], script)}
    budget = kleene.Budget(calls=args.budget_calls, dollars=args.budget_dollars)
    tasks = read_tasks(args.folder, args.only)
    if not tasks:
        print(f"no tasks in {args.folder}", file=sys.stderr)
        return 2
    scores = []
    for task in tasks:
        with leaving_out(args.without):
            score = run_task(task, options, budget, args.max_turns)
        scores.append(score)
        if args.json:
            print(json.dumps(attrs.asdict(score)), flush=True)
        else:
            print(f"{'ok ' if score.solved else 'NO '} {task.name}: {score.answer[:200]}", file=sys.stderr, flush=True)
    if not args.json:
        print(report(scores))
    return 0 if all(s.solved for s in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
