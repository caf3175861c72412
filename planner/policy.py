"""What a model's statement may touch: deny by default, judged on the tree.

A model's text runs on a locked DuckDB instance, which stops files and settings. This module stops what a lock does not: functions that
wait, look around or build queries, other sessions' schemas, macros that shadow Kleene's names. A host's own statements are not checked.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from importlib import resources
from typing import NoReturn

import attrs
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from kleene.planner import nodes
from kleene.planner.calls import all_in
from kleene.planner.dialect import CallSQL, function_name
from kleene.planner.errors import PolicyError, did_you_mean
from kleene.planner.foreign import NO_MACRO, in_duckdb
from kleene.planner.settings import setting_key
from kleene.planner.statements import Statement, span_of

# calls that DuckDB's grammar makes by itself, beside the functions it lists
SYNTAX = frozenset(
    {
        *(
            "coalesce",
            "columns",
            "try",
            "grouping",
            "grouping_id",
            "map",
            "to_map",
            "struct",
            "position",
            "date_part",
            "unnest",
        ),
        *(
            "percentile_cont",
            "percentile_disc",
            "current_date",
            "current_time",
            "current_timestamp",
            "localtime",
            "localtimestamp",
        ),
    }
)
RESERVED_PREFIX = "kleene_"
# DuckDB's names that a model may give to a function of its own: good names, and none that it could call otherwise
FREE_NAMES = frozenset({"summary", "stats", "combine", "switch"})
_HINTS: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], str, str], ...] = (
    ((exp.Attach, exp.Detach), "ATTACH and DETACH", "Read the tables you were given; SHOW TABLES lists them."),
    (exp.Copy, "COPY", "Use INSERT INTO a table, or the tool write_file where you have it."),
    (exp.Pragma, "PRAGMA", "Use DESCRIBE table or SHOW TABLES."),
    (exp.Set, "SET of DuckDB's settings", "Kleene's own keys can be set, for example SET effort = 'low'."),
    (exp.Use, "USE", "Name your tables without a schema."),
    (exp.Alter, "ALTER", "Use CREATE OR REPLACE TABLE t AS SELECT ..."),
    (exp.Merge, "MERGE", "Use UPDATE and INSERT INTO ... SELECT."),
    (exp.TruncateTable, "TRUNCATE", "Use DELETE FROM t."),
    ((exp.Transaction, exp.Commit, exp.Rollback), "a transaction", "Each statement is one transaction by itself."),
    (exp.Install, "INSTALL", "Everything that can be used is loaded."),
    (exp.Comment, "COMMENT", "Leave it out."),
    (exp.Analyze, "ANALYZE", "Leave it out."),
    ((nodes.Prepare, nodes.Execute), "PREPARE and EXECUTE", "Write the statement itself."),
    (exp.Into, "SELECT INTO", "Use CREATE TABLE t AS SELECT ..."),
)
_FILES = ("files", "lines", "grep", "read", "search")


@attrs.frozen
class AllowList:
    """DuckDB's function names in lower case: those a model may call in expressions, in FROM, and those it may not."""

    scalars: frozenset[str]
    tables: frozenset[str]
    denied: frozenset[str]


def load_allow_list() -> AllowList:
    """Read ``allowed_functions.txt``, which scripts/gen_allowed_functions.py writes."""
    text = resources.files("kleene.planner").joinpath("allowed_functions.txt").read_text("utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    of = {
        kind: frozenset(name for k, name in rows if k == kind)
        for kind in ("scalar", "aggregate", "window", "table", "denied")
    }
    return AllowList(of["scalar"] | of["aggregate"] | of["window"] | SYNTAX, of["table"], of["denied"])


def check_model(
    statement: Statement,
    *,
    functions: Collection[str],
    tables: Callable[[str], bool],
    writable: Callable[[str], bool] | None = None,
    allow_list: AllowList | None = None,
) -> None:
    """Raise ``PolicyError``, with the place and what works instead, unless a model may run this statement.

    ``functions`` are Kleene's calls and the tools this session may use, and the functions it defined; ``tables`` says whether a plain
    table name may be read, ``writable`` whether it may be written or dropped (default: what may be read). Names are compared in lower
    case. That a budget is only lowered is checked where settings are set (``kleene.own``).
    """
    allow = allow_list or load_allow_list()
    known = frozenset(f.lower() for f in functions)
    _Check(statement, allow, known, tables, writable or tables).run()


