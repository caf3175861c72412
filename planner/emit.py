"""A plan as one plain DuckDB statement: calls become lookup functions, tagged with the statement's number."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.callplan import CallPlan, Site
from kleene.planner.calls import (
    Call,
    KeptRows,
    Lack,
    Ready,
    Round,
    Route,
    Seen,
    all_in,
    carrier_kind,
    carrier_type,
    copied,
    nodes,
)
from kleene.planner.counting import reach_both_sides
from kleene.planner.dialect import CallSQL
from kleene.planner.evaluation import flat, followed
from kleene.planner.routing import as_written, routed
from kleene.planner.specs import Volatility

OURS = (Call, Ready, Round, Seen, KeptRows)


def emit(
    plan: CallPlan, statement: str, *, suffix: str = "", pretty: bool = False, dry: bool = False, inline: bool = False
) -> str:
    """The DuckDB text of a plan. ``statement`` is the statement's number in site names, ``suffix`` the engine's on this instance.

    ``dry``: for counting; a call on demand becomes NULL, so that nothing is sent. ``inline``: what is kept is read where it stands, for a text
    that runs without the temp tables.
    """
    root = exp.Tuple(expressions=[copied(plan.tree)])
    queries = {kept.number: kept.query for kept in plan.kept} if inline else {}
    while queries and (found := all_in(root, KeptRows)):
        for place in found:
            place.replace(exp.Subquery(this=copied(queries[int(place.args["this"])])))
    if dry:
        reach_both_sides(root)
    routes = {route.number for route in plan.routes}
    for route in [n for n in nodes(root) if isinstance(n, Route)]:
        if int(route.args["this"]) in routes:
            route.replace(routed(route, statement, suffix))
        else:
            waved = next((s.site for s in plan.stops if s.number == route.args.get("stop")), None)
            route.replace(as_written(route, waved))
    ours = [n for n in nodes(root) if isinstance(n, OURS)]
    before_others = followed(n for n in ours if isinstance(n, Call))
    for node in ours:  # one walk: each is replaced where it stands, with what it holds
        if isinstance(node, Call | Ready):
            made = _function(node, plan.site(node.site), statement, suffix, dry=dry)
            node.replace(flat(made) if id(node) in before_others else made)
        elif isinstance(node, Round):
            tag = exp.Literal.string(f"{statement}:r{node.args['this']}")
            node.replace(exp.Anonymous(this=f"kleene_round{suffix}", expressions=[tag, node.expression]))
        elif isinstance(node, KeptRows):
            node.replace(_kept_table(int(node.args["this"]), statement, suffix))
        elif not plan.stops:  # a plan that went on demand
            node.replace(exp.Paren(this=node.expression))
        else:
            tag = exp.Literal.string(f"{statement}:s{node.args['this']}")
            arguments = [tag, node.args["group"], node.args["order"], node.expression]
            node.replace(exp.Anonymous(this=f"kleene_seen{suffix}", expressions=arguments))
    return str(root.expressions[0].sql(CallSQL, pretty=pretty, copy=False))


def emit_kept(plan: CallPlan, statement: str, *, suffix: str = "") -> list[tuple[str, str]]:
    """For each block that is kept, in order: the name of its temp table, and the query that fills it."""
    found = []
    for kept in plan.kept:
        root = exp.Tuple(expressions=[copied(kept.query)])
        _name_kept(root, statement, suffix)
        name = _kept_table(kept.number, statement, suffix).sql(CallSQL)
        found.append((name, str(root.expressions[0].sql(CallSQL, copy=False))))
    return found


def _name_kept(root: exp.Expr, statement: str, suffix: str) -> None:
    for kept in [n for n in nodes(root) if isinstance(n, KeptRows)]:
        kept.replace(_kept_table(int(kept.args["this"]), statement, suffix))


def _kept_table(number: int, statement: str, suffix: str) -> exp.Table:
    """Spelled out in full: by its bare name it would hide a table of the user's. The statement's number and the engine's suffix make it one
    that no other statement on this connection uses."""
    return exp.table_(f"kleene_kept_{statement}_{number}{suffix}", db="main", catalog="temp")


def _function(node: Call | Ready, site: Site, statement: str, suffix: str, *, dry: bool) -> exp.Expr:
    name = f"kleene_{'lack' if isinstance(node, Lack) else 'ready'}{suffix}"
    if isinstance(node, Call):
        verb = "peek" if node.args.get("peek") else "get"
        if site.demand is not None:
            if dry:
                return exp.Cast(this=exp.Null(), to=carrier_kind(carrier_type(node)))
            verb = "row" if site.volatility is Volatility.VOLATILE else "call"
        name = f"kleene_{verb}_{site.spec.answer.carrier.value}{suffix}"
    elif site.demand is not None:
        return exp.true()  # what is asked on demand is always ready
    tag = exp.Literal.string(f"{statement}:{site.number}")
    stop = node.args.get("stop")
    if stop is not None and site.demand is None:
        name = name.replace("kleene_get_", "kleene_wave_").replace("kleene_ready", "kleene_wave_ready")
        where = [exp.Literal.string(f"{statement}:s{stop}"), node.args["group"], node.args["order"]]
        return exp.Anonymous(this=name, expressions=[tag, *where, *node.expressions])
    return exp.Anonymous(this=name, expressions=[tag, *node.expressions])
