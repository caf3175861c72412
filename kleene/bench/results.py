"""Results as rows of a CSV file: one line an attempt, on disk before the next is begun, so that a killed run goes on where it was."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import cattrs

from kleene.planner.errors import ConfigError


@attrs.frozen(kw_only=True)
class Row:
    """One attempt at one task. ``solved`` is None where a person must say; ``outcome`` is how the run ended (see ``kleene.runs.Run``);
    ``digest`` is the pack file's; ``valid`` of ``statements`` ran as first written. ``calls`` and ``tokens`` include repeats and children, not a
    judge's. ``did`` and ``answer`` are digests of what was run (statements or tool calls) and of the answer's rows; ``est_calls`` is what EXPLAIN
    said the reference would call, ``bare_calls`` what it says with every rule off, None where nobody asked it."""

    pack: str
    digest: str
    mode: str
    model: str
    task: str
    repeat: int
    kind: str
    difficulty: float
    solved: bool | None
    score: float | None
    outcome: str
    detail: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float
    seconds: float
    turns: int
    valid: int
    statements: int
    did: str = ""
    answer: str = ""
    est_calls: int | None = None
    bare_calls: int | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


FIELDS = tuple(f.name for f in attrs.fields(Row))
MOST = 1 << 63
_WORDS = {"": None, "true": True, "false": False}


def line_of(row: Row) -> str:
    """A row as its line: no value holds a line end, so that a line is a row."""
    out = io.StringIO()
    values = ("" if v is None else str(v).lower() if isinstance(v, bool) else v for v in attrs.astuple(row))
    csv.writer(out, lineterminator="\n").writerow(
        " ".join(v.split()) if isinstance(v, str) else repr(v) if isinstance(v, float) else v for v in values
    )
    return out.getvalue()


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of a file, one at a time. Raises ``ConfigError`` for a file that is none of ours."""
    converter = cattrs.Converter()
    converter.register_structure_hook(bool | None, lambda value, _: _WORDS[value])
    for kind in (int, float):
        converter.register_structure_hook(kind | None, _optional(kind))
        converter.register_structure_hook(kind, _whole(kind))
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            if tuple(next(reader, ())) != FIELDS:
                raise ConfigError(
                    f"{path} holds no results of a bench", hint="kleene bench run PACK writes such a file"
                )
            for number, values in enumerate(reader, 2):
                try:
                    fields: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
                    yield converter.structure(fields, Row)
                except (ValueError, cattrs.BaseValidationError):
                    raise ConfigError(
                        f"{path}, line {number}: no row of results", hint="--resume takes an unfinished last line away"
                    ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"the results {path} cannot be read: {error}") from None


def _whole(kind: type) -> Callable[[str, Any], Any]:
    return lambda value, _: _figure(kind(value))


def _optional(kind: type) -> Callable[[str, Any], Any]:
    return lambda value, _: None if value == "" else _figure(kind(value))


def _figure(value: Any) -> Any:
    if not abs(value) < MOST:  # NaN is none either
        raise ValueError("out of range")
    return value


class ResultsFile:
    """The file of one run, held alone while it is open. ``done`` are the (task, repeat) that it has."""

    def __init__(self, path: Path, *, pack: str, digest: str, mode: str, resume: bool) -> None:
        """Raises ``ConfigError`` where the file is there and is not to be resumed, belongs to other arguments, or is in use."""
        self.path = path
        self._fd = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ConfigError(f"another bench run writes {path}", hint="wait for it, or give --results FILE") from None
        except OSError as error:
            raise ConfigError(f"the results {path} cannot be written: {error.strerror}") from None
        try:
            self.done = self._begin(pack, digest, mode, resume)
        except BaseException:
            self.close()
            raise

    def _begin(self, pack: str, digest: str, mode: str, resume: bool) -> set[tuple[str, int]]:
        head = ",".join(FIELDS) + "\n"
        if os.fstat(self._fd).st_size == 0:
            self._write(head)
            return set()
        # A run that ended before its first row left the head alone.
        if not resume and self.path.read_bytes() != head.encode():
            raise ConfigError(
                f"there are results in {self.path}", hint="--resume goes on with them; --results FILE begins others"
            )
        self._cut()
        done = set()
        for row in read_rows(self.path):
            if (row.pack, row.digest, row.mode) != (pack, digest, mode):
                other = (
                    "another text of this pack" if row.pack == pack and row.mode == mode else f"{row.pack}, {row.mode}"
                )
                raise ConfigError(f"{self.path} holds results of {other}", hint="give --results FILE")
            done.add((row.task, row.repeat))
        return done

    def _cut(self) -> None:
        """Take away a last line without an end: what a kill left of a row."""
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.ftruncate(self._fd, whole)
        if not whole:
            self._write(",".join(FIELDS) + "\n")

    def add(self, row: Row) -> None:
        self._write(line_of(row))

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
