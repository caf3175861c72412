"""A folder of recordings: one an attempt, ``TASK.REPEAT.jsonl`` (or ``.jsonl.gz``), and ``results.csv`` with what came of each.

A replayed attempt is the recorded one where every field of its row is, but for the seconds: statements, rows of the answer, calls, tokens, dollars.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from kleene.bench.results import FIELDS, Row, line_of, read_rows
from kleene.planner.errors import ConfigError

RESULTS = "results.csv"
SUFFIXES = (".jsonl", ".jsonl.gz")
NOT_COMPARED = ("seconds", "digest")
"""How long it took, and the pack file's digest: a task more in a pack changes none of the others."""

Key = tuple[str, int]


@attrs.frozen
class Drift:
    """An attempt that was not the recorded one: ``field`` had another value then, or a request differed (``said`` names the first)."""

    task: str
    repeat: int
    said: str

    def __str__(self) -> str:
        return f"{self.task}{f' ({self.repeat})' if self.repeat > 1 else ''} is not as recorded: {self.said}"


class Recordings:
    """The recordings of a folder, made in another run. Raises ``ConfigError`` where ``results.csv`` cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / RESULTS
        self.rows: dict[Key, Row] = {(r.task, r.repeat): r for r in read_rows(file)} if file.is_file() else {}

    def path(self, task: str, repeat: int) -> Path | None:
        """The recording of an attempt; None where there is none."""
        names = (f"{task}.{repeat}{suffix}" for suffix in SUFFIXES)
        return next((path for name in names if (path := self.folder / name).is_file()), None)

    def drift(self, row: Row) -> Drift | None:
        """The first field that is not as recorded. None where all are, or the folder does not say what came of the attempt."""
        recorded = self.rows.get((row.task, row.repeat))
        if recorded is None:
            return None
        for name, now, then in _compared(row, recorded):
            if now != then:
                why = f" ({row.detail})" if row.outcome != recorded.outcome and row.detail else ""
                return Drift(row.task, row.repeat, f"{name} was {then!r} and is {now!r}{why}")
        return None


def _compared(now: Row, then: Row) -> Iterator[tuple[str, object, object]]:
    now_, then_ = _as_read(now), _as_read(then)
    for name in FIELDS:
        if name not in NOT_COMPARED:
            yield name, getattr(now_, name), getattr(then_, name)


def _as_read(row: Row) -> Row:
    """A row as it comes back from its file: every blank a single one."""
    texts = {name: " ".join(value.split()) for name in FIELDS if isinstance(value := getattr(row, name), str)}
    return attrs.evolve(row, **texts)  # type: ignore[arg-type]


def new_recording(folder: Path, task: str, repeat: int) -> Path:
    """Where an attempt is recorded to. One that was packed before gives way."""
    (folder / f"{task}.{repeat}.jsonl.gz").unlink(missing_ok=True)
    return folder / f"{task}.{repeat}.jsonl"


def note(folder: Path, row: Row) -> None:
    """Write down what came of a recorded attempt. Of an attempt that is recorded again the last row counts."""
    file = folder / RESULTS
    try:
        head = "" if file.is_file() and file.stat().st_size else ",".join(FIELDS) + "\n"
        with open(file, "a", encoding="utf-8") as out:
            out.write(head + line_of(row))
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
