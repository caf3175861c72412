"""EXPLAIN and EXPLAIN ANALYZE of one statement, over what the executor can do with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import attrs
from sqlglot import exp

from kleene.connection import Connection, Fetched, Params
from kleene.counting import looks_only
from kleene.explain import Plan, cheapest, explain, pure_plan
from kleene.planner import nodes
from kleene.planner.callplan import CallPlan
from kleene.planner.fragment import fragment_of
from kleene.planner.settings import Settings
from kleene.planner.specs import Usage
from kleene.planner.statements import Statement, final_query, with_tree
from kleene.planner.tools import ToolCall
from kleene.result import Result
from kleene.runner import Running, Then

if TYPE_CHECKING:
    from kleene.analyze import Analysis
    from kleene.calibrate import Calibrator
    from kleene.tools.toolbox import Toolbox

Way = Callable[[Running, CallPlan, Params, Then | None], Result]
"""How a plan with calls is run, its cheapest alternative chosen."""


class Querying(Protocol):
    """Runs a query or write. ``then`` makes the statement's result of its rows; ``plan`` is its plan where that is made already, ``way`` how
    one with calls is run."""

    def __call__(
        self,
        statement: Statement,
        tree: exp.Expr,
        params: Params,
        frame: FrameType | None,
        then: Callable[[Running, Fetched], Fetched] | None = None,
        *,
        plan: CallPlan | None = None,
        way: Way | None = None,
    ) -> Result: ...


class Calling(Protocol):
    """Runs a CALL; ``way`` is how a plan with calls of its query is run."""

    def __call__(
        self,
        statement: Statement,
        tree: nodes.CallTool,
        params: Params,
        frame: FrameType | None,
        *,
        way: Way | None = None,
    ) -> Result: ...


@attrs.frozen
class Explaining:
    """Tells what statements would cost, or what they did. The functions are the executor's: ``tables`` gives a statement what it names outside
    the database, ``run_as`` is one statement while it runs, ``run`` any statement, ``pure`` one of DuckDB's own text, ``bounded`` for the rows
    of a CALL."""

    settings: Settings
    connection: Connection
    tools: Toolbox | None
    session: str | None
    plan: Callable[[Statement, exp.Expr, Params], CallPlan | None]
    tables: Callable[[exp.Expr | None, FrameType | None], AbstractContextManager[None]]
    run_as: Callable[[Statement, CallPlan | None], AbstractContextManager[Running]]
    query: Querying
    call: Calling
    run: Callable[[Statement, Params, FrameType | None], Result]
    pure: Callable[[Statement, exp.Expr, Params, FrameType | None], Result]
    tool_call: Callable[[Statement, nodes.CallTool], ToolCall | None]
    bounded: Callable[[], AbstractContextManager[None]]
    calibrator: Callable[[Statement, nodes.Calibrate, Params, FrameType | None], AbstractContextManager[Calibrator]]

    def statement(self, statement: Statement, tree: nodes.Explain, params: Params, frame: FrameType | None) -> Result:
        """The rows of EXPLAIN. Of what makes no call they are DuckDB's."""
        inner, how = with_tree(statement, tree.this), str(tree.args.get("format") or "text")
        if tree.args.get("analyze"):
            analyzed = self._analyzed(inner, how, params, frame)
            if analyzed is not None:
                return analyzed
        else:
            found = self.plan_of(inner, params, frame)
            if found is not None:
                return _formatted(found, how)
        if isinstance(tree.this, nodes.CallTool):
            return _lines("no calls: CALL runs a procedure of DuckDB's own")
        if isinstance(tree.this, nodes.OwnStatement) and not isinstance(tree.this, nodes.Final):
            return _lines("no calls: the statement changes the session only")
        return self.pure(statement, tree.this, params, frame)

    def plan_of(self, statement: Statement, params: Params, frame: FrameType | None) -> Plan | None:
        """What a statement would cost and do, None where it makes no call."""
        tree = statement.tree
        if isinstance(tree, nodes.CallTool):
            call = self.tool_call(statement, tree)
            return None if call is None else self._call_plan(statement, call, params, frame)
        if isinstance(tree, nodes.Calibrate):
            with self.calibrator(statement, tree, params, frame) as calibrator:
                return self.connection.in_worker(calibrator.explain, calibrator.running.cancel)
        found = self._with_calls(statement, params)
        return None if found is None else self._explained(*found, params, frame)

    def _with_calls(self, statement: Statement, params: Params) -> tuple[Statement, CallPlan] | None:
        """A query, write or FINAL with its plan, None where it makes no call."""
        tree = statement.tree
        if isinstance(tree, nodes.Final):
            tree = final_query(tree)
            statement = with_tree(statement, tree)
        if tree is None or isinstance(tree, nodes.OwnStatement):
            return None
        plan = self.plan(statement, tree, params)
        return (statement, plan) if plan is not None and plan.sites else None

    def _call_plan(self, statement: Statement, call: ToolCall, params: Params, frame: FrameType | None) -> Plan:
        from kleene.effects import foretold

        assert self.tools is not None
        plan = self.plan(statement, call.query, params)
        if plan is None or all(looks_only(site.spec) for site in plan.sites):
            with self.bounded():
                rows = self.query(statement, call.query, params, frame).rows  # costs nothing
            told = foretold(call, self.tools, rows, self.session)
            return attrs.evolve(pure_plan(statement.text, "other"), text=told)
        found = self._explained(with_tree(statement, call.query), plan, params, frame)
        return attrs.evolve(found, text=f"{found.text}\nthen {call.spec.name}, once a row")

    def _explained(self, statement: Statement, plan: CallPlan, params: Params, frame: FrameType | None) -> Plan:
        with self.tables(plan.tree, frame), self.run_as(statement, plan) as running:
            return self.connection.in_worker(
                lambda: self._estimated(statement, running, cheapest(running, plan, params), params), running.cancel
            )

    def _estimated(self, statement: Statement, running: Running, plan: CallPlan, params: Params) -> Plan:
        fragment = fragment_of(plan.tree if statement.tree is None else statement.tree)
        return explain(running, plan, params, self.settings.pilot, fragment=fragment)

    def _analyzed(self, statement: Statement, how: str, params: Params, frame: FrameType | None) -> Result | None:
        """Run a statement for EXPLAIN ANALYZE; None, and nothing is run, where it makes no call. Of what is no query with calls only its
        total is told."""
        from kleene.analyze import actual, analyze

        analysis: Analysis | None = None

        def measured(running: Running, plan: CallPlan, params: Params, then: Then | None) -> Result:
            nonlocal analysis
            with self.run_as(statement, plan) as before:
                estimated = self._estimated(statement, before, plan, params)
            result, analysis = analyze(running, plan, estimated, params, then)
            return result

        tree = statement.tree
        if isinstance(tree, nodes.CallTool):
            result = self.call(statement, tree, params, frame, way=measured)
        elif isinstance(tree, nodes.Calibrate):
            result = self.run(statement, params, frame)
        else:
            found = self._with_calls(statement, params)
            if found is None:
                return None
            statement, plan = found
            assert statement.tree is not None
            result = self.query(statement, statement.tree, params, frame, plan=plan, way=measured)
        if analysis is None:
            return _lines("\n".join([actual(len(result), result.usage), *result.order]), usage=result.usage)
        text = json.dumps(analysis.to_dict(), indent=2) if how == "json" else analysis.text
        return _lines(text, usage=result.usage)


def _formatted(found: Plan, how: str) -> Result:
    if how == "sql":
        return _lines(found.duckdb_sql)
    if how == "json":
        return _lines(json.dumps(found.to_dict(), indent=2))
    return _lines(found.text)


def _lines(text: str, usage: Usage | None = None) -> Result:
    return Result(("plan",), ("VARCHAR",), rows=[(line,) for line in text.splitlines()], usage=usage, plan=text)


__all__ = ["Explaining", "Way"]
