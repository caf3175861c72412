"""The arguments of a call: by the parameters they are for, positional and named, and in the prompt that they make."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import all_in
from kleene.planner.errors import PlanError, did_you_mean
from kleene.planner.specs import CallSpec, FunctionSpec
from kleene.planner.statements import Statement, span_of


def arguments_of(node: exp.Expr, spec: FunctionSpec, statement: Statement) -> dict[str, exp.Expr]:
    """Parameter name (lower case) → expression, of positional and named arguments."""
    given: dict[str, exp.Expr] = {}
    for position, argument in enumerate(node.expressions):
        if isinstance(argument, exp.PropertyEQ | exp.Kwarg):
            name = argument.this.name.lower()
            if name not in {p.name.lower() for p in spec.params}:
                near = did_you_mean(name, (p.name for p in spec.params))
                raise PlanError(
                    f"{spec.name} has no argument {name}",
                    hint=f"did you mean {near}? {spec.signature()}" if near else spec.signature(),
                    span=span_of(statement, node),
                    source=statement.source,
                )
            value = argument.expression
        else:
            if position >= len(spec.params):
                raise arity_error(node, spec, statement)
            name, value = spec.params[position].name.lower(), argument
        if name in given:
            raise PlanError(
                f"{spec.name} is given {name} twice",
                hint=spec.signature(),
                span=span_of(statement, node),
                source=statement.source,
            )
        given[name] = value
    required = spec.params[: len(spec.params) if spec.required is None else spec.required]
    if any(p.name.lower() not in given for p in required):
        raise arity_error(node, spec, statement)
    return given


def arity_error(node: exp.Expr, spec: FunctionSpec, statement: Statement) -> PlanError:
    low = len(spec.params) if spec.required is None else spec.required
    high = len(spec.params)
    wanted = f"{low}" if low == high else f"{low} to {high}"
    return PlanError(
        f"{spec.name} takes {wanted} argument{'' if wanted == '1' else 's'}, {len(node.expressions)} given",
        hint=spec.signature(),
        span=span_of(statement, node),
        source=statement.source,
    )


def asked_text(spec: CallSpec, arguments: list[exp.Expr]) -> str:
    """The prompt of a call, with ``{column}`` where it holds a row's values: the same however tables are named."""
    given = [_shown(argument) for argument in arguments]
    return "".join(part if isinstance(part, str) else given[part] for part in spec.template.parts)


def _shown(node: exp.Expr) -> str:
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    if isinstance(node, exp.Literal):
        return node.name
    if isinstance(node, exp.DPipe):
        return _shown(node.left) + _shown(node.right)
    return "{" + ", ".join(dict.fromkeys(column.name.lower() for column in all_in(node, exp.Column))) + "}"
