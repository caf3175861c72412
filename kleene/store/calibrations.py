"""What CALIBRATE found, kept in the table ``calibrations``: one row a function, its proxy and the models of both."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING

import duckdb

from kleene.planner.specs import Calibration, FunctionSpec
from kleene.store.state import CalibrationRecord, State

if TYPE_CHECKING:
    from kleene.store.store import Store


def keep(store: Store, function: FunctionSpec, found: Calibration) -> None:
    """Keep a calibration for later processes. A store that cannot take it leaves it to this one."""
    with suppress(duckdb.Error), closing(State(store)) as state:
        state.save(
            CalibrationRecord(
                function=function.name.lower(),
                template_hash=found.key,
                proxy=(function.proxy or "").lower(),
                low=found.low,
                high=found.high,
                n=found.sample,
                sample_precision=found.sample_precision,
                sample_recall=found.sample_recall,
                recall=found.recall,
                precision=found.precision,
                confidence=found.confidence,
                rows=found.rows,
                accepted=found.accepted,
                in_band=found.in_band,
                rejected=found.rejected,
                scores=list(found.scores),
            )
        )


def stored(store: Store, function: FunctionSpec, key: str) -> Calibration | None:
    """The calibration that the store has for a function. One whose thresholds were declared keeps them."""
    try:
        with closing(State(store)) as state:
            record = state.get(CalibrationRecord, function=function.name.lower(), template_hash=key)
    except duckdb.Error:
        return None
    if record is None or record.rows is None:
        return None
    return Calibration(
        low=record.low,
        high=record.high,
        recall=record.recall or 0.0,
        precision=record.precision or 0.0,
        confidence=record.confidence or 0.0,
        rows=record.rows,
        sample=record.n,
        accepted=record.accepted or 0,
        in_band=record.in_band or 0,
        rejected=record.rejected or 0,
        scores=tuple(record.scores or ()),
        sample_precision=record.sample_precision,
        sample_recall=record.sample_recall,
        key=key,
        in_force=function.thresholds is None,
    )
