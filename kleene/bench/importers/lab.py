"""Harvey LAB: folders with ``task.json`` (instructions, criteria, deliverables) and documents; and what its evaluator writes about a run.

A task's id is its path below ``tasks`` with dots for slashes. Its documents are copied into the pack, a folder that several tasks share once, and
into the workspace when a task begins. All criteria stand in one rubric, as LAB counts a task as passed only where all of them are; LAB's own
evaluator, which asks its judge about each, stays the scorer of record.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.rows import Record, records_of
from kleene.bench.importers.target import Target, slug
from kleene.bench.pack import Task
from kleene.bench.results import Row
from kleene.bench.verify import Judge
from kleene.planner.errors import ConfigError

FILE = "task.json"
TASKS = "lab.jsonl"
"""A line a task in the pack's folder: its ``id`` there, LAB's name for it (``task``) and the names of its ``documents``."""

DOCUMENTS = "documents"
"""Where they lie in the workspace."""


def lab(path: Path, target: Target) -> Iterator[Task]:
    root = path / "tasks" if (path / "tasks").is_dir() else path
    files = sorted(root.rglob(FILE))
    if not files:
        raise ConfigError(
            f"{path} has no {FILE} in any folder", hint="give the folder tasks of Harvey LAB, or the one it lies in"
        )
    for file in files:
        record = _only(file)
        if all(str(record.fields.get(name)) == value for name, value in target.where.items()):
            task, documents = _task(record, file.parent, _id(file.parent.relative_to(root)), target)
            name = file.parent.relative_to(root).as_posix()
            target.note(TASKS, {"id": task.id, "task": name, "documents": documents})
            yield task


def _only(file: Path) -> Record:
    records = list(records_of(file))
    if len(records) != 1:
        raise ConfigError(f"{file} holds {len(records)} objects, one is needed")
    return Record(str(file), records[0].fields)


def _id(path: Path) -> str:
    return ".".join(slug(part) for part in path.parts) or "task"


def _task(record: Record, folder: Path, id_: str, target: Target) -> tuple[Task, list[str]]:
    """The task, and the names of its documents."""
    names = _deliverables(record)
    criteria = [_criterion(c, names) for c in record.records("criteria")]
    if not criteria:
        record.wrong("criteria are none, a task needs at least one")
    source, documents = _documents(record, folder, id_, target)
    where = f"The documents lie in the folder {DOCUMENTS} of the workspace. " if documents else ""
    asked = (
        f"{record.text('title')}\n\n{record.text('instructions')}\n\n{where}Write no files: answer one row a deliverable "
        f"({', '.join(names) or 'as the instructions name them'}) with the columns file, its name, and text, all that would stand in it."
    )
    task = Task(
        id=id_,
        task=asked,
        kind=f"lab_{slug(record.optional_text('work_type') or 'task')}",
        setup=(f'mkdir {DOCUMENTS} && cp -R "$PACK"/{shlex.quote(documents)}/. {DOCUMENTS}/',) if documents else (),
        verify=Judge("PASS if every one of these criteria is met, else FAIL.\n" + "\n".join(criteria)),
    )
    files = sorted(source.rglob("*")) if documents else []
    return task, [f.relative_to(source).as_posix() for f in files if f.is_file() and not f.is_symlink()]


def _deliverables(record: Record) -> list[str]:
    """Their names: a map from name to name, a list of names, or one of objects with ``filename``."""
    found = record.fields.get("deliverables")
    if found is None:
        return []
    if isinstance(found, dict):
        return list(found)
    if isinstance(found, list) and all(isinstance(item, dict) for item in found):
        return [item.text("filename") for item in record.records("deliverables")]
    return record.texts("deliverables")


def _criterion(record: Record, names: list[str]) -> str:
    of = record.texts("deliverables") if record.fields.get("deliverables") else []
    for name in of:
        if names and name not in names:
            record.wrong(f"deliverables name {name}, which the task has not", hint=f"it has {', '.join(names)}")
    where = f" (in {', '.join(of)})" if of else ""
    title = record.optional_text("title")
    return f"{record.text('id')}{where}{f' {title}' if title else ''}: {record.text('match_criteria')}"


def _documents(record: Record, folder: Path, id_: str, target: Target) -> tuple[Path, str | None]:
    """Where they lie, and where their copy does."""
    shared = record.optional_text("docs_dir")
    source = folder / (shared or "documents")
    if shared is None:
        return source, target.documents(source, id_) if source.is_dir() else None
    if not source.is_dir():
        record.wrong(f"docs_dir names {shared}, which is no folder", hint="it is a path from the task's folder")
    return source, target.documents(source, f"shared-{slug(source.resolve().name)}")


def lab_results(path: Path) -> Iterator[Row]:
    """The runs below a folder, as rows of Kleene's results in the order of their paths: each run has ``config.json``, ``metrics.json`` and the
    evaluator's ``scores.json``. Repeats are counted by task and model; a judge's errors stand in ``detail``."""
    files = sorted(path.rglob("scores.json"))
    if not files:
        raise ConfigError(
            f"{path} has no scores.json in any folder", hint="give the folder results of a Harvey LAB run"
        )
    repeats: Counter[tuple[str, str]] = Counter()
    for file in files:
        scores = _only(file)
        config, metrics = (_only(_beside(file, name)) for name in ("config.json", "metrics.json"))
        task, model = _id(Path(config.text("task"))), config.text("model")
        repeats[task, model] += 1
        yield _row(scores, metrics, task, model, repeats[task, model])


def _beside(file: Path, name: str) -> Path:
    found = file.parent / name
    if not found.is_file():
        raise ConfigError(f"{found} is not there", hint="a run has config.json and metrics.json beside scores.json")
    return found


def _row(scores: Record, metrics: Record, task: str, model: str, repeat: int) -> Row:
    criteria, passed = scores.whole("n_criteria"), scores.whole("n_passed")
    solved = scores.fields.get("all_pass")
    if not isinstance(solved, bool) or criteria < 1 or not 0 <= passed <= criteria or solved != (passed == criteria):
        scores.wrong(f"all_pass is {solved}, n_passed {passed}, n_criteria {criteria}: they do not agree")
    errors = scores.fields.get("judge_error_count", 0)
    detail = scores.optional_text("summary") or ""
    seconds = metrics.number("wall_clock_seconds")
    return Row(
        pack="harvey-lab",
        digest="",
        mode="lab",
        model=model,
        task=task,
        repeat=repeat,
        kind="lab",
        difficulty=1000.0,
        solved=solved,
        score=passed / criteria,
        outcome="final" if metrics.fields.get("finished_cleanly") is True else "unfinished",
        detail=f"{detail}; {errors} errors of the judge" if errors else detail,
        calls=metrics.whole("turn_count"),
        input_tokens=metrics.whole("input_tokens"),
        output_tokens=metrics.whole("output_tokens"),
        dollars=0.0,
        seconds=float(seconds),
        turns=metrics.whole("turn_count"),
        valid=0,
        statements=0,
    )
