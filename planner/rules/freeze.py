"""freeze: what changes from run to run reads the same in every run of a statement.

    now() = CAST('<the time the statement began>' AS TIMESTAMPTZ)
    SELECT f(x) FROM q USING SAMPLE n = SELECT f(x) FROM kept        kept = n rows of q, drawn once; random(), uuid() in rows alike

Clocks become literals. Rows that are drawn by chance are kept in temp tables before the first run (``planner.freezing``, with what
``materialise`` keeps), so that their calls are asked side by side, priced before they are paid, and stopped by LIMITs as all others are. Where
a random value stands in a call's own argument, in a write, or something has an effect (``nextval``), and in a transaction of the user's, calls are made on
demand instead, row by row.

Side conditions: the statement makes calls (others run once). The value is DuckDB's own, taken in the statement's transaction, so that
inside the user's transaction it is the transaction's. Without it ``llm('Today is ' || today())`` never reaches a fixed point across midnight,
and ``now()`` in an argument asks anew in every run.
"""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, PlanContext
from kleene.planner.calls import copied, nodes
from kleene.planner.dialect import CallSQL, function_name
from kleene.planner.volatile import is_clock


def freeze(plan: CallPlan, context: PlanContext) -> CallPlan:
    if not any(is_clock(n) for n in nodes(plan.tree)):
        return plan
    tree = copied(plan.tree)
    values = context.relations.clock()
    for node in [n for n in tree.walk() if is_clock(n)]:
        name = function_name(node) or "now"
        text, kind = values.get(name, values["now"])
        literal: exp.Expr = exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect=CallSQL))
        parent = node.parent
        if isinstance(parent, exp.Select) and node.arg_key == "expressions":
            literal = exp.alias_(literal, _label(node), quoted=True)
        node.replace(literal)
    return plan.changed(tree, "freeze")


def _label(node: exp.Expr) -> str:
    name = function_name(node) or "now"
    return f"{name}()" if isinstance(node, exp.Anonymous) else name