class _Check:
    """One walk over a statement's tree."""

    def __init__(
        self,
        statement: Statement,
        allow: AllowList,
        functions: frozenset[str],
        tables: Callable[[str], bool],
        writable: Callable[[str], bool],
    ) -> None:
        self.statement = statement
        self.allow = allow
        self.functions = functions
        self.tables = tables
        self.writable = writable
        self.targets: set[int] = set()

    def run(self) -> None:
        try:
            self._run()
        except RecursionError:
            self._refuse("this statement is nested too deeply", "Split it: CREATE TABLE ... AS for its parts.")

    def _run(self) -> None:
        tree = self.statement.tree
        if tree is None:
            reason = self.statement.unreadable.message if self.statement.unreadable else "this statement cannot be read"
            hint = f"Use SELECT, CREATE TABLE ... AS, INSERT, UPDATE, DELETE or DROP TABLE. {self._unreadable_hint()}".rstrip()
            span = self.statement.unreadable.span if self.statement.unreadable else self.statement.span
            raise PolicyError(reason, hint=hint, span=span, source=self.statement.source)
        self._statement(tree)
        self._text(tree)

    def _unreadable_hint(self) -> str:
        first = self.statement.text.split(None, 1)[0].upper() if self.statement.text else ""
        words = {"SHOW": "DESCRIBE t shows a table's columns.", "LOAD": "Everything that can be used is loaded."}
        return words.get(first, "")

    def _refuse(self, what: str, hint: str, node: object = None) -> NoReturn:
        span = (span_of(self.statement, node) if isinstance(node, exp.Expr) else None) or self.statement.span
        raise PolicyError(what, hint=hint, span=span, source=self.statement.source)

    # -- statements

    def _statement(self, tree: exp.Expr) -> None:
        self._own(tree)
        if isinstance(tree, nodes.Explain):
            return self._statement(tree.this)
        if isinstance(tree, exp.Create):
            self._create(tree)
        elif isinstance(tree, (exp.Insert, exp.Update, exp.Delete)):
            self._target(tree.this, "written")
        elif isinstance(tree, exp.Drop):
            self._drop(tree)
        elif isinstance(tree, exp.Show):
            if tree.name.upper() != "TABLES" or tree.args.get("from_"):
                self._refuse(f"SHOW {tree.name} is not available here", "Use SHOW TABLES.")
        elif not isinstance(tree, (exp.Query, exp.Values, exp.Pivot, exp.Describe, exp.Summarize, nodes.OwnStatement)):
            self._refuse_kind(tree)
        self._visit(tree, frozenset())

    def _refuse_kind(self, node: exp.Expr) -> NoReturn:
        for kinds, word, hint in _HINTS:
            if isinstance(node, kinds):
                self._refuse(f"{word} is not available here", hint)
        self._refuse(
            f"{type(node).__name__.upper()} is not available here",
            "Use SELECT, CREATE TABLE ... AS, INSERT, UPDATE or DELETE.",
        )

    def _own(self, tree: exp.Expr) -> None:
        if isinstance(tree, (nodes.Prepare, nodes.Execute)):
            self._refuse_kind(tree)
        if isinstance(tree, nodes.SetKey | nodes.ResetKey):
            key = setting_key(tree.name)
            if key is not None and not key.may_model_set:
                self._refuse(f"{tree.name} is set by whoever started this session", "Go on without it.")
        if isinstance(tree, nodes.CallTool):
            if not isinstance(tree.this, exp.Identifier):
                self._refuse("a tool's name has no schema", "Write CALL tool(arguments).", tree.this)
            self._tool(tree.this.name, tree.this)
            if tree.args.get("table") is not None:
                self._made(tree.args["table"], replaced=bool(tree.args.get("replace")))
        if isinstance(tree, nodes.Calibrate):
            self._tool(tree.this.name, tree.this)
        if isinstance(tree, nodes.CreateAgent):
            for tool in tree.args.get("tools") or ():
                self._tool(tool.name, tool)
        if isinstance(tree, nodes.CreateFunction):
            self._create_function(tree)

    def _tool(self, name: str, node: exp.Expr) -> None:
        if name.lower() not in self.functions:
            self._unknown(name, node)

    def _create_function(self, node: nodes.CreateFunction) -> None:
        name = node.this.name.lower()
        taken = self.allow.scalars | self.allow.tables | (self.allow.denied - FREE_NAMES)
        if name in taken or name.startswith(RESERVED_PREFIX):
            self._refuse(
                f"{node.this.name} is the name of a function that is there already", "Choose another name.", node.this
            )
        if node.args["kind"] == "SHELL" and "shell" not in self.functions:
            self._refuse("AS SHELL is not available here", "Use AS PROMPT or AS SQL.", node.this)
        for option in ("proxy", "via"):
            if node.args.get(option):
                self._tool(node.args[option].name, node.args[option])

    def _create(self, node: exp.Create) -> None:
        kind = str(node.args.get("kind")).upper()
        if kind in ("FUNCTION", "MACRO"):
            self._refuse("a macro is not available here", NO_MACRO)
        if kind not in ("TABLE", "VIEW"):
            self._refuse(
                f"CREATE {kind} is not available here",
                "Use CREATE TABLE t AS SELECT ... or CREATE VIEW v AS SELECT ...",
            )
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        self._plain(target, "created")
        self._made(target, replaced=bool(node.args.get("replace")))

    def _made(self, target: exp.Expr, *, replaced: bool) -> None:
        name = target.name.lower()
        if name.startswith(RESERVED_PREFIX):
            self._refuse(f"names that begin with {RESERVED_PREFIX} are Kleene's", "Choose another name.", target)
        if _looks_like_file(name):
            self._refuse(f"{target.name} looks like a file", self._file_hint(), target)
        if replaced and self.tables(name) and not self.writable(name):
            self._refuse(f"{target.name} cannot be replaced", "Choose another name.", target)

    def _drop(self, node: exp.Drop) -> None:
        kind = str(node.args.get("kind")).upper()
        if kind not in ("TABLE", "VIEW"):
            self._refuse(f"DROP {kind} is not available here", "Use DROP TABLE t, DROP VIEW v or DROP FUNCTION f.")
        for target in node.args.get("tables") or [node.this]:
            if isinstance(target, exp.Table):
                self._target(target, "dropped", missing=bool(node.args.get("exists")))

    def _target(self, node: exp.Expr, verb: str, *, missing: bool = False) -> None:
        table = node.this if isinstance(node, exp.Schema) else node
        self._plain(table, verb)
        name = table.name.lower()
        if name.startswith(RESERVED_PREFIX) or not (self.writable(name) or (missing and not self.tables(name))):
            self._refuse(
                f"the table {table.name} cannot be {verb}",
                "Use a table that you created: CREATE TABLE t AS SELECT ...",
                table,
            )

    def _plain(self, table: exp.Expr, verb: str) -> None:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            self._refuse(f"only a table can be {verb}", "Name the table plainly.", table)
        if table.args.get("db") or table.args.get("catalog"):
            name = ".".join(p.name for p in table.parts)
            self._refuse(
                f"{name} is in a schema; only your own can be used", f"Write {table.name} without a schema.", table
            )
        if _looks_like_file(table.name):
            self._refuse(f"{table.name} looks like a file", self._file_hint(), table)
        if verb != "read":
            self.targets.add(id(table))

    # -- what stands inside

    def _visit(self, root: exp.Expr, visible: frozenset[str]) -> None:
        """Check a node and what is below it; ``visible`` are the names of the CTEs that are visible there."""
        stack = [(root, visible)]
        while stack:
            node, ctes = stack.pop()
            self._node(node, ctes)
            with_ = node.args.get("with_")
            if isinstance(with_, exp.With):
                ctes = self._with(with_, ctes)
            stack += [(child, ctes) for child in node.iter_expressions() if child is not with_]

    def _with(self, with_: exp.With, ctes: frozenset[str]) -> frozenset[str]:
        """A CTE sees those before it. Its own name is the CTE only in the second half of a recursive union; elsewhere it is a table."""
        for cte in with_.expressions:
            name = cte.alias.lower()
            body = cte.this
            if with_.args.get("recursive") and isinstance(body, exp.SetOperation):
                inner = body.args.get("with_")
                seen = self._with(inner, ctes) if isinstance(inner, exp.With) else ctes
                self._visit(body.this, seen)
                for child in body.iter_expressions():
                    if child is not inner and child is not body.this:
                        self._visit(child, seen | {name, f"recurring.{name}"})
            else:
                self._visit(body, ctes)
            ctes = ctes | {name}
        return ctes

    def _node(self, node: exp.Expr, ctes: frozenset[str]) -> None:
        if isinstance(node, (exp.Describe, exp.Summarize)):
            self._described(node)
        if isinstance(node, exp.Table):
            self._table(node, ctes)
        elif isinstance(node, (exp.Command, exp.Into)) or (isinstance(node, _NESTED_KINDS) and node.parent is not None):
            self._refuse_nested(node)
        else:
            name = function_name(node)
            place = node.parent if node.arg_key == "this" else None
            if name is not None and not isinstance(place, exp.Table):
                self._function(name, node, self.allow.tables if isinstance(place, exp.Lateral) else self.allow.scalars)

    def _described(self, node: exp.Expr) -> None:
        if not isinstance(node.this, (exp.Table, exp.Query, exp.Values)):
            self._refuse("only a table or a query can be described", "Use DESCRIBE t or SUMMARIZE t.", node)

    def _refuse_nested(self, node: exp.Expr) -> None:
        if isinstance(node.parent, nodes.Explain) or (
            isinstance(node, (exp.Describe, exp.Summarize)) and isinstance(node.parent, exp.Subquery)
        ):
            return
        self._refuse_kind(node)

    def _table(self, table: exp.Table, ctes: frozenset[str]) -> None:
        if id(table) in self.targets:
            return
        if isinstance(table.this, exp.Identifier):
            name = table.name.lower()
            qualified = table.args.get("db") is not None
            if qualified and f"{table.text('db').lower()}.{name}" in ctes and not table.args.get("catalog"):
                return
            if name in ctes and not qualified:
                return
            self._plain(table, "read")
            if not self.tables(name):
                self._refuse(f"there is no table {table.name} here", "SHOW TABLES lists the tables.", table)
            return
        name = function_name(table.this) or ""
        if table.args.get("db") or table.args.get("catalog") or not name:
            self._refuse("only tables and table functions can stand in FROM", "Name a table.", table)
        self._function(name, table.this, self.allow.tables)

    def _function(self, name: str, node: exp.Expr, allowed: frozenset[str]) -> None:
        if name in allowed or name in self.functions:
            return
        if name in self.allow.denied or name in self.allow.scalars or name in self.allow.tables:
            self._refuse(f"{name} is not available here", self._function_hint(name), node)
        self._unknown(name, node, allowed)

    def _unknown(self, name: str, node: exp.Expr, duckdbs: Iterable[str] = ()) -> NoReturn:
        # of DuckDB's 900 names some is a little like any other
        near = did_you_mean(name, self.functions) or did_you_mean(name, duckdbs, cutoff=0.75)
        guess = f"Did you mean {near}?" if near else "SHOW FUNCTIONS lists Kleene's functions and tools."
        hint = in_duckdb(name) or guess
        self._refuse(f"there is no function {name} here", hint, node)

    def _function_hint(self, name: str) -> str:
        if name in self.allow.tables:
            return f"{name} stands in FROM: SELECT ... FROM {name}(...)."
        if name in self.allow.scalars:
            return f"{name} stands in an expression: SELECT {name}(...)."
        if name.startswith(("read_", "parquet_", "sniff_")) or name == "glob":
            return self._file_hint()
        if name.startswith(("duckdb_", "pragma_", "pg_")):
            return "Use SHOW TABLES and DESCRIBE t."
        if name in ("query", "query_table"):
            return "Write the query itself, in parentheses."
        return "Write it without this function."

    def _file_hint(self) -> str:
        tools = [t for t in _FILES if t in self.functions]
        return (
            f"Files are reached through the tools {', '.join(tools)}."
            if tools
            else "Files cannot be reached here; use your tables."
        )

    def _text(self, tree: exp.Expr) -> None:
        """A second look, at the text that DuckDB gets: no denied function is called in it under any guise."""
        text = tree.sql(CallSQL, comments=False)
        called: Counter[str] = Counter()
        for token, after in itertools.pairwise(CallSQL().tokenize(text)):
            if after.token_type == TokenType.L_PAREN and token.token_type != TokenType.STRING:
                called[token.text.lower()] += 1
        # a table, alias or new function of that name with its columns: stats(a, b)
        for node in all_in(tree, exp.Schema, exp.TableAlias, nodes.CreateFunction):
            called[node.this.name.lower() if isinstance(node.this, exp.Expr) else ""] -= 1
        for name, count in called.items():
            if count > 0 and name in self.allow.denied and name not in self.functions:
                self._refuse(f"{name} is not available here", self._function_hint(name))


_NESTED_KINDS: tuple[type[exp.Expr], ...] = (
    exp.DML,
    exp.Create,
    exp.Drop,
    exp.Describe,
    exp.Summarize,
    exp.Show,
    exp.Set,
    exp.Pragma,
    exp.Copy,
    exp.Attach,
    exp.Detach,
    exp.Use,
    nodes.OwnStatement,
)


def _looks_like_file(name: str) -> bool:
    return any(mark in name for mark in "./\\:*?[")
