"""The tool ``search``: the files that a few words describe best, by BM25, with the best line of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from kleene.planner.errors import ToolError
from kleene.tools import documents, texts, tree
from kleene.tools.base import Row, Work
from kleene.tools.globs import Globs
from kleene.tools.index import Hit, SearchIndex, Seen, Session, Text
from kleene.tools.reading_apart import Readers
from kleene.tools.reading_documents import readers_of
from kleene.tools.standard import SEARCHED

SNIPPET = 300
DOCUMENT_SECONDS = 20.0
"""For one document of the index: a file made to take for ever does not keep the others out of it."""


def search(work: Work, arguments: tuple[Any, ...]) -> Iterator[Row]:
    query, glob, n = arguments
    n = SEARCHED if n is None else n
    if n < 1:
        raise ToolError(f"search gives at least 1 file, not {n}", kind="invalid arguments")
    globs = Globs.of("**" if glob is None else glob)
    if work.index is not None:
        yield from _ranked(work, work.index, query, globs, n)
    else:
        with closing(SearchIndex(None)) as index:
            yield from _ranked(work, index, query, globs, n)


def _ranked(work: Work, index: SearchIndex, query: str, globs: Globs, n: int) -> Iterator[Row]:
    with index.session(work.check) as session:
        if not index.is_fresh_for(work.statement):
            _refresh(work, session)
            index.fresh_for(work.statement)
        hits = list(itertools.islice((hit for hit in session.rank(query) if globs.match(hit.path)), n))
        lines = {hit.path: _lines(work, hit) for hit in hits}
        best = session.best_lines(query, lines)
    for rank, hit in enumerate(hits, 1):
        number = best.get(hit.path)
        snippet = None if number is None else _cut(lines[hit.path][number - 1].strip())
        yield hit.path, number, snippet, rank, hit.score


def _refresh(work: Work, session: Session) -> None:
    there = []
    for found in tree.walk(work, None):
        if found.entry.kind == "file":
            try:
                status = found.folder.status(found.entry.name)
            except OSError:
                continue
            if status.st_size <= work.limits.file_bytes:
                there.append(Seen(found.path, status.st_size, status.st_mtime_ns))
    try:
        with readers_of(work) as readers:
            session.add(text for seen in session.changed(there) for text in _text(work, readers, seen))
    except ToolError as error:
        if error.kind != "timed out":
            raise
        hint = "what was read is kept: search again to go on"
        raise ToolError("the workspace's index is not done yet", kind="timed out", hint=hint) from None


def _text(work: Work, readers: Readers, seen: Seen) -> Iterator[Text]:
    """A file's text; an empty one for a file that nobody can read, or not in time, so that it is not looked at again before it changes."""
    work.check()
    try:
        with work.workspace.open(seen.path) as file:
            with file.stream() as stream:
                source = documents.Source(seen.path, stream, work.check)
                if not documents.is_plain(source):
                    yield Text(seen, readers.text(source, seconds=DOCUMENT_SECONDS), keep=True)
                elif documents.kind_of(source) is None:
                    yield Text(seen, "")
                else:
                    yield Text(seen, texts.decode(file.read(work.limits.file_bytes)))
    except ToolError:
        work.check()  # not this file's time was over, but that of all
        yield Text(seen, "")


def _lines(work: Work, hit: Hit) -> list[str]:
    if hit.text is not None:
        return hit.text.split("\n")
    try:
        return texts.decode(work.workspace.read(hit.path, work.limits.file_bytes)).split("\n")
    except ToolError:  # it vanished since it was listed
        return []


def _cut(line: str) -> str:
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1] + "…"
