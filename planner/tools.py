"""Tools as SQL sees them: what a tool's declaration says, and its call made a call site or the query of a CALL's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs
from sqlglot import exp

from kleene.planner import nodes
from kleene.planner.arguments import arguments_of
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import PlanError
from kleene.planner.roles import rows_type
from kleene.planner.sessions import SEPARATOR
from kleene.planner.specs import AnswerType, CallSpec, FunctionSpec, Param, Template, Volatility
from kleene.planner.statements import Statement, span_of


def tool_function(
    name: str,
    params: tuple[Param, ...],
    required: int,
    columns: tuple[Param, ...],
    volatility: Volatility,
    description: str = "",
) -> FunctionSpec:
    """A tool as the catalog has it: a table function, or under CALL only where it is VOLATILE.

    >>> tool_function("files", (Param("glob", "VARCHAR"),), 1, (Param("path", "VARCHAR"),), Volatility.STABLE).signature()
    'files(glob VARCHAR) -> TABLE(path VARCHAR)'
    """
    return FunctionSpec(
        name,
        params,
        rows_type(columns),
        body="tool",
        volatility=volatility,
        table=columns,
        required=required,
        description=description,
    )


def has_effects(spec: FunctionSpec) -> bool:
    """Whether it runs only as a statement of its own."""
    return spec.body == "tool" and spec.volatility is Volatility.VOLATILE


def is_nested(kind: str) -> bool:
    """Whether values of the DuckDB type are lists, structs or maps (or JSON), which reach a tool as JSON.

    >>> is_nested("VARCHAR[]"), is_nested("STRUCT(a INTEGER)"), is_nested("DATE")
    (True, True, False)
    """
    return bool(re.match(r"(STRUCT|MAP|JSON|LIST|UNION)\b", kind.strip().upper())) or kind.rstrip().endswith("]")


def as_argument(value: exp.Expr, kind: str) -> exp.Expr:
    """The value as a tool's argument of this type: a nested one as JSON, any other as it is."""
    if not is_nested(kind):
        return value
    return exp.Anonymous(
        this="to_json", expressions=[exp.Cast(this=value.copy(), to=exp.DataType.build(kind, dialect=CallSQL))]
    )


def given_arguments(given: Mapping[str, exp.Expr], spec: FunctionSpec) -> dict[str, exp.Expr]:
    """The arguments without optional ones that are a plain NULL: an option left open."""
    required = {p.name.lower() for p in spec.params[: spec.required]}
    return {n: value for n, value in given.items() if n in required or not isinstance(value, exp.Null)}


def shaped(spec: FunctionSpec, given: Mapping[str, exp.Expr]) -> FunctionSpec:
    """The function as this call uses it: its template for the arguments that are given; the output of a command is read as text."""
    parts: list[str | int] = []
    for i in range(max(1, sum(p.name.lower() in given for p in spec.params))):
        parts += [SEPARATOR, i] if i else [i]
    answer = spec.answer if spec.body == "tool" else AnswerType("text", spec.answer.sql)
    return attrs.evolve(spec, template=Template(tuple(parts)), answer=answer)


def specified(call: CallSpec, spec: FunctionSpec, given: Mapping[str, exp.Expr]) -> CallSpec:
    """The call's specification: who answers is the tool, told which parameters its arguments are, and for a SHELL function the command."""
    names = ",".join(p.name for p in spec.params if p.name.lower() in given)
    command = f"\n{spec.text}" if spec.body == "shell" else ""
    return CallSpec(
        function=call.function,
        template=call.template,
        answer=call.answer,
        system=f"{spec.name}({names}){command}",
        session="tool",
    )


def parameters_of(call: CallSpec) -> tuple[str, ...]:
    """The names of the parameters that a tool call's arguments stand for, in order.

    >>> parameters_of(CallSpec("lines", Template((0,)), rows_type(()), system="lines(path,to)", session="tool"))
    ('path', 'to')
    """
    inside = (call.system or "()").partition("\n")[0].partition("(")[2][:-1]
    return tuple(inside.split(",")) if inside else ()


def command_of(call: CallSpec) -> str | None:
    """The command of a SHELL function's call, its holes unfilled; None for a tool's.

    >>> command_of(CallSpec("f", Template((0,)), rows_type(()), system="f(a)\\necho {a}", session="tool"))
    'echo {a}'
    """
    _, mark, command = (call.system or "").partition("\n")
    return command if mark else None


@attrs.frozen
class ToolCall:
    """``CALL tool(...) FROM q`` as planned: the tool, the parameters that are given, and the query of their values, one row a use.

    ``table`` is the name (as SQL) of a table that is made of the tool's rows, ``replace``: in place of one that there is.
    """

    spec: FunctionSpec
    given: tuple[Param, ...]
    query: exp.Select
    table: str | None = None
    replace: bool = False


def tool_call(tree: nodes.CallTool, spec: FunctionSpec, statement: Statement) -> ToolCall:
    """Raises ``PlanError`` for a function that has no effects, and for wrong arguments."""
    if not has_effects(spec):
        works = f"SELECT * FROM {spec.name}(...)" if spec.table is not None else f"SELECT {spec.name}(...)"
        raise PlanError(
            f"{spec.name} is no tool with effects; CALL is for those",
            hint=works,
            span=span_of(statement, tree.this) or statement.span,
            source=statement.source,
        )
    given = arguments_of(tree, spec, statement)
    params = tuple(p for p in spec.params if p.name.lower() in given)
    # Names of their own: an ORDER BY of the user's must not find an argument in place of a column.
    values = [
        exp.alias_(
            exp.Cast(this=given[p.name.lower()].copy(), to=exp.DataType.build(p.type, dialect=CallSQL)), f"kleene_{i}"
        )
        for i, p in enumerate(params)
    ]
    source = tree.args.get("source")
    query = exp.Select() if source is None else source.copy()
    query.set("expressions", values or [exp.alias_(exp.Literal.number(1), "kleene_0")])
    table = tree.args.get("table")
    made = None if table is None else table.sql(CallSQL, identify=True)
    return ToolCall(spec, params, query, made, bool(tree.args.get("replace")))
