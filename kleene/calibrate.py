"""CALIBRATE: the proxy scores every row of a query, the function answers a sample of them, and thresholds with a guarantee come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from kleene.connection import Fetched, Params
from kleene.explain import Plan, explain, explained, price
from kleene.guesses import SiteEstimate
from kleene.planner.calibration import Calibrating, key_of
from kleene.planner.callplan import CallPlan, Site
from kleene.planner.catalog import Catalog
from kleene.planner.dialect import CallSQL
from kleene.planner.errors import CallFailed, ConfigError, PlanError
from kleene.planner.resolve import call_spec
from kleene.planner.settings import Settings
from kleene.planner.specs import Calibration, FunctionSpec
from kleene.store.calibrations import stored
from kleene.thresholds import Goal, Thresholds, choose, quantiles, split
from kleene.udfs.dispatch import candidates, refusal
from kleene.udfs.lookups import Key, SiteAnswers
from kleene.udfs.statement import Ask, CallSite
from kleene.udfs.work import Estimate, route_key

if TYPE_CHECKING:
    from kleene.result import Result
    from kleene.runner import Running
    from kleene.store import Store
    from kleene.udfs.protocols import CallHandler

COLUMNS = (
    ("function", "VARCHAR"),
    ("proxy", "VARCHAR"),
    ("low", "DOUBLE"),
    ("high", "DOUBLE"),
    ("rows", "BIGINT"),
    ("asked", "BIGINT"),
    ("accepted", "BIGINT"),
    ("in_band", "BIGINT"),
    ("rejected", "BIGINT"),
    ("sample_precision", "DOUBLE"),
    ("sample_recall", "DOUBLE"),
    ("guarantee", "VARCHAR"),
)


@attrs.define
class Calibrator:
    """One CALIBRATE statement as it runs. ``found`` is set when it is done; ``arguments`` is the text that reads its rows without a call,
    None where the query itself makes calls."""

    asked: Calibrating
    running: Running
    plan: CallPlan
    params: Params
    arguments: str | None
    key: str
    found: Calibration | None = None
    _second: int = 0  # calls of the second part, as they were estimated last

    def run(self) -> Result:
        """The result: one row of ``COLUMNS``. Raises before anything is sent where the budget cannot pay for all of it."""
        self._check_budget()
        if self.plan.sites or self.plan.rounds:
            return self.running.planned(self.plan, self.params, self._calibrated)
        return self.running.pure(self.plan.tree.sql(CallSQL), self.params, query=True, then=self._calibrated)

    def explain(self) -> Plan:
        """What it would ask: the proxy exactly, the function at most."""
        plan = self.plan
        base = explain(self.running, plan, self.params) if plan.sites else None
        estimate, exact = self._oracle_estimate()
        asked = self.asked
        number = len(plan.sites) + 1
        spec = self._oracle().spec
        label = f"{asked.function.name} (a sample of {asked.sample})"
        site = Site(number, spec, asked.function.volatility, label, len(asked.function.params))
        second = asked.sample // 4
        why = "" if exact else f"at most: {asked.sample - second} rows drawn from all, {second} above the threshold"
        item = SiteEstimate(site, estimate.calls, estimate.hits, estimate.tokens, estimate.dollars, exact, why)
        sites = (*(base.sites if base is not None else ()), item)
        whole = attrs.evolve(plan, sites=(*plan.sites, site))
        return explained(
            list(sites), whole, self.running, bool(estimate.unpriced) or (base is not None and base.estimate.unpriced)
        )

    # -- running ---------------------------------------------------------------------------------------------------------------------------

    def _calibrated(self, _: Running, fetched: Fetched) -> Fetched:
        keys, scores = rows_of(fetched, len(self.asked.function.params))
        if (~np.isnan(scores)).sum() < 2:
            raise PlanError(
                f"{self.asked.proxy.name} gives {int((~np.isnan(scores)).sum())} of {len(keys)} rows a score, too few to calibrate",
                hint="FROM a query with more rows whose arguments are not NULL",
            )
        goal = Goal(self.asked.recall, self.asked.precision, self.asked.confidence)
        oracle = self._oracle()
        chosen = choose(scores, goal, self.asked.sample, self._seed(), lambda rows: self._label(oracle, keys, rows))
        self.found = found = self._calibration(chosen, scores)
        self._warn(found)
        row = (
            self.asked.function.name, self.asked.proxy.name, found.low, found.high, found.rows, found.sample, found.accepted,
            found.in_band, found.rejected, found.sample_precision, found.sample_recall, found.guarantee(),
        )  # fmt: skip
        return Fetched(tuple(n for n, _ in COLUMNS), tuple(t for _, t in COLUMNS), rows=[row])

    def _label(self, oracle: CallSite, keys: Sequence[Key], rows: Any) -> Any:
        wanted = [keys[r] for r in rows.tolist()]
        self.running.answer([Ask(oracle, key) for key in dict.fromkeys(wanted) if key not in oracle.answers.answers])
        if self.running.context.meter.failed:
            raise CallFailed(
                f"{self.running.context.meter.failed} calls of the sample failed: no thresholds were chosen",
                call=self.asked.function.name,
                hint=f"run it again; the first failure: {self.running.context.meter.first_failure}",
            )
        return np.array([oracle.answers.answers.get(key) is True for key in wanted], dtype=bool)

    def _calibration(self, chosen: Thresholds, scores: Any) -> Calibration:
        return Calibration(
            low=chosen.low,
            high=chosen.high,
            recall=self.asked.recall,
            precision=self.asked.precision,
            confidence=self.asked.confidence,
            rows=len(scores),
            sample=chosen.sampled,
            accepted=chosen.accepted,
            in_band=chosen.in_band,
            rejected=chosen.rejected,
            scores=quantiles(scores),
            sample_precision=chosen.sample_precision,
            sample_recall=chosen.sample_recall,
            key=self.key,
        )

    def _warn(self, found: Calibration) -> None:
        name, proxy = self.asked.function.name, self.asked.proxy.name
        said = f"{found.sample} of {found.rows} rows were asked"
        if found.low is None and found.high is None:
            self.running.context.notes.append(
                f"no thresholds of {proxy} keep both goals as far as the sample tells ({said}): {name} is asked for every row; "
                "a larger SAMPLE tells more"
            )
        elif found.low is None:
            self.running.context.notes.append(
                f"no row is rejected by {proxy}: the sample does not show that recall stays at {found.recall:g} ({said})"
            )
        elif found.high is None:
            self.running.context.notes.append(
                f"no row is accepted by {proxy}: the sample does not show that precision stays at {found.precision:g} ({said})"
            )

    def _oracle(self) -> CallSite:
        spec = call_spec(self.asked.function, self.running.around.settings)
        return CallSite(spec, self.asked.function.volatility, SiteAnswers(name=f"{self.running.number}:oracle"))

    def _seed(self) -> int:
        """The same function and rows draw the same sample, so that a statement that is run again asks for nothing new."""
        return int(self.key[:16], 16)

    # -- pricing ---------------------------------------------------------------------------------------------------------------------------

    def _check_budget(self) -> None:
        """Refuse before the proxy is paid what the sample could not be paid for as well."""
        left = self.running.context.ledger.remaining()
        if left.calls is None and left.tokens is None and left.dollars is None:
            return
        needed = self.explain().estimate
        if not needed.calls - self._second:
            return  # the proxy's answers and the first part are remembered: the second part is priced when it is known
        misfit = self.running.context.ledger.fits(needed.calls, needed.tokens, needed.dollars)
        if misfit is not None:
            raise refusal(self.running.context, *misfit)

    def _oracle_estimate(self) -> tuple[Estimate, bool]:
        """The calls of the sample, at most; exactly where every row is in it."""
        asked, oracle = self.asked, self._oracle()
        if self.arguments is None:
            return Estimate(calls=asked.sample, input_tokens=64 * asked.sample), False
        fetched = self.running.around.connection.fetch(self.arguments, self.params, query=True)
        keys, _ = rows_of(fetched, len(asked.function.params))
        first, rest = split(np.random.default_rng(self._seed()).permutation(len(keys)), asked.sample)
        sampled = dict.fromkeys(keys[r] for r in first.tolist())
        estimate = price(self.running, [Ask(oracle, key) for key in sampled])
        others = {keys[r] for r in rest.tolist()} - sampled.keys()
        more = min(asked.sample - len(first), len(others))
        if not more:
            return estimate, True
        likely = price(self.running, [Ask(oracle, key) for key in sorted(others)[:more]])
        self._second = likely.calls
        return estimate + attrs.evolve(likely, hits=0), False


def rows_of(fetched: Fetched, arity: int) -> tuple[list[Key], Any]:
    """The arguments of the rows in an order of their own, so that the order of the query's rows does not matter, and their scores (NaN: none).
    Rows with a NULL argument ask nothing and are left out."""
    if fetched.table is not None:
        columns = [fetched.table.column(n).to_pylist() for n in range(fetched.table.num_columns)]
    else:
        columns = list(map(list, zip(*(fetched.rows or []), strict=True))) or [[] for _ in fetched.columns]
    scores = columns[arity] if len(columns) > arity else [None] * len(columns[0])
    # To DuckDB NaN is the greatest number, and so above every threshold.
    rows = sorted(
        (arguments, score is None, 0.0 if score is None else np.inf if np.isnan(score) else score)
        for *arguments, score in zip(*columns[:arity], scores, strict=True)
        if None not in arguments
    )
    keys: list[Key] = [arguments[0] if arity == 1 else tuple(arguments) for arguments, _, _ in rows]
    return keys, np.array([np.nan if missing else score for _, missing, score in rows], dtype=np.float64)


# -- what is kept ------------------------------------------------------------------------------------------------------------------------


def model_names(handler: CallHandler) -> Callable[[str], str]:
    """Names the models of an alias, for the key of a calibration; an alias without one is named by itself."""

    def named(alias: str) -> str:
        try:
            return "\n".join(sorted(route_key(r) for r in candidates(handler, alias)))
        except ConfigError:
            return alias

    return named


def finder(
    catalog: Catalog, settings: Settings, handler: CallHandler, store: Store
) -> Callable[[FunctionSpec], Calibration | None]:
    """Tells what calibration a function has now: its own while nothing that it rests on changed, else the store's of that key."""
    models = model_names(handler)

    def find(spec: FunctionSpec) -> Calibration | None:
        key = key_of(spec, catalog, settings, models)
        if spec.calibration is not None and spec.calibration.key == key:
            return spec.calibration
        return stored(store, spec, key)

    return find
