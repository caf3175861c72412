"""DuckDB's errors in Kleene's tree: what the user wrote wrong becomes a ``PlanError`` with a hint; the rest keeps DuckDB's own type."""

from __future__ import annotations

import re

import duckdb

from kleene.planner.catalog import Catalog
from kleene.planner.errors import KleeneError, ParseError, PlanError, did_you_mean
from kleene.planner.settings import KEYS

LOOKUP = re.compile(r"kleene_(get|call|row|ready)_?\w*")


def from_duckdb(text: str, catalog: Catalog | None = None) -> KleeneError:
    """A typed error from a DuckDB message: its first sentence, and a hint with the nearest name where DuckDB or Kleene knows one."""
    head, _, rest = text.partition("\n")
    kind, _, message = head.partition(": ")
    message = message or kind
    hint = _hint(text, message, rest, catalog)
    if kind.startswith("Parser"):
        return ParseError(message, hint=hint)
    return PlanError(message, hint=hint)


def _hint(text: str, message: str, rest: str, catalog: Catalog | None) -> str | None:
    unknown = re.search(r"Function with name \"?(\w+)\"? does not exist", message)
    if unknown and catalog is not None:
        near = did_you_mean(unknown.group(1), catalog.functions)
        if near is not None:
            return f"did you mean {near}? {catalog.functions[near.lower()].signature()}"
    near_duckdb = re.search(r"Did you mean \"?([^\"?\n]+)\"?\??", text)
    if near_duckdb:
        return f"did you mean {near_duckdb.group(1).strip()}?"
    candidates = re.search(r"Candidate bindings: (.+)", rest)
    if candidates:
        return f"did you mean one of {candidates.group(1).strip()}?"
    setting = re.search(r"unrecognized configuration parameter \"(\w+)\"", text)
    if setting:
        return "Kleene's settings are " + ", ".join(k.key for k in KEYS) + ", rules.NAME"
    return None


def is_users_mistake(error: duckdb.Error) -> bool:
    """The statement is wrong as written (as opposed to failing on the data, the disk, or a lock)."""
    return isinstance(
        error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException | duckdb.SyntaxException
    )
