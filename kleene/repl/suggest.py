"""What may stand at the cursor: from the text and the names to suggestions. Knows no terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from kleene.repl.complete import is_command
from kleene.repl.names import Names
from kleene.repl.relations import BEFORE, is_name, plain, relations_of
from kleene.repl.scan import Piece, last_statement, scan
from kleene.repl.words import KEYWORDS, TYPES

MOST = 200  # suggestions; nobody scrolls further
READERS = (
    "read_csv",
    "read_parquet",
    "read_json",
    "read_text",
    "read_blob",
    "parquet_scan",
    "read_csv_auto",
    "read_json_auto",
)


@attrs.frozen
class Suggestion:
    """``text`` replaces the last ``length`` characters before the cursor; ``kind`` says what it is."""

    text: str
    kind: str
    length: int


@attrs.frozen
class Word:
    """A command of the prompt, as far as completion knows it. ``takes``: table, file, on/off, sql or nothing."""

    name: str
    takes: str
    summary: str


Item = tuple[str, str]


def suggest(
    before: str, after: str, names: Names, commands: Sequence[Word] = (), *, asked: bool = False
) -> list[Suggestion]:
    """The suggestions for a cursor between two texts, the best first. ``asked``: Tab was pressed, so that an empty word gets them too."""
    if is_command(before) and before.lstrip()[:1] in ("\\", "/"):
        return _limited(_of_command(before.lstrip(), names, commands))
    pieces = last_statement(scan(before))
    if pieces and pieces[-1].open and pieces[-1].kind == "comment":
        return []
    if pieces and pieces[-1].open and pieces[-1].kind == "string":
        return _limited(_in_string(pieces, names))
    following = scan(after)
    ends = next((i for i, p in enumerate(following) if p.kind == "end"), len(following))
    return _limited(_in_sql(pieces, [*pieces, *following[:ends]], names, asked))


def _limited(found: Iterable[Suggestion]) -> list[Suggestion]:
    unique: dict[str, Suggestion] = {}
    for suggestion in found:
        unique.setdefault(suggestion.text.lower(), suggestion)
        if len(unique) >= MOST:
            break
    return list(unique.values())


def matching(prefix: str, items: Iterable[Item], write: Callable[[str], str] = str) -> Iterator[Suggestion]:
    """Items that begin with the prefix, then those with a part (behind ``_`` or ``.``) that does, then those that hold it."""
    low = prefix.lower()
    ranked: list[list[Suggestion]] = [[], [], []]
    for text, kind in items:
        name = text.lower()
        if name.startswith(low):
            rank = 0
        elif f"_{low}" in name or f".{low}" in name:
            rank = 1
        elif len(low) > 1 and low in name:
            rank = 2
        else:
            continue
        ranked[rank].append(Suggestion(write(text), kind, len(prefix)))
    for group in ranked:
        yield from group


# -- commands


def _of_command(text: str, names: Names, commands: Sequence[Word]) -> Iterator[Suggestion]:
    word, blank, rest = text.partition(" ")
    if not blank:
        yield from matching(word[1:], ((c.name, c.summary) for c in commands))
        return
    command = next((c for c in commands if c.name == word[1:]), None)
    if command is None:
        return
    if command.takes == "table":
        yield from matching(rest, ((t, "table") for t in names.tables))
    elif command.takes == "file":
        yield from files(rest)
    elif command.takes == "on/off":
        yield from matching(rest, (("on", ""), ("off", "")))
    elif command.takes == "sql":
        yield from suggest(rest, "", names)


def files(prefix: str) -> Iterator[Suggestion]:
    """Files and folders that go on from a path."""
    folder, _, start = prefix.rpartition("/")
    place = Path(f"{folder}/" if "/" in prefix else ".").expanduser()
    try:
        found = sorted(os.scandir(place), key=lambda e: e.name)
    except OSError:
        return
    for entry in found:
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
            is_folder = entry.is_dir()
            yield Suggestion(entry.name + "/" * is_folder, "folder" if is_folder else "file", len(start))


# -- SQL


def _in_string(pieces: Sequence[Piece], names: Names) -> Iterator[Suggestion]:
    matters = [p for p in pieces if p.matters]
    string, before = matters[-1], matters[:-1]
    if not string.text.startswith("'"):
        return
    inside = string.text[1:]
    if len(before) > 1 and before[-1].text == "(" and before[-2].says("spawn", "spawn_async"):
        yield from matching(inside, ((a, "agent") for a in names.agents))
    elif before and (
        before[-1].says("model") or (len(before) > 1 and before[-1].says(":=", "=>") and before[-2].says("model"))
    ):
        yield from matching(inside, ((a, "model") for a in names.aliases))
    elif len(before) > 2 and before[-1].says("=", "to") and before[-3].says("set"):
        yield from matching(inside, ((v, "") for v in names.settings.get(before[-2].text.lower(), ())))
    elif before and (before[-1].says("from", "join", ",", "copy", "attach", "to") or _opens_reader(before)):
        yield from files(inside)


def _opens_reader(before: Sequence[Piece]) -> bool:
    return len(before) > 1 and before[-1].text == "(" and before[-2].says(*READERS)


def _in_sql(pieces: Sequence[Piece], whole: Sequence[Piece], names: Names, asked: bool) -> Iterator[Suggestion]:
    last = pieces[-1] if pieces else None
    typing = last is not None and last.kind in ("word", "name") and (last.open or last.kind == "word")
    if last is not None and last.kind in ("number", "parameter") and not typing:
        return
    prefix = plain(last) if typing and last is not None else ""
    length = len(last.text) if typing and last is not None else 0
    before = [p for p in (pieces[:-1] if typing else pieces) if p.matters]

    def found(items: Iterable[Item], write: Callable[[str], str] = quoted) -> Iterator[Suggestion]:
        return (attrs.evolve(s, length=length) for s in matching(prefix, items, write))

    setting = _setting(before)
    if setting is not None:
        dotted, values = setting
        yield from _of_setting(dotted, values, prefix, length, names)
        return
    if len(before) > 1 and before[-1].text == "." and is_name(before[-2]):
        yield from found(_members(before, whole, names))
        return
    if before and before[-1].says("agent", "agents"):
        yield from found((a, "agent") for a in names.agents)
        return
    if len(before) > 1 and before[-1].says("function") and before[-2].says("drop"):
        yield from found((f, "function") for f in names.declared)
        return
    if _wants_table(before):
        yield from found(
            [
                *_tables(whole, names),
                *((f"{f}(", "table function") for f in (*names.table_calls, *names.table_functions)),
            ],
            _written,
        )
        return
    if not prefix and not asked:
        return
    yield from found(_expression(whole, names), _written)


def _setting(before: Sequence[Piece]) -> tuple[str, bool] | None:
    """The part of a setting's name before the cursor, and whether its value is wanted; None where no SET is being typed."""
    if not before or not before[0].says("set", "reset"):
        return None
    rest = list(before[1:])
    if rest and rest[0].says("session", "global", "local"):
        rest = rest[1:]
    name = "".join(p.text for p in rest if p.kind in ("word",) or p.text == ".")
    return name.lower().removesuffix("to"), any(p.says("=", "to") for p in rest)


