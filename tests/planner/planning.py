"""Plans in tests: a real DuckDB connection to bind against, functions of every kind, no model."""

from __future__ import annotations

import attrs
import duckdb

from kleene.connection import Connection
from kleene.planner.callplan import CallPlan
from kleene.planner.catalog import Catalog
from kleene.planner.emit import emit
from kleene.planner.errors import KleeneError
from kleene.planner.plan import plan
from kleene.planner.settings import Settings
from kleene.planner.statements import function_spec, parse

FUNCTIONS = """
    CREATE FUNCTION f(x TEXT) RETURNS BOOLEAN AS PROMPT 'f {x}';
    CREATE FUNCTION n(x DOUBLE, y DATE) RETURNS BIGINT AS PROMPT 'n {x} {y}';
    CREATE FUNCTION pair(x TEXT) RETURNS STRUCT(a INTEGER, b TEXT[]) AS PROMPT 'pair {x}';
    CREATE FUNCTION topics(x TEXT) RETURNS TABLE(topic TEXT, weight DOUBLE) AS PROMPT 'topics {x}';
    CREATE FUNCTION twice(x TEXT) RETURNS TEXT AS SQL (SELECT llm(x) || llm(x));
    CREATE FUNCTION again(x TEXT) RETURNS TEXT AS SQL (SELECT again(x));
    CREATE FUNCTION dice(x TEXT) RETURNS TEXT AS PROMPT 'dice {x}' VOLATILE;
"""


@attrs.frozen
class Planner:
    """Plans statements against a small database: t(i, body, p), u(i, z)."""

    connection: Connection
    catalog: Catalog
    settings: Settings = attrs.field(factory=Settings)

    @classmethod
    def new(cls) -> Planner:
        con = duckdb.connect()
        con.execute("CREATE TABLE t (i INTEGER, body VARCHAR, p BOOLEAN); CREATE TABLE u (i INTEGER, z VARCHAR)")
        catalog = Catalog()
        for statement in parse(FUNCTIONS):
            spec = function_spec(statement.tree, statement)  # type: ignore[arg-type]
            catalog.functions[spec.name] = spec
        return cls(Connection(con), catalog)

    def plan(self, sql: str) -> CallPlan:
        made = plan(parse(sql)[0], self.catalog, self.settings, self.connection)
        assert made is not None
        return made

    def is_pure(self, sql: str) -> bool:
        return plan(parse(sql)[0], self.catalog, self.settings, self.connection) is None

    def sql(self, sql: str) -> str:
        return emit(self.plan(sql), "1")

    def error(self, sql: str) -> str:
        """The planning error as the user sees it."""
        try:
            self.plan(sql)
        except KleeneError as error:
            return error.render()
        raise AssertionError(f"no error: {sql}")
