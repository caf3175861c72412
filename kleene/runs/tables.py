"""Fills a session's schema before its first turn: texts as ``ctx``, data files, and tables of the caller's connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene.planner.errors import Cancelled, ConfigError, KleeneError, PlanError
from kleene.planner.sessions import RELATION
from kleene.result import Result
from kleene.session.context import Feed, Inline, load_context, text_feed
from kleene.session.excerpt import excerpt
from kleene.session.prefix import TableNote, context_note
from kleene.session.world import Outcome
from kleene.tools.reading_apart import Readers

if TYPE_CHECKING:
    from kleene.connection import Connection
    from kleene.executor import Executor

FIRST_ROWS = 1000
INSTRUCTIONS = ("KLEENE.md", "AGENTS.md", "CLAUDE.md")
INSTRUCTIONS_CHARACTERS = 8_000
INSTRUCTIONS_BYTES = 1 << 20


@attrs.frozen
class Loaded:
    """The tables that were made, and what the first message says of them."""

    names: tuple[str, ...] = ()
    note: str = ""


def load(
    engine: Executor, connection: Connection, context: Any, tables: Sequence[str], data: Sequence[str | Path] | None
) -> Loaded:
    """Make the tables of a task. Raises ``ConfigError`` and ``PlanError`` for what cannot be read, ``Cancelled``."""
    with closing(Readers()) as readers:
        engine.session_started(readers)  # so that cancel reaches a document that is being read
        try:
            feeds = list(_feeds(engine, context, tables, data, readers))
            for feed in feeds:
                _fill(connection.con, feed)
        except ConfigError:
            if readers.is_cancelled:  # which DuckDB, where it asks a feed, tells as a text
                raise Cancelled("the run was cancelled while its context was read") from None
            raise
        finally:
            engine.session_ended(readers)
    return _loaded(connection, [f.note() for f in feeds], [n for f in feeds for n in f.notes])


def load_text(connection: Connection, context: str) -> Loaded:
    """Make a child's ``ctx`` of the text or relation that its call gave it. A relation of one text is that text."""
    if context.startswith(RELATION):
        kind, _, rows = context[len(RELATION) :].partition("\n")
        alone = _only_text(rows)
        if alone is None:
            return _load_rows(connection, kind, rows)
        context = alone
    feed = text_feed(Inline(context, "the session that asked"))
    _fill(connection.con, feed)
    return _loaded(connection, [feed.note()], feed.notes)


def instructions(workspace: Path) -> str:
    """The project's own instructions, of the first file there is at the top of the workspace; empty without one."""
    from kleene.tools.jail import Jail

    for name in INSTRUCTIONS:
        try:  # through the jail: in somebody else's checkout it may be a link to a secret, a pipe or a device
            data = Jail.of(workspace).read(name, INSTRUCTIONS_BYTES)
        except KleeneError:
            continue
        text = data.decode("utf-8", "replace").strip()
        if text:
            cut = "" if len(text) <= INSTRUCTIONS_CHARACTERS else f"\n(cut: {name} has {len(text):,} characters)"
            return f"Instructions of this project ({name}):\n{text[:INSTRUCTIONS_CHARACTERS]}{cut}"
    return ""


def outcome_of(result: Result) -> Outcome:
    return Outcome(
        columns=result.columns,
        types=result.types,
        rows=result.head(FIRST_ROWS),
        row_count=len(result),
        usage=result.usage,
        warnings=result.warnings,
        message=result.message,
        final=result.final,
    )


def _feeds(
    engine: Executor, context: Any, tables: Sequence[str], data: Sequence[str | Path] | None, readers: Readers
) -> Iterator[Feed]:
    sources: list[Any] = []
    if isinstance(context, str):
        sources.append(Inline(context))
    elif context is not None:
        sources.extend(context)
    sources.extend(data or ())
    if sources:
        yield from load_context(sources, taken=list(tables), readers=readers)
    for name in tables:
        yield _table_feed(engine, name)


def _table_feed(engine: Executor, name: str) -> Feed:
    """A table of the engine's connection, handed over as Arrow."""
    try:
        relation = engine.con.table(name) if name in engine.connection.table_names() else engine.con.sql(f"FROM {name}")
    except duckdb.Error as error:
        raise PlanError(f"tables={name!r}: {str(error).splitlines()[0]}") from None
    reader = relation.to_arrow_reader()
    return Feed(name, reader.schema, f"table {name}", lambda _: iter(reader), once=True)


def _fill(cursor: duckdb.DuckDBPyConnection, feed: Feed) -> None:
    cursor.register("kleene_feed", feed.reader())
    try:
        cursor.execute(f'CREATE TABLE "{feed.name}" AS FROM kleene_feed')
    except duckdb.Error as error:
        if feed.failure is not None:
            raise feed.failure from None
        raise ConfigError(f"{feed.name} cannot be loaded: {str(error).splitlines()[0]}") from None
    finally:
        cursor.unregister("kleene_feed")


def _load_rows(connection: Connection, kind: str, rows: str) -> Loaded:
    try:
        connection.con.execute(f"CREATE TABLE ctx AS SELECT unnest(CAST($1::JSON AS {kind}), max_depth := 2)", [rows])
    except duckdb.Error as error:
        raise PlanError(
            f"the relation cannot be handed over: {str(error).splitlines()[0]}",
            hint="select columns of plain types, each with a name of its own",
        ) from None
    count = int(connection.rows("SELECT count(*) FROM ctx")[0][0])
    return _loaded(connection, [TableNote("ctx", count, None, "the session that asked")], [])


def _only_text(rows: str) -> str | None:
    """The text of a relation of one row and one column that is a text."""
    if rows.count("\n") == 0 and len(rows) > 2:
        found = json.loads(rows)
        if len(found) == 1 and len(found[0]) == 1:
            (value,) = found[0].values()
            return value if isinstance(value, str) else None
    return None


def _loaded(connection: Connection, notes: list[TableNote], more: Sequence[str]) -> Loaded:
    if not notes:
        return Loaded()
    parts = [context_note(notes, more)]
    for note in notes:
        fetched = connection.fetch(f'SELECT * FROM "{note.name}" LIMIT {FIRST_ROWS}', query=True)
        first = Result(fetched.columns, fetched.types, table=fetched.table, rows=fetched.rows)
        parts.append(excerpt(note.name, attrs.evolve(outcome_of(first), row_count=note.rows)))
    return Loaded(tuple(n.name for n in notes), "\n\n".join(p for p in parts if p))
