"""Rows of other benches' files (JSON, JSON lines, CSV, Parquet), each with its place, and fields that are what they should be."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import attrs

from kleene.planner.errors import ConfigError
from kleene.udfs.text import clean

HINT = "docs/bench.md says which fields the importers read"
SUFFIXES = (".json", ".jsonl", ".parquet", ".csv")


@attrs.frozen
class Record:
    """One row of a file. ``place`` says where it stands, as in ``questions.jsonl, row 3``."""

    place: str
    fields: Mapping[str, Any]

    def wrong(self, what: str, *, hint: str = HINT) -> NoReturn:
        raise ConfigError(f"{self.place}: {what}", hint=hint)

    def text(self, name: str) -> str:
        """A text that is not blank."""
        found = self.optional_text(name)
        if found is None or not found.strip():
            self.wrong(f"{name} is {'empty' if name in self.fields else 'missing'}, a text is needed")
        return found

    def optional_text(self, name: str) -> str | None:
        found = self.fields.get(name)
        if found is not None and not isinstance(found, str):
            self.wrong(f"{name} is {kind_of(found)}, not a text")
        if found is not None and clean(found) != found:
            self.wrong(f"{name} has half of a character, which no text in UTF-8 has")
        return found

    def number(self, name: str) -> float:
        """A finite number."""
        found = self.fields.get(name)
        with suppress(OverflowError):
            if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
                return float(found)
        is_out = isinstance(found, int | float) and not isinstance(found, bool)
        self.wrong(f"{name} is {'out of range' if is_out else kind_of(found)}, not a number")

    def whole(self, name: str) -> int:
        found = self.fields.get(name)
        is_whole = isinstance(found, int) and not isinstance(found, bool)
        if not isinstance(found, int) or not is_whole or abs(found) >= 1 << 63:
            self.wrong(f"{name} is {'out of range' if is_whole else kind_of(found)}, not a whole number")
        return found

    def texts(self, name: str) -> list[str]:
        found = self.fields.get(name)
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            self.wrong(f"{name} is no list of texts")
        return found

    def record(self, name: str) -> Record:
        found = self.fields.get(name)
        if not isinstance(found, dict):
            self.wrong(f"{name} is {kind_of(found)}, not an object")
        return Record(f"{self.place}, {name}", found)

    def records(self, name: str) -> list[Record]:
        """The objects of a list, which may be empty."""
        found = self.fields.get(name)
        if not isinstance(found, list):
            self.wrong(f"{name} is {kind_of(found)}, not a list")
        for number, item in enumerate(found, 1):
            if not isinstance(item, dict):
                self.wrong(f"{name}[{number}] is {kind_of(item)}, not an object")
        return [Record(f"{self.place}, {name}[{number}]", item) for number, item in enumerate(found, 1)]


def kind_of(value: object) -> str:
    """
    >>> kind_of(None), kind_of(True), kind_of([1]), kind_of(2.5)
    ('missing', 'true or false', 'a list', 'a number')
    """
    if value is None:
        return "missing"
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), type(value).__name__)


def records_of(path: Path, where: Mapping[str, str] | None = None) -> Iterator[Record]:
    """The rows of a file in its order, numbered from 1, one at a time; of ``where`` only those whose fields say so as texts.

    Raises ``ConfigError`` for a file that cannot be read, a row that is no object, and a field of ``where`` that a row has not.
    """
    where = where or {}
    readers = {".parquet": _parquet, ".csv": _csv, ".json": _json}
    try:
        for number, fields in readers.get(path.suffix.lower(), _json_lines)(path, where):
            record = Record(f"{path}, row {number}", fields)
            for name in where:
                if name not in fields:
                    record.wrong(f"there is no field {name}", hint=f"its fields are {', '.join(fields)}")
            if all(str(fields[name]) == value for name, value in where.items()):
                yield record
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start:,}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None


Rows = Iterator[tuple[int, dict[str, Any]]]


def _object(path: Path, number: int, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}, row {number}: it is {kind_of(value)}, not an object", hint=HINT)
    return value


def _json_lines(path: Path, where: Mapping[str, str]) -> Rows:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ConfigError(
                        f"{path}, row {number}: it is not JSON: {error}", hint="one object a line"
                    ) from None
                yield number, _object(path, number, value)


def _json(path: Path, where: Mapping[str, str]) -> Rows:
    """An array of objects, one object, or JSON lines."""
    try:
        body = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if "Extra data" not in str(error):
            raise ConfigError(f"{path} is not JSON: {error}", hint="check quotes, commas and brackets there") from None
        yield from _json_lines(path, where)
        return
    for number, value in enumerate(body if isinstance(body, list) else [body], 1):
        yield number, _object(path, number, value)


def _csv(path: Path, where: Mapping[str, str]) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for number, fields in enumerate(reader, 1):
                if None in fields or None in fields.values():
                    raise ConfigError(f"{path}, row {number}: it has not as many cells as the header", hint=HINT)
                yield number, fields
        except csv.Error as error:
            raise ConfigError(f"{path}, line {reader.line_num}: {error}") from None


def _parquet(path: Path, where: Mapping[str, str]) -> Rows:
    """Group by group: a group in which no row is wanted is not read but for the fields that say so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            before = 0
            names = [name for name in where if name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if not names or _wanted(file.read_row_group(group, columns=names).to_pylist(), where):
                    number = before
                    for batch in file.iter_batches(batch_size=64, row_groups=[group]):
                        for fields in batch.to_pylist():
                            number += 1
                            yield number, fields
                before += rows
    except pa.ArrowException as error:
        raise ConfigError(f"{path} is no Parquet file that can be read: {error}") from None


def _wanted(rows: list[dict[str, Any]], where: Mapping[str, str]) -> bool:
    return any(all(str(value) == where[name] for name, value in row.items()) for row in rows)
