"""What can be completed, as the engine knows it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kleene.storetables import HOST_TABLES

MOST = 50_000  # columns that are read; a database with more completes the first ones

COLUMNS = f"""\
SELECT CASE WHEN schema_name = current_schema() OR database_name = 'temp' THEN table_name ELSE schema_name || '.' || table_name END, column_name
FROM duckdb_columns() WHERE NOT internal AND database_name IN (current_database(), 'temp')
ORDER BY database_name, schema_name, table_name, column_index LIMIT {MOST}"""
FUNCTIONS = """\
SELECT DISTINCT function_name, function_type FROM duckdb_functions()
WHERE regexp_full_match(function_name, '[a-z][a-z0-9_]*') AND NOT starts_with(function_name, 'kleene_') ORDER BY ALL"""
SETTINGS = "SELECT name FROM duckdb_settings() ORDER BY name"


@attrs.frozen
class Names:
    """``tables`` are names with their columns; ``calls`` ask a model (with what they are); ``settings`` are keys with what they expect."""

    tables: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    calls: Mapping[str, str] = attrs.field(factory=dict)
    table_calls: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    table_functions: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    aliases: tuple[str, ...] = ()


def read_names(engine: Any, old: Names | None = None) -> Names:
    """Ask the engine. DuckDB's own functions and settings, which do not change, are taken over from ``old``."""
    rows = engine.connection.rows
    tables: dict[str, list[str]] = {}
    for table, column in rows(COLUMNS):
        tables.setdefault(table, []).append(column)
    if old is None or not old.functions:
        found = rows(FUNCTIONS)
        functions = tuple(dict.fromkeys(name for name, kind in found if kind in ("scalar", "aggregate", "macro")))
        table_functions = tuple(dict.fromkeys(name for name, kind in found if kind in ("table", "table_macro")))
        own: dict[str, tuple[str, ...]] = {name: () for (name,) in rows(SETTINGS)}
    else:
        functions, table_functions, own = old.functions, old.table_functions, dict(old.settings)
    catalog = engine.state.catalog
    return Names(
        tables={name: tuple(columns) for name, columns in tables.items()} | dict.fromkeys(sorted(HOST_TABLES), ()),
        calls={f.name: f.signature() for f in catalog.functions.values()},
        table_calls=tuple(f.name for f in catalog.functions.values() if f.table is not None),
        declared=tuple(f.name for f in catalog.declared()),
        functions=functions,
        table_functions=table_functions,
        agents=tuple(sorted(catalog.agents)),
        settings=own | settings(),
        aliases=tuple(engine.services.handler.known_aliases()) or ("worker",),
    )


def settings() -> dict[str, tuple[str, ...]]:
    """Kleene's own keys with the values that can be listed."""
    from kleene.planner.rules import RULES
    from kleene.planner.settings import KEYS

    keys = {k.key: k.choices or (("on", "off") if k.type == "bool" else ()) for k in KEYS}
    names = [rule.__name__ for rule in RULES] + [
        "cascade",
        "classify_join",
    ]  # the two that are no steps of the pipeline
    return keys | {f"rules.{name}": ("on", "off") for name in sorted(names)}
