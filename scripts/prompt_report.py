"""Print what a session's texts cost: the parts of the system prefix and, of a run in a store, the feedback of each turn, in tokens.

``python scripts/prompt_report.py [--store PATH] [--run RUN]``. Tokens are characters / 4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kleene.planner.catalog import Catalog
from kleene.planner.specs import BudgetLimits, FunctionSpec
from kleene.planner.tools import tool_function
from kleene.runs.world import tool_view
from kleene.session.prefix import Standing, prefix_parts, system_prefix
from kleene.session.text import tokens
from kleene.session.world import AgentView, CatalogView, ColumnView, FunctionView, TableView
from kleene.tools.setup import FILE_TOOLS
from kleene.tools.standard import READ_TOOLS


def standard_view() -> CatalogView:
    """What a root session with a context and a workspace with files has."""
    catalog = Catalog()

    def views(body: str) -> tuple[FunctionView, ...]:
        return tuple(view(f) for f in catalog.functions.values() if f.body == body)

    def view(spec: FunctionSpec) -> FunctionView:
        return FunctionView(spec.signature(), spec.description)

    return CatalogView(
        tables=(TableView("ctx", (ColumnView("ordinal", "BIGINT"), ColumnView("text", "VARCHAR")), 1_000),),
        model_calls=views("builtin"),
        sessions=views("session"),
        read_tools=tuple(
            tool_view(tool_function(t.name, t.params, t.required, t.columns, t.volatility, t.description))
            for t in READ_TOOLS
            if t.name in FILE_TOOLS
        ),
        agents=tuple(AgentView(a.name, a.description) for a in catalog.agents.values()),
    )


def parts_report() -> str:
    view, budget, standing = standard_view(), BudgetLimits(calls=200, dollars=1.0), Standing(max_depth=2)
    lines = [f"{name:24} {tokens(len(text)):6,}" for name, text in prefix_parts(view, budget, standing)]
    lines.append(f"{'in all':24} {tokens(len(system_prefix(view, budget, standing))):6,}")
    return "\n".join(lines)


def turns_report(store: Path, run: str | None) -> str:
    """The turns of a run's sessions: tokens of the model's reply and of what it was told."""
    import duckdb

    with duckdb.connect(str(store), read_only=True) as con:
        if run is None:
            row = con.execute("SELECT run FROM trace_runs ORDER BY started_at DESC LIMIT 1").fetchone()
            if row is None:
                return f"no run in {store}"
            run = str(row[0])
        rows = con.execute(
            "SELECT session, n, (length(reply) + 3) // 4, (length(result) + 3) // 4 FROM turns JOIN trace_sessions s USING (session) "
            "WHERE s.run = ? ORDER BY s.started_at, n",
            [run],
        ).fetchall()
    lines = [f"{'session':44} {'turn':>4} {'reply':>7} {'told':>7}"]
    lines += [f"{session:44} {n:4} {reply or 0:7,} {told or 0:7,}" for session, n, reply, told in rows]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store that no other process holds")
    parser.add_argument("--run", help="a run of it (default: the last)")
    args = parser.parse_args(argv)
    print(parts_report())
    if args.store is not None:
        print()
        print(turns_report(args.store, args.run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
