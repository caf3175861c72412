"""From sources to tables: texts become ``ctx``, one row a paragraph, and data files tables of their own."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import attrs
import duckdb
import pyarrow as pa

from kleene.planner.errors import ConfigError, ToolError, did_you_mean
from kleene.session.context import datafile, office, textfile
from kleene.session.context.feed import Feed
from kleene.session.context.names import Names, stem
from kleene.session.context.paragraphs import paragraphs
from kleene.session.text import count, scrub
from kleene.tools.documents import Kind
from kleene.tools.reading_apart import Readers

BATCH_ROWS = 2_048
BATCH_CHARACTERS = 1 << 20

CTX = pa.schema([("ordinal", pa.int64()), ("text", pa.string())])
CTX_WITH_SOURCE = CTX.append(pa.field("source", pa.string()))


@attrs.frozen
class Inline:
    """A text given as a Python string."""

    text: str
    name: str = "text"


Source = str | os.PathLike[str] | Inline


@attrs.frozen
class _Document:
    """A text to read: its name in the ``source`` column, and how to open it."""

    label: str
    open: Callable[[], BinaryIO]
    keep_open: bool = False
    kind: Kind | None = None
    """Of a document that is read page by page; None for a text."""
    may_fail: bool = False
    """One of a folder's: when it cannot be read, that is noted and the others are."""


def load_context(
    sources: Sequence[Source],
    *,
    stdin: BinaryIO | None = None,
    taken: Iterable[str] = (),
    readers: Readers | None = None,
) -> tuple[Feed, ...]:
    """The tables that the sources make: ``ctx(ordinal BIGINT, text VARCHAR)`` first if there is any text, then one a data file or database table.

    A source is a path, ``-`` (``stdin``, standard input by default) or an ``Inline`` text. With a folder, or with several texts, ctx has a third
    column ``source``. Nothing but heads is read before a feed's reader is. ``taken`` names are not given to tables. ``readers`` are the
    processes that read documents; without them there are some that end with the feeds. Raises ``ConfigError`` that
    names the file which is missing or unreadable, and says what is readable.
    """
    connection = datafile.scratch()
    names = Names(datafile.reserved_words(connection))
    names.keep(taken)
    loader = _Loader(connection, names, Readers() if readers is None else readers)
    for source in sources:
        loader.add(source, stdin)
    return tuple(loader.feeds())


def text_feed(source: Inline, name: str = "ctx") -> Feed:
    """The table of one text that is there already: what ``load_context`` makes of it, without looking at any file."""
    return _ctx(name, [_inline(source)], [], scrub(source.name), None, with_source=False)


@attrs.define
class _Loader:
    """Sorts sources into the documents of ctx and the tables; ``labels`` names each source of documents."""

    connection: duckdb.DuckDBPyConnection
    names: Names
    readers: Readers
    documents: list[_Document] = attrs.field(factory=list)
    labels: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    tables: list[Callable[[], Iterable[Feed]]] = attrs.field(factory=list)
    folders: bool = False

    def add(self, source: Source, stdin: BinaryIO | None) -> None:
        if isinstance(source, Inline):
            self._document(_inline(source))
        elif source == "-":
            self._document(_Document("standard input", lambda: stdin or sys.stdin.buffer, keep_open=True))
        else:
            self._path(_existing(Path(source)))

    def feeds(self) -> Iterator[Feed]:
        if self.labels:
            source = self.labels[0] if len(self.labels) == 1 else count(len(self.labels), "text")
            with_source = self.folders or len(self.documents) > 1 or any(d.kind for d in self.documents)
            yield _ctx(
                self.names.take("ctx"), self.documents, self.notes, source, self.readers, with_source=with_source
            )
        for make in self.tables:
            yield from make()

    def _path(self, path: Path) -> None:
        if path.is_dir():
            self.folders = True
            self.labels.append(_label(path))
            self.documents.extend(_folder(path, self.notes, self.readers))
        elif datafile.is_data(path):
            self.tables.append(partial(self._file, path))
        elif (kind := _kind(path)) == "a DuckDB database":
            self.tables.append(partial(self._database, path))
        else:
            document = office.kind_of(path, _label(path), self.notes, self.readers)
            if document is None and kind is not None:
                raise ConfigError(f"{_label(path)} is {kind}, not a text", hint=datafile.READABLE)
            self._document(_Document(_label(path), partial(_open, path), kind=document))
            if document is Kind.XLSX:
                self.tables.append(partial(self._sheets, path))

    def _document(self, document: _Document) -> None:
        self.documents.append(document)
        self.labels.append(document.label)

    def _file(self, path: Path) -> Iterator[Feed]:
        yield datafile.file_feed(self.connection, path, self.names.take(stem(path.name)))

    def _sheets(self, path: Path) -> Iterator[Feed]:
        for name, sheet in office.sheets(path, _label(path), self.readers):
            yield sheet.feed(self.names.take(name))

    def _database(self, path: Path) -> Iterator[Feed]:
        tables = datafile.database_tables(self.connection, path)
        if not tables:
            raise ConfigError(f"{_label(path)} holds no table", hint=datafile.READABLE)
        for name, table in tables.items():
            yield table.feed(self.names.take(name))


