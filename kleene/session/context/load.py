"""From sources to tables: texts become ``ctx``, one row a paragraph, and data files tables of their own."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

import attrs
import duckdb
import pyarrow as pa

from kleene.planner.errors import ConfigError, ToolError, did_you_mean
from kleene.session.context import datafile, office, textfile
from kleene.session.context.feed import Feed
from kleene.session.context.names import Called, Names, as_text, called, shown_names, stem
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
    """A text to read: what it is called, and how to open it."""

    name: Called
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
    paths = [Path(s) for s in sources if not isinstance(s, Inline) and s != "-"]
    loader = _Loader(connection, names, Readers() if readers is None else readers, shown_names(paths), len(sources) > 1)
    for source in sources:
        loader.add(source, stdin)
    return tuple(loader.feeds())


def text_feed(source: Inline, name: str = "ctx") -> Feed:
    """The table of one text that is there already: what ``load_context`` makes of it, without looking at any file."""
    return _ctx(name, [_inline(source)], [], scrub(source.name), None, with_source=False)


@attrs.define
class _Loader:
    """Sorts sources into the documents of ctx and the tables; ``origins`` names each source of documents."""

    connection: duckdb.DuckDBPyConnection
    names: Names
    readers: Readers
    shown: Mapping[Path, str]
    several: bool
    documents: list[_Document] = attrs.field(factory=list)
    origins: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    tables: list[Callable[[], Iterable[Feed]]] = attrs.field(factory=list)
    folders: bool = False

    def add(self, source: Source, stdin: BinaryIO | None) -> None:
        if isinstance(source, Inline):
            self._document(_inline(source))
        elif source == "-":
            self._document(
                _Document(Called("standard input", "standard input"), lambda: stdin or sys.stdin.buffer, keep_open=True)
            )
        else:
            self._path(_existing(Path(source)))

    def feeds(self) -> Iterator[Feed]:
        if self.origins:
            source = self.origins[0] if len(self.origins) == 1 else count(len(self.origins), "text")
            with_source = self.folders or len(self.documents) > 1 or any(d.kind for d in self.documents)
            yield _ctx(
                self.names.take("ctx"), self.documents, self.notes, source, self.readers, with_source=with_source
            )
        for make in self.tables:
            yield from make()

    def _path(self, path: Path) -> None:
        name = called(path, self.shown)
        if path.is_dir():
            self.folders = True
            self.origins.append(name.shown)
            self.documents.extend(_folder(path, name.shown, self.notes, self.readers, named=self.several))
        elif datafile.is_data(path):
            self.tables.append(partial(self._file, path, name))
        elif (kind := _kind(path)) == "a DuckDB database":
            self.tables.append(partial(self._database, path, name))
        else:
            document = office.kind_of(path, name, self.notes, self.readers)
            if document is None and kind is not None:
                raise ConfigError(f"{name.label} is {kind}, not a text", hint=datafile.READABLE)
            self._document(_Document(name, partial(_open, path), kind=document))
            if document is Kind.XLSX:
                self.tables.append(partial(self._sheets, path, name))

    def _document(self, document: _Document) -> None:
        self.documents.append(document)
        self.origins.append(document.name.shown)

    def _file(self, path: Path, name: Called) -> Iterator[Feed]:
        yield datafile.file_feed(self.connection, path, name.shown, self.names.take(stem(path.name)))

    def _sheets(self, path: Path, name: Called) -> Iterator[Feed]:
        for title, sheet in office.sheets(path, name, self.readers):
            yield sheet.feed(self.names.take(title))

    def _database(self, path: Path, name: Called) -> Iterator[Feed]:
        tables = datafile.database_tables(self.connection, path, name.shown)
        if not tables:
            raise ConfigError(f"{name.label} holds no table", hint=datafile.READABLE)
        for title, table in tables.items():
            yield table.feed(self.names.take(title))


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

        def bad(n: int, shown: str = document.name.shown) -> None:
            feed.notes.append(f"{count(n, 'byte')} of {shown} {'is' if n == 1 else 'are'} not UTF-8: read as U+FFFD")

        try:
            stream = document.open()
            try:
                if document.kind is not None and readers is not None:
                    yield from office.paragraphs_of(stream, document.name, document.kind, readers)
                else:
                    for text in paragraphs(textfile.lines(stream, document.name.label, bad)):
                        yield text, document.name.shown
            finally:
                if not document.keep_open:
                    stream.close()
        except ToolError as error:
            if not document.may_fail:
                raise ConfigError(error.message, hint=error.hint or datafile.READABLE) from None
            feed.notes.append(f"not in ctx: {error.message}")
        except OSError as error:
            raise ConfigError(
                f"cannot read {document.name.label}: {error.strerror or error}", hint=datafile.READABLE
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
    name = scrub(source.name)
    return _Document(Called(name, name), lambda: io.BytesIO(data.encode()))


def _folder(folder: Path, shown: str, notes: list[str], readers: Readers, *, named: bool) -> Iterator[_Document]:
    """The texts of a folder and its subfolders in the order of their paths, ``named`` with the folder's name before; hidden ones are passed over,
    others that are no text are noted."""
    skipped = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or not path.is_file():
            continue
        label = as_text(inside)
        name = Called(label, f"{shown}/{label}" if named else label)
        try:
            kind = office.kind_of(path, name, notes, readers)
            unreadable = kind is None and _kind(path) is not None
        except ConfigError:
            unreadable = True
        if unreadable:
            skipped.append(name.shown)
            continue
        yield _Document(name, partial(_open, path), kind=kind, may_fail=kind is not None)
    if skipped:
        listed = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        notes.append(
            f"{count(len(skipped), 'file')} of {shown} {'is' if len(skipped) == 1 else 'are'} no text and not in ctx: {listed}"
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
        raise ConfigError(f"cannot read {as_text(path)}: {reason}", hint=hint) from None
    if not stat.S_ISDIR(mode) and not os.access(path, os.R_OK):
        raise ConfigError(f"cannot read {as_text(path)}: permission denied", hint=datafile.READABLE)
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
