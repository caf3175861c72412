"""The syntax nodes of the statements that are CallSQL's own, and how each is printed.

A node keeps what was written, unchecked beyond its grammar: ``statements.function_spec`` and ``agent_spec`` check what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.generator import Generator


class OwnStatement(exp.Expression):
    """A statement that DuckDB does not know, or that Kleene looks at before DuckDB does (CALL, EXPLAIN, PREPARE, EXECUTE)."""


class CreateFunction(OwnStatement):
    """``CREATE [OR REPLACE] FUNCTION this(params) RETURNS returns | TABLE(columns) AS kind body`` and its options.

    ``this`` Identifier; ``params``, ``columns`` lists of ColumnDef; ``returns`` DataType; ``replace`` bool; ``kind`` "PROMPT", "SQL" or
    "SHELL"; ``body`` a string Literal, for SQL the query; ``model``, ``effort`` string Literals; ``batch`` number Literal or Var AUTO;
    ``volatility`` str; ``proxy``, ``via`` Identifiers; ``low``, ``high`` number Literals; ``via_negated`` bool.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "params": False,
        "returns": False,
        "columns": False,
        "replace": False,
        "kind": True,
        "body": True,
        "model": False,
        "effort": False,
        "batch": False,
        "volatility": False,
        "proxy": False,
        "low": False,
        "high": False,
        "via": False,
        "via_negated": False,
    }


class CreateAgent(OwnStatement):
    """``CREATE [OR REPLACE] AGENT this`` and its clauses.

    ``this`` Identifier; ``model``, ``effort``, ``prompt`` string Literals; ``tools`` list of Identifiers, empty for ``TOOLS ()``, None
    where the clause is absent; ``budget`` list of EQ(Var dimension, number Literal); ``turns`` number Literal; ``tables`` list of Identifiers;
    ``returns`` list of ColumnDefs.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "replace": False,
        "model": False,
        "effort": False,
        "tools": False,
        "no_tools": False,
        "budget": False,
        "turns": False,
        "tables": False,
        "returns": False,
        "prompt": False,
    }


class Calibrate(OwnStatement):
    """``CALIBRATE [FUNCTION] this [SAMPLE sample] [RECALL recall] [PRECISION precision] [CONFIDENCE confidence] FROM query``."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "sample": False,
        "recall": False,
        "precision": False,
        "confidence": False,
        "query": True,
    }


