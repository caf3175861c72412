"""A table that is about to be loaded: its name, its schema, and its rows as Arrow record batches, counted as they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import pyarrow as pa

from kleene.planner.errors import ConfigError
from kleene.session.prefix import TableNote

Batches = Callable[["Feed"], Iterator[pa.RecordBatch]]


@attrs.define
class Feed:
    """One table to hand to DuckDB.

    ``rows``, ``characters`` (of texts; None for typed data) and ``notes`` are complete when a reader has been read to its end. ``failure`` keeps
    the error of a reader that broke off: whoever runs the reader through DuckDB gets it as text only, and raises this one instead.
    """

    name: str
    schema: pa.Schema
    source: str
    _batches: Batches
    text: bool = False
    once: bool = False
    rows: int = 0
    characters: int | None = None
    notes: list[str] = attrs.field(factory=list)
    failure: ConfigError | None = None
    _opened: bool = False

    def reader(self) -> pa.RecordBatchReader:
        """The rows from the start. A source that can be read once only (standard input) raises ``ConfigError`` the second time."""
        if self.once and self._opened:
            raise ConfigError(f"{self.source} was read already and cannot be read again", hint="save it to a file")
        self._opened = True
        self.rows, self.characters, self.failure = 0, 0 if self.text else None, None
        self.notes.clear()
        return pa.RecordBatchReader.from_batches(self.schema, self._counted())

    def note(self) -> TableNote:
        """How the table is described to a model; to be asked after a reader has been read to its end."""
        return TableNote(self.name, self.rows, self.characters, self.source)

    def _counted(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches(self):
                self.rows += batch.num_rows
                yield batch
        except ConfigError as error:
            self.failure = error
            raise
        if self.rows == 0:
            self.notes.append(f"{self.name} is empty: no {'text' if self.text else 'rows'} in {self.source}")
