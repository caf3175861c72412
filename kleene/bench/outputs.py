"""Attempts in the layout in which Harvey LAB keeps its runs, for LAB's own evaluator to score: ``bench run --outputs FOLDER``.

    FOLDER/TASK/kleene-MODE/RUN/output/            the deliverables: the answer's rows (file, text)
    FOLDER/TASK/kleene-MODE/RUN/config.json, metrics.json, transcript.jsonl

What LAB's names and figures are is read from its published runs and the task's line in the pack's ``lab.jsonl``, which the importer wrote.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from kleene.bench.importers.lab import DOCUMENTS, TASKS
from kleene.bench.importers.target import slug
from kleene.bench.oracles.answer import Answer
from kleene.bench.pack import Pack
from kleene.bench.results import Row
from kleene.planner.errors import ConfigError, ToolError
from kleene.tools.building import EXTRA, built
from kleene.udfs.events import Event, ToolUsed, TurnFinished

READS = ("read", "read_pages", "read_table", "lines")
COUNTED = {
    "bash_commands": ("shell",),
    "files_written": ("write_file", "append_file"),
    "files_edited": ("patch",),
    "glob_searches": ("files",),
    "grep_searches": ("grep", "search"),
}
PREVIEW = 1_000  # characters of what came back that a line of the transcript keeps
SCORED = "python -m evaluation.run_eval --run-id RUN --task TASK --judge-model MODEL"


@attrs.frozen
class Outputs:
    """Writes each attempt's folder. ``tasks`` are the lines of ``lab.jsonl`` by the ids of the pack."""

    folder: Path
    mode: str
    max_turns: int
    tasks: Mapping[str, Mapping[str, Any]]

    @staticmethod
    def of(folder: Path, pack: Pack, mode: str, max_turns: int) -> Outputs:
        """Raises ``ConfigError`` for a pack that is not of LAB's tasks, and where the libraries that build office files are missing."""
        file = pack.folder / TASKS
        try:
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        except OSError:
            raise ConfigError(
                f"{pack.name} has no {TASKS}, which says what LAB calls its tasks",
                hint="--outputs is for packs of kleene bench import harvey-lab: import the tasks again",
            ) from None
        except ValueError as error:
            raise ConfigError(f"{file} cannot be read: {error}", hint="import the tasks again") from None
        try:
            built("a.docx", ""), built("a.xlsx", "a")
        except ToolError as error:
            raise ConfigError(f"deliverables cannot be written: {error.message}", hint=EXTRA) from None
        return Outputs(folder, mode, max_turns, {line["id"]: line for line in lines})

    def write(self, row: Row, answer: Answer | None, events: Iterable[Event], began: float) -> Path:
        """Write an attempt's folder; ``began`` in seconds since the epoch. Raises ``ConfigError`` where it cannot be written."""
        task, started = self.tasks[row.task], dt.datetime.fromtimestamp(began, dt.UTC)
        run = f"{started:%Y%m%d-%H%M%S-%f}"
        place: Path = self.folder / task["task"] / f"kleene-{self.mode}" / run
        config = {
            "model": row.model, "task": task["task"], "run_id": run, "max_turns": self.max_turns, "temperature": None, "skills": [],
            "started_at": started.isoformat(),
        }  # fmt: skip
        happened = list(events)
        metrics = _metrics(row, task, [e for e in happened if isinstance(e, ToolUsed)])
        metrics["completed_at"] = (started + dt.timedelta(seconds=row.seconds)).isoformat()
        try:
            (place / "output").mkdir(parents=True, exist_ok=True)
            for name, body in deliverables(answer):
                file = place / "output" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(body)
            for name, value in (("config.json", config), ("metrics.json", metrics)):
                (place / name).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")
            with open(place / "transcript.jsonl", "w", encoding="utf-8") as out:
                for line in _transcript(e for e in happened if isinstance(e, TurnFinished)):
                    out.write(json.dumps(line, ensure_ascii=True) + "\n")
        except OSError as error:
            raise ConfigError(
                f"{place} cannot be written: {error.strerror}", hint="give --outputs another folder"
            ) from None
        return place