def _ctx(
    name: str, documents: list[_Document], notes: list[str], source: str, readers: Readers | None, *, with_source: bool
) -> Feed:
    def batches(feed: Feed) -> Iterator[pa.RecordBatch]:
        feed.notes.extend(notes)
        return _batched(_rows(documents, feed, readers), feed, with_source=with_source)

    schema = CTX_WITH_SOURCE if with_source else CTX
    return Feed(name, schema, source, batches, text=True, once=any(d.keep_open for d in documents))


def _rows(documents: list[_Document], feed: Feed, readers: Readers | None) -> Iterator[tuple[str, str]]:
    for document in documents:

        def bad(n: int, label: str = document.label) -> None:
            feed.notes.append(f"{count(n, 'byte')} of {label} {'is' if n == 1 else 'are'} not UTF-8: read as U+FFFD")

        try:
            stream = document.open()
            try:
                if document.kind is not None and readers is not None:
                    yield from office.paragraphs_of(stream, document.label, document.kind, readers)
                else:
                    for text in paragraphs(textfile.lines(stream, document.label, bad)):
                        yield text, document.label
            finally:
                if not document.keep_open:
                    stream.close()
        except ToolError as error:
            if not document.may_fail:
                raise ConfigError(error.message, hint=error.hint or datafile.READABLE) from None
            feed.notes.append(f"not in ctx: {error.message}")
        except OSError as error:
            raise ConfigError(
                f"cannot read {document.label}: {error.strerror or error}", hint=datafile.READABLE
            ) from None


def _batched(rows: Iterator[tuple[str, str]], feed: Feed, *, with_source: bool) -> Iterator[pa.RecordBatch]:
    ordinal = 0
    texts: list[str] = []
    labels: list[str] = []
    held = 0

    def batch() -> pa.RecordBatch:
        columns = [pa.array(range(ordinal - len(texts) + 1, ordinal + 1), pa.int64()), pa.array(texts, pa.string())]
        if with_source:
            columns.append(pa.array(labels, pa.string()))
        feed.characters = (feed.characters or 0) + held
        return pa.record_batch(columns, schema=feed.schema)

    for text, label in rows:
        ordinal += 1
        texts.append(text)
        labels.append(label)
        held += len(text)
        if len(texts) >= BATCH_ROWS or held >= BATCH_CHARACTERS:
            yield batch()
            texts, labels, held = [], [], 0
    if texts:
        yield batch()


def _inline(source: Inline) -> _Document:
    data = scrub(source.text)
    return _Document(scrub(source.name), lambda: io.BytesIO(data.encode()))


def _folder(folder: Path, notes: list[str], readers: Readers) -> Iterator[_Document]:
    """The texts of a folder and its subfolders in the order of their paths; hidden ones are passed over, others that are no text are noted."""
    skipped = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or not path.is_file():
            continue
        try:
            kind = office.kind_of(path, _label(inside), notes, readers)
            unreadable = kind is None and _kind(path) is not None
        except ConfigError:
            unreadable = True
        if unreadable:
            skipped.append(_label(inside))
            continue
        yield _Document(_label(inside), partial(_open, path), kind=kind, may_fail=kind is not None)
    if skipped:
        named = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        notes.append(
            f"{count(len(skipped), 'file')} of {_label(folder)} {'is' if len(skipped) == 1 else 'are'} no text and not in ctx: {named}"
        )


def _existing(path: Path) -> Path:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        siblings = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        near = did_you_mean(path.name, siblings)
        hint = f"did you mean {path.parent / near}?" if near else datafile.READABLE
        reason = (
            "there is no such file"
            if isinstance(error, FileNotFoundError)
            else str(getattr(error, "strerror", None) or error)
        )
        raise ConfigError(f"cannot read {_label(path)}: {reason}", hint=hint) from None
    if not stat.S_ISDIR(mode) and not os.access(path, os.R_OK):
        raise ConfigError(f"cannot read {_label(path)}: permission denied", hint=datafile.READABLE)
    return path


def _kind(path: Path) -> str | None:
    """What a regular file is, if it is no text. Pipes are taken for texts: looking would use up what they hold."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            head = stream.read(textfile.SNIFFED)
    except OSError:
        return "a file that cannot be opened"
    return None if head[:2] in (b"\xff\xfe", b"\xfe\xff") else textfile.binary_kind(head)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _label(path: Path) -> str:
    """A path as text that any sink can encode: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path.as_posix()).decode("utf-8", "replace")
