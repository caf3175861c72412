"""Registers the lookup functions with a DuckDB instance, and takes them away again. Nothing else touches ``create_function``."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import duckdb
import duckdb.sqltypes
from duckdb.func import FunctionNullHandling, PythonUDFType

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
    cursor of their own: then they outlive a rollback of the user's transaction. The cursor must live as long as the functions do (a
    function whose connection is gone crashes the process), so it is held until ``close`` removed them.

    A transaction that was open before does not see them: for an engine attached inside one (``in_transaction``) they are registered on the
    user's connection itself, go with that transaction, and are registered again by ``renew`` when it has ended.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, lookups: Lookups, *, in_transaction: bool = False):
        self._user = con
        self._lookups = lookups
        self._cursor = con.cursor()
        self.passing = in_transaction
        self._names: list[str] = []
        self.suffix = ""
        try:
            self._register(con if in_transaction else self._cursor, range(1, MAX_ENGINES))
        except BaseException:
            self._cursor.close()
            raise

    def renew(self) -> None:
        """Register for good what was registered in a transaction that has ended. Does nothing otherwise."""
        if not self.passing:
            return
        self.passing = False
        self._remove(self._user)
        self._register(self._cursor, range(1, MAX_ENGINES))

    def _register(self, con: duckdb.DuckDBPyConnection, numbers: range) -> None:
        for number in numbers:
            self.suffix = "" if number == 1 else f"_{number}"
            try:
                self._create_all(con)
                return
            except (duckdb.CatalogException, duckdb.TransactionException) as error:
                self._remove(con)
                if "already exists" not in str(error) and "conflict" not in str(error).lower():
                    raise
        raise KleeneError(f"{MAX_ENGINES} engines are attached to this database", hint="close some: k.close()")

    def _create_all(self, con: duckdb.DuckDBPyConnection) -> None:
        """All functions of one suffix, or an error. The first name is the claim on the suffix: engines that open at the same moment part there."""
        lookups = self._lookups
        for name, body in (
            ("ready", lookups.ready),
            ("wave_ready", lookups.wave_ready),
            ("seen", lookups.seen),
            ("route", lookups.route),
            ("decided", lookups.decided),
        ):
            self._create(con, name, bare(body), duckdb.sqltypes.BOOLEAN, volatile=False)
        self._create(con, "lack", bare(lookups.lack), duckdb.sqltypes.BIGINT, volatile=False)
        self._create(con, "round", bare(lookups.round), duckdb.sqltypes.BOOLEAN, volatile=True)
        for carrier, kind in DUCKDB_TYPES.items():
            typed: tuple[tuple[str, Callable[..., Any], bool], ...] = (
                ("get", lookups.get, False),
                ("wave", lookups.wave, False),
                ("peek", lookups.peek, False),
                ("call", lookups.call, True),
                ("row", lookups.each_row, True),
            )
            for name, lookup, volatile in typed:
                self._create(con, f"{name}_{carrier.value}", bare(lookup, carrier), kind, volatile=volatile)

    def _create(self, con: duckdb.DuckDBPyConnection, what: str, function: Any, kind: Any, *, volatile: bool) -> None:
        name = f"kleene_{what}{self.suffix}"
        con.create_function(
            name,
            function,
            None,
            kind,
            type=PythonUDFType.ARROW,
            side_effects=volatile,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self._names.append(name)

    def _remove(self, con: duckdb.DuckDBPyConnection) -> None:
        names, self._names = self._names, []
        for name in reversed(
            names
        ):  # the claim on the suffix goes last, or another engine takes it while the rest is still there
            with contextlib.suppress(duckdb.Error):
                con.remove_function(name)

    def close(self) -> None:
        """Remove the functions. Safe to call twice, and after the user closed the connection."""
        self._remove(self._user if self.passing else self._cursor)
        with contextlib.suppress(duckdb.Error):
            self._cursor.close()


def bare(method: Callable[..., Any], *given: Any) -> Callable[..., Any]:
    """A bound method with its first arguments given, whose signature has no annotations: DuckDB asks ``inspect`` for it, which would evaluate
    them all, half of the time that registering takes."""
    code = method.__func__.__code__  # type: ignore[attr-defined]
    names = code.co_varnames[1 + len(given) : code.co_argcount]  # without self
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    if code.co_flags & inspect.CO_VARARGS:
        parameters.append(inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL))
    function = functools.partial(method, *given)
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function