def deliverables(answer: Answer | None) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each file. Rows of one name are one file; a name that leads out of the folder, or is none, or another's folder, is made
    one; what cannot be built from text is Markdown beside its name."""
    texts: dict[str, list[str]] = {}
    for n in range(len(answer.rows) if answer is not None else 0):
        assert answer is not None
        row = Answer(answer.columns, answer.rows[n : n + 1])
        name, text = row.cell("file"), row.cell("text", 1)
        if name is not None and text is not None:
            texts.setdefault(_safe(str(name)), []).append(str(text))
    taken: set[str] = set()
    for name, parts in texts.items():
        text = "\n\n".join(parts)
        try:
            made = built(name, text)
        except ToolError:
            name, made = f"{name}.md", None
        name = _free(name, taken)
        taken.add(name)
        yield name, text.encode("utf-8", "replace") if made is None else made


def _free(name: str, taken: set[str]) -> str:
    """
    >>> _free("a.md", {"b.md"}), _free("a.md", {"a.md"}), _free("a/b.md", {"a"}), _free("a", {"a/b.md"})
    ('a.md', 'a-1.md', 'b-1.md', 'a-1')
    """
    path = PurePosixPath(name)
    is_taken = not taken.isdisjoint(map(str, (path, *path.parents))) or any(t.startswith(f"{name}/") for t in taken)
    return _free(f"{path.stem}-1{path.suffix}", taken) if is_taken else name


def _safe(name: str) -> str:
    """
    >>> _safe("memo.docx"), _safe("a/b c.md"), _safe("../x.md"), _safe("/etc/x"), _safe(" ")
    ('memo.docx', 'a/b c.md', 'x.md', 'etc-x', 'x')
    """
    path = PurePosixPath(name.strip())
    plain = path.parts and not path.is_absolute() and ".." not in path.parts and name.isprintable() and "\\" not in name
    return str(path) if plain and len(name) <= 200 and all(len(p.encode()) <= 200 for p in path.parts) else slug(name)


def _metrics(row: Row, task: Mapping[str, Any], uses: list[ToolUsed]) -> dict[str, Any]:
    """As LAB's harness counts them: a document is read when a tool that gives its text was asked for it."""
    documents = list(task["documents"])
    asked = {_path(use) for use in uses if use.tool in READS and use.error is None}
    read = [name for name in documents if f"{DOCUMENTS}/{name}" in asked]
    skipped = [name for name in documents if name not in read]
    counts = {name: sum(use.tool in tools for use in uses) for name, tools in COUNTED.items()}
    return {
        "turn_count": row.turns,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "wall_clock_seconds": row.seconds,
        "finished_cleanly": row.outcome == "final",
        "documents_read": len(read),
        "documents_read_list": read,
        "documents_skipped": len(skipped),
        "documents_skipped_list": skipped,
        "total_documents": len(documents),
        **counts,
    }


def _path(use: ToolUsed) -> str:
    try:
        return str(PurePosixPath(str(json.loads(use.args).get("path", ""))))
    except (ValueError, AttributeError):  # arguments are kept up to a length
        return ""


def _transcript(turns: Iterable[TurnFinished]) -> Iterator[dict[str, Any]]:
    """A line for what the model said and one for what came back; SQL, or the calls of a plain agent, is the one tool."""
    for turn in turns:
        calls = [] if turn.sql is None else [{"name": "sql", "arguments": json.dumps({"sql": turn.sql})}]
        said: dict[str, Any] = {"turn": turn.turn, "role": "assistant", "text": turn.reply, "tool_calls": calls}
        yield said | {"session": turn.session}
        if turn.sql is not None:
            yield {
                "turn": turn.turn,
                "role": "tool",
                "tool_name": "sql",
                "arguments": calls[0]["arguments"],
                "result_preview": turn.feedback[:PREVIEW],
                "session": turn.session,
            }
