"""``mcp serve``: the engine that other agents ask, opened as their trust has it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import attrs

from kleene.cli.invocation import EngineLike, Invocation

if TYPE_CHECKING:
    from kleene.planner.specs import BudgetLimits

STORE = "serve.duckdb"
WALL_S = 600.0
TOKEN = "KLEENE_MCP_TOKEN"


def serve(inv: Invocation) -> int:
    """Serve until the caller closes stdin, or until it is interrupted."""
    from kleene.cli.exits import UsageError
    from kleene.mcp.servers import require_library
    from kleene.runs.grants import granted

    require_library("it is needed to serve")
    from kleene.mcp.serving import Rules, serve_http, serve_stdio

    args = inv.args
    token = inv.terminal.environ.get(TOKEN)
    if args.http is not None and not is_loopback(args.host) and not token:
        raise UsageError(
            f"--host {args.host} lets other machines ask", hint=f"set {TOKEN}: callers send it as a bearer token"
        )
    engine = opened(inv)
    try:
        state = engine.state
        allow = [n for text in args.allow or () for n in text.split(",") if n.strip()]
        servers = None if engine.tools is None else engine.tools.groups()
        state.catalog = granted(state.catalog, allow, approved=False, servers=servers)
        rules = Rules(
            max_rows=max(1, args.max_rows),
            wall_s=args.budget_wall or WALL_S,
            writes=args.write or args.database == ":memory:",
            allow=tuple(allow),
        )
        if args.http is None:
            serve_stdio(engine, rules)
        else:
            serve_http(engine, rules, args.host, args.http, token, inv.terminal.say)
    finally:
        engine.close()
    return 0


def opened(inv: Invocation) -> EngineLike:
    """The engine: a store of its own, since it runs for long and several agents may each start one; in memory where that is taken."""
    from kleene.planner.errors import StoreLocked

    args = inv.args
    options: dict[str, Any] = {
        "trust": "model",
        "locked": True,
        "read_only": args.database != ":memory:" and not args.write,
        "budget": budget_of(inv),
        "mcp": args.mcp if args.mcp != "off" else None,  # the user's own servers may be this one
    }
    if args.store:
        return inv.open(args.database, **options)
    try:
        return inv.open(args.database, **options, store=str(inv.store.with_name(STORE)))
    except StoreLocked:
        inv.terminal.say("note: another server holds the store of this workspace: answers are kept in memory")
        return inv.open(args.database, **options, store=":memory:")


def budget_of(inv: Invocation) -> BudgetLimits:
    """What all callers have together; the wall is each request's own."""
    from kleene.cli.handlers import run_budget
    from kleene.planner.errors import NoModel
    from kleene.planner.specs import BudgetLimits

    try:
        return attrs.evolve(run_budget(inv), wall=None)
    except NoModel:
        inv.terminal.say("note: no model is configured: statements without calls can be served")
        return attrs.evolve(inv.budget or BudgetLimits(), wall=None)


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
