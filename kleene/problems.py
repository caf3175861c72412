"""DuckDB's errors in Kleene's tree: what the user wrote wrong becomes a ``ParseError`` or ``PlanError`` with its place in the user's text and
a hint; the rest keeps DuckDB's own type."""

from __future__ import annotations

import re

import duckdb

from kleene.planner.catalog import Catalog
from kleene.planner.errors import KleeneError, ParseError, PlanError, did_you_mean
from kleene.planner.foreign import in_duckdb, with_other_arguments
from kleene.planner.settings import KEYS
from kleene.planner.specs import Span
from kleene.planner.statements import Statement

NAMES = (
    re.compile(r"Referenced (?:column|table) \"([^\"]+)\""),
    re.compile(r"with name \"?([^\s\"]+?)\"? does not exist"),
    re.compile(r"syntax error at or near \"([^\"]+)\""),
    re.compile(r"does not have a column named \"([^\"]+)\""),
    re.compile(r"unrecognized configuration parameter \"(\w+)\""),
    re.compile(r"function \"?(\w+)\"? ?(?:\(|does not)"),
)
KEYWORDS = frozenset((
    "anti", "asof", "at", "authorization", "binary", "by", "collation", "columns", "concurrently", "cross", "freeze", "full", "generated", "glob", "ilike",
    "inner", "is", "isnull", "join", "left", "like", "map", "natural", "notnull", "outer", "overlaps", "positional", "right", "semi", "similar", "struct",
    "tablesample", "try_cast", "tuple", "unpack", "verbose",
))  # fmt: skip
"""Those that name functions and types and no columns, the category ``type_function`` of ``duckdb_keywords()``."""
SYNTAX = frozenset((
    "at", "by", "cross", "full", "glob", "ilike", "inner", "is", "isnull", "join", "left", "like", "natural", "notnull", "outer", "overlaps", "right",
    "similar",
))  # fmt: skip
"""Those of them that a statement is more often made of than a column named after: nothing is said of them."""
FILE = re.compile(r"^Table with name (?:[^\s\"]*/|[^\"]+\.)[^\"]+ does not exist$")
NO_TABLE_OF_FILE = (
    "a quoted file name is a table where it ends in .csv, .tsv, .parquet, .json, .jsonl or .ndjson; "
    "read_csv, read_parquet and read_json take any name"
)
CARET = re.compile(r"^LINE (\d+): (.*)\n( *)\^", re.MULTILINE)


def is_users_mistake(error: duckdb.Error) -> bool:
    """The statement is wrong as written (as opposed to failing on the data, the disk, or a lock)."""
    return isinstance(
        error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException | duckdb.SyntaxException
    )


def from_duckdb(text: str, catalog: Catalog | None = None, statement: Statement | None = None) -> KleeneError:
    """A typed error from a DuckDB message: its first sentence, the place of what it names in the user's text, and a hint with the nearest
    name where DuckDB or Kleene knows one."""
    head, _, rest = text.partition("\n")
    kind, _, message = head.partition(": ")
    message = (message or kind).rstrip("!")
    kind_of = ParseError if kind.startswith("Parser") else PlanError
    span = None if statement is None else _place(text, message, statement)
    return kind_of(
        message,
        hint=_hint(text, message, rest, catalog) or _keyword(message, span, statement),
        span=span,
        source=None if statement is None else statement.source,
    )


def _place(text: str, message: str, statement: Statement) -> Span | None:
    """Where in the user's source the thing that DuckDB complains of stands; None where it cannot be told."""
    name = next((m.group(1) for m in (p.search(message) for p in NAMES) if m is not None), None)
    caret = CARET.search(text)
    if caret is not None:
        line, shown, blanks = int(caret.group(1)), caret.group(2), len(caret.group(3)) - len(f"LINE {caret.group(1)}: ")
        lines = statement.text.split("\n")
        # DuckDB cuts long lines with dots; the place is sure only where the line is shown from its start.
        if line <= len(lines) and not shown.startswith("...") and lines[line - 1].startswith(shown.removesuffix("...")):
            at = statement.span.start + sum(len(x) + 1 for x in lines[: line - 1]) + blanks
            return Span.at(statement.source, at, at + len(name or "x"))
    if name is None:
        return None
    found = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", statement.text, re.IGNORECASE)
    if found is None:
        return None
    return Span.at(statement.source, statement.span.start + found.start(), statement.span.start + found.end())


def _keyword(message: str, span: Span | None, statement: Statement | None) -> str | None:
    """A word that is no name unless quoted, where the syntax goes wrong at it or behind it."""
    if span is None or statement is None or "syntax error" not in message:
        return None
    before = re.search(r"(\w+)\W?\s*$", statement.source[: span.start])
    words = [*(before.groups() if before else ()), statement.source[span.start : span.end]]
    found = next((word for word in words if word.lower() in KEYWORDS - SYNTAX), None)
    return f'as a name {found} is written "{found}": it is a keyword' if found else None


def _is_near(message: str, suggested: str) -> bool:
    """DuckDB always suggests something; only what resembles a name of the message helps."""
    names = re.findall(r"[A-Za-z_]\w+", message)
    return did_you_mean(suggested.strip().split(".")[-1], names) is not None


def _hint(text: str, message: str, rest: str, catalog: Catalog | None) -> str | None:
    unknown = re.search(r"Function with name \"?(\w+)\"? does not exist", message)
    if unknown and (how := in_duckdb(unknown.group(1))) is not None:
        return how
    misused = re.search(r"No function matches the given name and argument types '(\w+)\(", message)
    if misused and (how := with_other_arguments(misused.group(1))) is not None:
        return how
    if unknown and catalog is not None:
        near = did_you_mean(unknown.group(1), catalog.functions)
        if near == unknown.group(1).lower():
            return f"it is called in a query: SELECT {near}(...)"
        if near is not None:
            return f"did you mean {near}? {catalog.functions[near.lower()].signature()}"
    if "invalid repetition size" in text:
        return "a repetition is at most 1000: for more around a match, substr(t, instr(t, 'x') - 500, 2000)"
    there = re.match(r"(Table|View) with name \"?([^\"]+?)\"? already exists", message)
    if there:
        return f"CREATE OR REPLACE {there[1].upper()} makes it anew; what was made before an error has stayed"
    near_duckdb = re.search(r"Did you mean \"?([^\"?\n]+)\"?\??", text)
    if near_duckdb and _is_near(message, near_duckdb.group(1)):
        return f"did you mean {near_duckdb.group(1).strip()}?"
    candidates = re.search(r"Candidate bindings: (?:: )?(.+)", rest)
    if candidates:
        nearest = candidates.group(1).strip()  # a choice of DuckDB's: the relation may have more
        return f"the nearest columns are {nearest}" if '", ' in nearest else f"the nearest column is {nearest}"
    unknown_setting = re.search(r"unrecognized configuration parameter \"([^\"]+)\"", text)
    if unknown_setting:
        near = did_you_mean(unknown_setting.group(1), [key.key for key in KEYS])
        known = "Kleene's settings are " + ", ".join(key.key for key in KEYS) + ", rules.NAME"
        return known if near is None else f"did you mean {near}? {known}"
    if unknown and catalog is not None:
        return "SHOW FUNCTIONS lists those that ask; one that was created lasts as long as its engine"
    if FILE.search(message):
        return NO_TABLE_OF_FILE
    return None