def _of_setting(dotted: str, value: bool, prefix: str, length: int, names: Names) -> Iterator[Suggestion]:
    if value:
        choices = names.settings.get(dotted, ()) or (names.aliases if dotted == "model.default" else ())
        yield from (
            Suggestion(v if v in ("on", "off") else f"'{v}'", "value", length)
            for v in choices
            if v.startswith(prefix.lower())
        )
        return
    typed = dotted + prefix.lower()
    for suggestion in matching(typed, ((key, "setting") for key in names.settings)):
        yield attrs.evolve(suggestion, length=len(typed))


def _members(before: Sequence[Piece], whole: Sequence[Piece], names: Names) -> list[Item]:
    """What may follow a name and a dot: columns of an alias or a table, tables of a schema."""
    owner = plain(before[-2]).lower()
    tables = {r.table.lower() for r in relations_of(whole) if r.alias.lower() == owner} or {owner}
    columns = [(c, "column") for t, cs in names.tables.items() if t.lower() in tables for c in cs]
    inside = [(t.partition(".")[2], "table") for t in names.tables if t.lower().startswith(f"{owner}.")]
    return columns + inside


def _wants_table(before: Sequence[Piece]) -> bool:
    if not before:
        return False
    if before[-1].says(*BEFORE):
        return not (before[-1].says("using") and len(before) > 2)
    if before[-1].text != ",":
        return False
    for piece in reversed(before[:-1]):
        if piece.text == "(" or piece.kind == "end":
            return False
        if piece.kind == "word" and piece.text.upper() in KEYWORDS and not piece.says("as"):
            return piece.says("from", "join")
    return False


def _tables(whole: Sequence[Piece], names: Names) -> list[Item]:
    return [(r.table, "with") for r in relations_of(whole) if r.common] + [(t, "table") for t in names.tables]


def _expression(whole: Sequence[Piece], names: Names) -> Iterator[Item]:
    relations = relations_of(whole)
    named = {r.table.lower() for r in relations}
    for table, columns in names.tables.items():
        if table.lower() in named:
            yield from ((c, "column") for c in columns)
    yield from ((r.alias, "table") for r in relations)
    yield from ((f"{name}(", what.partition(" -> ")[2] or "call") for name, what in names.calls.items())
    yield from ((word, "") for word in sorted(KEYWORDS))
    if not named:
        yield from ((c, "column") for columns in names.tables.values() for c in columns)
    yield from ((f"{name}(", "function") for name in names.functions)
    yield from ((t, "table") for t in names.tables)
    yield from ((word, "type") for word in sorted(TYPES))


def quoted(name: str) -> str:
    """A name as SQL needs it: each part in quotes where it must be.

    >>> quoted("body"), quoted("shop.Order lines"), quoted("select")
    ('body', 'shop."Order lines"', '"select"')
    """
    return ".".join(part if _is_bare(part) else '"' + part.replace('"', '""') + '"' for part in name.split("."))


def _is_bare(part: str) -> bool:
    return part.isidentifier() and part.upper() not in KEYWORDS


def _written(text: str) -> str:
    return text if text.endswith("(") or text in KEYWORDS or text in TYPES else quoted(text)