class CallTool(OwnStatement):
    """``[CREATE [OR REPLACE] TABLE table AS] CALL this(expressions) [FROM source]``.

    ``this`` Identifier, or Dot where the name is qualified; ``expressions`` the arguments, a named one as PropertyEQ; ``source`` a Select
    over the rows to call for: its projections are ``*`` and are to be replaced by the arguments. ``table`` Identifier, ``replace`` bool.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "source": False,
        "table": False,
        "replace": False,
    }


class SetKey(OwnStatement):
    """``SET this = expression``: ``this`` a Var (the key in lower case), ``expression`` a Literal (the value's text)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class ResetKey(OwnStatement):
    """``RESET this``: ``this`` a Var (the key in lower case)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Explain(OwnStatement):
    """``EXPLAIN [ANALYZE] [(FORMAT format)] this``: ``this`` the statement's own tree, ``analyze`` bool, ``format`` str in lower case."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "analyze": False, "format": False}


class Final(OwnStatement):
    """``FINAL(this)`` with ``this`` an expression, or ``FINAL FROM (query)`` with ``query`` a query; exactly one of the two."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "query": False}


class DropFunction(OwnStatement):
    """``DROP FUNCTION [IF EXISTS] this``: ``this`` Identifier, ``exists`` bool."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False}


class DropAgent(OwnStatement):
    """``DROP AGENT [IF EXISTS] this``: ``this`` Identifier, ``exists`` bool."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False}


class Show(OwnStatement):
    """``SHOW FUNCTIONS | AGENTS | BUDGET | SKILLS``: ``this`` a Var in upper case."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Prepare(OwnStatement):
    """``PREPARE this AS expression``: ``this`` Identifier, ``expression`` the statement's own tree."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Execute(OwnStatement):
    """``EXECUTE this(expressions)``: ``this`` Identifier, a named argument as PropertyEQ."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Power(exp.Pow):
    """``this ** expression``, kept apart from ``^`` because DuckDB names a column after the operator."""


class Caret(exp.Pow):
    """``this ^ expression``: the same power."""


class Positive(exp.Unary):
    """``+this``, which sqlglot would drop, and with it the column's name."""


def _options(generator: Generator, pairs: list[tuple[str, exp.Expr | None]]) -> str:
    return "".join(f" {word} {generator.sql(value)}" for word, value in pairs if value is not None)


def _defs(generator: Generator, columns: list[exp.Expr] | None) -> str:
    return ", ".join(f"{generator.sql(c, 'this')} {generator.sql(c, 'kind')}" for c in columns or ())


def _create_function(generator: Generator, node: exp.Expr) -> str:
    args = node.args
    body = generator.sql(node, "body")
    returns = f"TABLE({_defs(generator, args['columns'])})" if args.get("columns") else generator.sql(node, "returns")
    text = f"CREATE {'OR REPLACE ' if args.get('replace') else ''}FUNCTION {generator.sql(node, 'this')}"
    text += f"({_defs(generator, args.get('params'))}) RETURNS {returns} AS {args['kind']} "
    text += f"({body})" if args["kind"] == "SQL" else body
    text += _options(generator, [(k.upper(), args.get(k)) for k in ("model", "effort", "batch")])
    text += f" {args['volatility']}" if args.get("volatility") else ""
    if args.get("proxy"):
        text += f" PROXY {generator.sql(node, 'proxy')}"
        text += f" THRESHOLDS ({generator.sql(node, 'low')}, {generator.sql(node, 'high')})" if args.get("low") else ""
    if args.get("via"):
        text += f" VIA {'<> ' if args.get('via_negated') else ''}{generator.sql(node, 'via')}"
    return text


def _create_agent(generator: Generator, node: exp.Expr) -> str:
    args = node.args
    text = f"CREATE {'OR REPLACE ' if args.get('replace') else ''}AGENT {generator.sql(node, 'this')}"
    text += _options(generator, [("MODEL", args.get("model")), ("EFFORT", args.get("effort"))])
    if args.get("tools") or args.get("no_tools"):
        text += f" TOOLS ({', '.join(generator.sql(t) for t in args.get('tools') or ())})"
    if args.get("budget"):
        limits = [f"{b.name} {generator.sql(b, 'expression')}" for b in args["budget"]]
        text += f" BUDGET ({', '.join(limits)})"
    text += _options(generator, [("TURNS", args.get("turns"))])
    for word in ("tables", "returns"):
        if args.get(word):
            text += f" {word.upper()} ({', '.join(generator.sql(item) for item in args[word])})"
    return text + _options(generator, [("PROMPT", args.get("prompt"))])


def _calibrate(generator: Generator, node: exp.Expr) -> str:
    names = ("sample", "recall", "precision", "confidence")
    options = _options(generator, [(k.upper(), node.args.get(k)) for k in names])
    return f"CALIBRATE FUNCTION {generator.sql(node, 'this')}{options} FROM ({generator.sql(node, 'query')})"


def _call(generator: Generator, node: exp.Expr) -> str:
    source = node.args.get("source")
    table = node.args.get("table")
    made = (
        ""
        if table is None
        else f"CREATE {'OR REPLACE ' if node.args.get('replace') else ''}TABLE {generator.sql(table)} AS "
    )
    text = f"{made}CALL {generator.sql(node, 'this')}({', '.join(generator.sql(a) for a in node.expressions)})"
    return text if source is None else f"{text} {generator.sql(source).removeprefix('SELECT * ')}"


def _explain(generator: Generator, node: exp.Expr) -> str:
    form = f" (FORMAT {node.args['format']})" if node.args.get("format") else ""
    return f"EXPLAIN{' ANALYZE' if node.args.get('analyze') else ''}{form} {generator.sql(node, 'this')}"


def _final(generator: Generator, node: exp.Expr) -> str:
    query = node.args.get("query")
    return f"FINAL FROM ({generator.sql(query)})" if query is not None else f"FINAL({generator.sql(node, 'this')})"


def _drop(kind: str) -> Callable[[Generator, exp.Expr], str]:
    return lambda g, n: f"DROP {kind} {'IF EXISTS ' if n.args.get('exists') else ''}{g.sql(n, 'this')}"


def _execute(generator: Generator, node: exp.Expr) -> str:
    arguments = ", ".join(generator.sql(a) for a in node.expressions)
    return f"EXECUTE {generator.sql(node, 'this')}" + (f"({arguments})" if arguments else "")


PRINTERS: Mapping[type[exp.Expr], Callable[..., str]] = {
    CreateFunction: _create_function,
    CreateAgent: _create_agent,
    Calibrate: _calibrate,
    CallTool: _call,
    SetKey: lambda g, n: f"SET {n.name} = {g.sql(n, 'expression')}",
    ResetKey: lambda _, n: f"RESET {n.name}",
    Explain: _explain,
    Final: _final,
    DropFunction: _drop("FUNCTION"),
    DropAgent: _drop("AGENT"),
    Show: lambda _, n: f"SHOW {n.name}",
    Prepare: lambda g, n: f"PREPARE {g.sql(n, 'this')} AS {g.sql(n, 'expression')}",
    Execute: _execute,
    Power: lambda g, n: g.binary(n, "**"),
    Caret: lambda g, n: g.binary(n, "^"),
    Positive: lambda g, n: f"+{g.sql(n, 'this')}",
}
