"""Random tables and random queries with calls in all positions, drawn from any source of whole numbers (hypothesis, or a seed).

Rows of every query are determined: LIMIT stands under a total order, aggregates that depend on order have one, window frames are RANGE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

T = TypeVar("T")
Draw = Callable[[int, int], int]
COLUMNS = (("id", "int"), ("k", "int"), ("v", "text"), ("p", "bool"))
TABLES = ("a", "b", "e")
WORDS = ("x", "y", "", "é ☕", "x y", "1", "it''s")


@attrs.frozen
class Col:
    """A column that an expression may read: its SQL and type (int, text, bool)."""

    sql: str
    type: str


def tables(draw: Draw) -> list[str]:
    """Statements that (re)create the tables, small, with NULLs, duplicates, and now and then empty."""
    made = []
    for name in TABLES:
        made.append(f"CREATE OR REPLACE TABLE {name} (id INTEGER, k INTEGER, v VARCHAR, p BOOLEAN)")
        rows = []
        for number in range(draw(0, 7)):
            k = draw(0, 5)
            word = draw(0, len(WORDS))
            p = draw(0, 2)
            rows.append(
                f"({number}, {'NULL' if k == 5 else k}, "
                f"{'NULL' if word == len(WORDS) else repr_text(WORDS[word])}, {('true', 'false', 'NULL')[p]})"
            )
        if rows:
            made.append(f"INSERT INTO {name} VALUES {', '.join(rows)}")
    return made


def repr_text(word: str) -> str:
    return f"'{word}'"


class Queries:
    """Draws queries. ``calls`` is the chance of a call, in tenths, where a condition may be one; 0 draws queries without calls."""

    def __init__(self, draw: Draw, calls: int = 5):
        self.draw = draw
        self.calls = calls
        self.names = 0

    # -- choices ---------------------------------------------------------------------------------------------------------------------------

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.draw(0, len(choices) - 1)]

    def chance(self, tenths: int) -> bool:
        return self.draw(0, 9) >= 10 - tenths

    def alias(self) -> str:
        self.names += 1
        return f"t{self.names}"

    # -- expressions -----------------------------------------------------------------------------------------------------------------------

    def column(self, scope: Sequence[Col], kind: str) -> str | None:
        fitting = [c.sql for c in scope if c.type == kind]
        return self.one(fitting) if fitting else None

    def expr(self, kind: str, scope: Sequence[Col], depth: int, *, pure: bool = False, queries: bool = True) -> str:
        return {"bool": self.boolean, "text": self.text, "int": self.integer}[kind](
            scope, depth, pure=pure, queries=queries
        )

    def call(self, names: str, scope: Sequence[Col], depth: int, queries: bool) -> str:
        return f"{self.one(names)}({self.text(scope, max(0, depth - 1), queries=queries)})"

    def boolean(self, scope: Sequence[Col], depth: int, *, pure: bool = False, queries: bool = True) -> str:
        pure = pure or not self.calls

        def inner(kind: str = "bool", down: int = 1) -> str:
            return self.expr(kind, scope, depth - down, pure=pure, queries=queries)

        if depth <= 0:
            if not pure and self.chance(self.calls):
                return self.call("fgq", scope, 0, queries)
            column = self.column(scope, "bool")
            return column if column is not None and self.chance(5) else f"{self.integer(scope, 0, pure=True)} < 3"
        choice = self.draw(0, 19)
        if choice == 0:
            return inner(down=depth)
        if choice in (1, 2) and not pure:
            return self.call("fgq", scope, depth, queries)
        if choice in (3, 4, 5):
            return f"({inner()} AND {inner()})"
        if choice in (6, 7):
            return f"({inner()} OR {inner()})"
        if choice == 8:
            return f"(NOT {inner()})"
        if choice == 9:
            return f"({inner(self.one(('bool', 'text')))} IS {self.one(('NULL', 'NOT NULL'))})"
        if choice == 10:
            return f"({inner()} IS {self.one(('TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE'))})"
        if choice == 11:
            return f"(CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END)"
        if choice == 12:
            return f"COALESCE({inner()}, {inner()})"
        if choice == 13:
            return f"({inner('text')} = {inner('text')})"
        if choice == 14:
            return f"({inner('text')} {self.one(('IN', 'NOT IN'))} ({inner('text')}, 'a', 'x'))"
        if choice == 15 and not pure:
            return f"(s({inner('text')}) > 0.4)"
        if choice == 16:
            return f"({inner('text')} IS {self.one(('', 'NOT '))}DISTINCT FROM {inner('text')})"
        if choice in (17, 18, 19) and queries and depth > 1:
            return self.predicate(scope, depth - 1, pure)
        return f"({inner('int')} {self.one(('<', '=', '>='))} {inner('int')})"

    def predicate(self, scope: Sequence[Col], depth: int, pure: bool) -> str:
        """EXISTS, IN, ALL or ANY over a subquery, correlated or not."""
        choice = self.draw(0, 3)
        source, columns = self.table()
        inside = [*columns, *scope] if self.chance(6) else columns
        where = self.boolean(inside, depth, pure=pure, queries=False)
        if self.chance(5) and scope:
            where = f"{self.integer(columns, 0, pure=True)} = {self.integer(scope, 0, pure=True)} AND {where}"
        if choice <= 1:
            return f"({self.one(('', 'NOT '))}EXISTS (SELECT 1 FROM {source} WHERE {where}))"
        item = self.text(columns, 1, pure=pure, queries=False)
        left = self.text(scope, 1, pure=pure, queries=False)
        if choice == 2:
            return f"({left} {self.one(('IN', 'NOT IN'))} (SELECT {item} FROM {source} WHERE {where}))"
        return (
            f"({left} {self.one(('= ANY', '<> ALL', '> ALL', '<= ANY'))} (SELECT {item} FROM {source} WHERE {where}))"
        )

    def text(self, scope: Sequence[Col], depth: int, *, pure: bool = False, queries: bool = True) -> str:
        pure = pure or not self.calls

        def inner(kind: str = "text") -> str:
            return self.expr(kind, scope, depth - 1, pure=pure, queries=queries)

        if depth <= 0:
            column = self.column(scope, "text")
            if column is not None and self.chance(7):
                return column
            return self.one(("'a'", "'x'", f"('n' || {self.integer(scope, 0, pure=True)})"))
        choice = self.draw(0, 11)
        if choice <= 1 and not pure:
            return self.call("hw", scope, depth, queries)
        if choice == 2:
            return f"({inner()} || {inner()})"
        if choice == 3:
            return f"COALESCE({inner()}, {inner()})"
        if choice == 4:
            return f"(CASE WHEN {inner('bool')} THEN {inner()} ELSE {inner()} END)"
        if choice == 5:
            return f"CAST({inner('int')} AS VARCHAR)"
        if choice == 6:
            return f"{self.one(('upper', 'trim', 'lower'))}({inner()})"
        if choice == 7:
            return f"concat({inner()}, {inner()})"
        if choice == 8:
            return f"CAST({inner('bool')} AS VARCHAR)"
        if choice == 9 and queries and depth > 1:
            source, columns = self.table()
            inside = [*columns, *scope] if self.chance(4) else columns
            where = self.boolean(inside, depth - 1, pure=pure, queries=False)
            return f"(SELECT max({self.text(columns, 1, pure=pure, queries=False)}) FROM {source} WHERE {where})"
        if choice == 10:
            return f"nullif({inner()}, {inner()})"
        return self.text(scope, 0)

    def integer(self, scope: Sequence[Col], depth: int, *, pure: bool = False, queries: bool = True) -> str:
        def inner(kind: str = "int") -> str:
            return self.expr(kind, scope, depth - 1, pure=pure, queries=queries)

        if depth <= 0:
            column = self.column(scope, "int")
            return column if column is not None and self.chance(8) else self.one(("1", "2", "0"))
        choice = self.draw(0, 6)
        if choice == 0:
            return f"length({inner('text')})"
        if choice == 1:
            return f"(CASE WHEN {inner('bool')} THEN {inner()} END)"
        if choice == 2:
            return f"({inner()} + {inner()})"
        if choice == 3:
            return f"COALESCE(TRY_CAST({inner('text')} AS INTEGER), {inner()})"
        if choice == 4 and queries and depth > 1:
            source, columns = self.table()
            inside = [*columns, *scope] if self.chance(5) else columns
            where = self.boolean(inside, depth - 1, pure=pure, queries=False)
            return f"(SELECT count(*) FROM {source} WHERE {where})"
        return self.integer(scope, 0)

    # -- sources ---------------------------------------------------------------------------------------------------------------------------

    def table(self) -> tuple[str, list[Col]]:
        name = self.alias()
        return f"{self.one(TABLES)} {name}", [Col(f"{name}.{c}", t) for c, t in COLUMNS]

    def source(self, depth: int, ctes: Sequence[str]) -> tuple[str, list[Col]]:
        choice = self.draw(0, 9)
        name = self.alias()
        columns = [Col(f"{name}.{c}", t) for c, t in COLUMNS]
        if choice <= 5 or depth <= 0:
            return self.table()
        if choice == 6 and ctes:
            return f"{self.one(ctes)} {name}", columns
        if choice == 7:
            rows = ", ".join(f"({i}, {self.draw(0, 3)}, '{self.one(('x', 'y'))}', true)" for i in range(2))
            return f"(VALUES {rows}) {name}(id, k, v, p)", columns
        return f"({self.relation(depth - 1, ctes)}) {name}", columns

    def relation(self, depth: int, ctes: Sequence[str] = ()) -> str:
        """A query with the columns id, k, v, p: a source for others."""
        if depth > 0 and self.chance(2):
            operator = self.one(("UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
            return f"{self.relation(depth - 1, ctes)} {operator} {self.relation(depth - 1, ctes)}"
        source, scope = self.joined(depth, ctes)
        choice = self.draw(0, 9)
        where = f" WHERE {self.boolean(scope, 2)}" if self.chance(7) else ""
        if choice <= 6:
            items = [f"{self.expr(kind, scope, self.draw(0, 2))} AS {name}" for name, kind in COLUMNS]
            distinct = "DISTINCT " if self.chance(1) else ""
            tail = ""
            if self.chance(2):
                tail = f" QUALIFY {self.windowed(scope)} {self.one(('<', '>='))} {self.draw(1, 2)}"
            elif self.chance(1):
                return (
                    f"(SELECT {distinct}{', '.join(items)} FROM {source}{where} ORDER BY ALL LIMIT {self.draw(0, 4)})"
                )
            return f"SELECT {distinct}{', '.join(items)} FROM {source}{where}{tail}"
        return self.grouped(source, scope, where)

    def grouped(self, source: str, scope: list[Col], where: str) -> str:
        key = self.text(scope, self.draw(0, 2))
        group = f" GROUP BY {key}" if self.chance(8) else ""
        outside: list[Col] = [Col(key, "text")] if group else []
        outside += [Col(self.aggregate(scope), "int"), Col(self.text_aggregate(scope), "text")]
        having = f" HAVING {self.boolean(outside, 1, queries=False)}" if self.chance(5) else ""
        items = [f"{self.expr(kind, outside, self.draw(0, 1), queries=False)} AS {name}" for name, kind in COLUMNS]
        return f"SELECT {', '.join(items)} FROM {source}{where}{group}{having}"

    def aggregate(self, scope: Sequence[Col]) -> str:
        choice = self.draw(0, 3)
        filtered = f" FILTER (WHERE {self.boolean(scope, 1, queries=False)})" if self.chance(4) else ""
        if choice == 0:
            return f"count(*){filtered}"
        if choice == 1:
            return f"sum({self.integer(scope, 1, queries=False)}){filtered}"
        if choice == 2:
            return f"count(DISTINCT {self.text(scope, 1, queries=False)}){filtered}"
        return f"count({self.text(scope, 1, queries=False)}){filtered}"

    def text_aggregate(self, scope: Sequence[Col]) -> str:
        filtered = f" FILTER (WHERE {self.boolean(scope, 1, queries=False)})" if self.chance(3) else ""
        item = self.text(scope, 1, queries=False)
        if self.chance(5):
            return f"max({item}){filtered}"
        return f"string_agg({item}, ',' ORDER BY {item}){filtered}"

    def windowed(self, scope: Sequence[Col]) -> str:
        part = f"PARTITION BY {self.text(scope, 1, queries=False)} " if self.chance(6) else ""
        order = f"ORDER BY {self.integer(scope, 0)}, {self.text(scope, 1, queries=False)}"
        function = self.one(("rank()", "count(*)", f"count({self.text(scope, 1, queries=False)})", "dense_rank()"))
        return f"{function} OVER ({part}{order})"

    def joined(self, depth: int, ctes: Sequence[str]) -> tuple[str, list[Col]]:
        source, scope = self.source(depth, ctes)
        for _ in range(self.one((0, 0, 1, 1, 2)) if depth > 0 else 0):
            right, columns = self.source(depth - 1, ctes)
            kind = self.one(
                (
                    "JOIN",
                    "JOIN",
                    "LEFT JOIN",
                    "RIGHT JOIN",
                    "FULL JOIN",
                    "CROSS JOIN",
                    "SEMI JOIN",
                    "ANTI JOIN",
                    "LATERAL",
                )
            )
            if kind == "CROSS JOIN":
                source += f" CROSS JOIN {right}"
                scope = [*scope, *columns]
            elif kind == "LATERAL":
                inside, own = self.table()
                name = self.alias()
                items = ", ".join(f"{self.expr(t, own, 1, queries=False)} AS {c}" for c, t in COLUMNS)
                where = f"{self.integer(own, 0, pure=True)} = {self.integer(scope, 0, pure=True)}"
                source += f", LATERAL (SELECT {items} FROM {inside} WHERE {where}) {name}"
                scope = [*scope, *(Col(f"{name}.{c}", t) for c, t in COLUMNS)]
            else:
                condition = f"{self.column(scope, 'int')} = {self.column(columns, 'int')}"
                if self.chance(4):
                    condition += f" AND {self.boolean([*scope, *columns], 1, queries=False)}"
                source += f" {kind} {right} ON {condition}"
                if kind not in ("SEMI JOIN", "ANTI JOIN"):
                    scope = [*scope, *columns]
        return source, scope

    # -- whole queries ---------------------------------------------------------------------------------------------------------------------

    def query(self, depth: int = 2) -> str:
        ctes: list[str] = []
        defined = []
        for _ in range(self.one((0, 0, 0, 1, 2))):
            name = f"c{len(ctes) + 1}"
            materialized = self.one(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
            defined.append(f"{name} AS {materialized}({self.relation(1, ctes)})")
            ctes.append(name)
        body = self.relation(depth, ctes)
        return (f"WITH {', '.join(defined)} " if defined else "") + body


class WideQueries(Queries):
    """Also what found faults once: names of the select list in its other clauses, grouping sets, quoted functions and methods, the name of an
    outer table inside a subquery."""

    def call(self, names: str, scope: Sequence[Col], depth: int, queries: bool) -> str:
        name = self.one(names)
        argument = self.text(scope, max(0, depth - 1), queries=queries)
        return self.one(
            (f"{name}({argument})", f"{name}({argument})", f'"{name.upper()}"({argument})', f"({argument}).{name}()")
        )

    def relation(self, depth: int, ctes: Sequence[str] = ()) -> str:
        return self.named(depth, ctes) if self.chance(3) else super().relation(depth, ctes)

    def named(self, depth: int, ctes: Sequence[str]) -> str:
        source, scope = self.joined(depth, ctes)
        name = self.alias()
        known: list[Col] = []
        items = []
        for column, kind in COLUMNS:
            items.append(
                f"{self.expr(kind, [*scope, *known, *known], self.draw(1, 2), queries=False)} AS {name}_{column}"
            )
            known.append(Col(f"{name}_{column}", kind))
        where = f" WHERE {self.boolean([*scope, *known], 2, queries=False)}" if self.chance(7) else ""
        order = ""
        if self.chance(4):
            keys = ", ".join(c.sql for c in known)
            order = f" ORDER BY lower({self.text(known, 1, pure=True, queries=False)}), {keys} LIMIT {self.draw(0, 4)}"
        outer = ", ".join(f"{c.sql} AS {column}" for c, (column, _) in zip(known, COLUMNS, strict=True))
        return f"SELECT {outer} FROM (SELECT {', '.join(items)} FROM {source}{where}{order}) {name}"

    def grouped(self, source: str, scope: list[Col], where: str) -> str:
        plain = super().grouped(source, scope, where)
        head, by, rest = plain.rpartition(" GROUP BY ")
        if not by or not self.chance(3):
            return plain
        key, having, condition = rest.partition(" HAVING ")
        sets = self.one((f"ROLLUP ({key})", f"GROUPING SETS (({key}), ())", f"GROUPING SETS (({key}), ({key}))"))
        return f"{head}{by}{sets}{having}{condition}"

    def predicate(self, scope: Sequence[Col], depth: int, pure: bool) -> str:
        outer = {c.sql.partition(".")[0] for c in scope if "." in c.sql}
        if not outer or not self.chance(2):
            return super().predicate(scope, depth, pure)
        name, inside = self.one(sorted(outer)), self.alias()
        columns = [Col(f"{inside}.{c}", t) for c, t in COLUMNS]
        where = f"{inside}.id = {name}.id AND {self.boolean(columns, depth, pure=pure, queries=False)}"
        below = f"(SELECT {name}.id, {name}.k, {name}.v, {name}.p FROM {self.one(TABLES)} {name}) {inside}"
        return f"({self.one(('', 'NOT '))}EXISTS (SELECT 1 FROM {below} WHERE {where}))"


__all__ = ["Col", "Draw", "Queries", "WideQueries", "tables"]
