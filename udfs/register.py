"""Registers the lookup functions with a DuckDB instance, and takes them away again. Nothing else touches ``create_function``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import duckdb
import duckdb.sqltypes

from kleene.planner.errors import KleeneError
from kleene.planner.specs import Carrier
from kleene.udfs.lookups import Lookups

MAX_ENGINES = 1000
DUCKDB_TYPES = {
    Carrier.BOOL: duckdb.sqltypes.BOOLEAN,
    Carrier.BIGINT: duckdb.sqltypes.BIGINT,
    Carrier.DOUBLE: duckdb.sqltypes.DOUBLE,
    Carrier.TEXT: duckdb.sqltypes.VARCHAR,
}


class Registration:
    """The lookup functions of one engine on one DuckDB instance.

    Function names are instance-wide, so the second engine on an instance gets the suffix ``_2``, and so on. They are registered through a
    cursor of their own: then they outlive a rollback of the user's transaction and are seen inside an open one. The cursor must live as
    long as the functions do (a function whose connection is gone crashes the process), so it is held until ``close`` removed them.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, lookups: Lookups):
        self._cursor = con.cursor()
        self._names: list[str] = []
        for number in range(1, MAX_ENGINES):
            self.suffix = "" if number == 1 else f"_{number}"
            try:
                self._create(f"kleene_ready{self.suffix}", lookups.ready, duckdb.sqltypes.BOOLEAN, volatile=False)
                break
            except duckdb.CatalogException as error:
                if "already exists" not in str(error):
                    raise
        else:
            raise KleeneError(f"{MAX_ENGINES} engines are attached to this database", hint="close some: k.close()")
        for carrier, kind in DUCKDB_TYPES.items():
            for name, body, volatile in (
                ("get", lookups.get, False),
                ("call", lookups.call, True),
                ("row", lookups.each_row, True),
            ):
                function = functools.partial(body, carrier)
                self._create(f"kleene_{name}_{carrier.value}{self.suffix}", function, kind, volatile=volatile)

    def _create(self, name: str, function: Callable[..., Any], kind: Any, *, volatile: bool) -> None:
        self._cursor.create_function(
            name, function, None, kind, type="arrow", side_effects=volatile, null_handling="special"
        )
        self._names.append(name)

    def close(self) -> None:
        """Remove the functions. Safe to call twice, and after the user closed the connection."""
        names, self._names = self._names, []
        for name in names:
            try:
                self._cursor.remove_function(name)
            except duckdb.Error:
                continue
        try:
            self._cursor.close()
        except duckdb.Error:
            pass
