"""kleene.store.state: records that outlive a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from kleene.store import Store
from kleene.store.schema import STATE
from kleene.store.state import (
    ROWS_AT_ONCE,
    CalibrationRecord,
    EstimateRecord,
    FunctionRecord,
    Record,
    SessionRecord,
    State,
)

SESSION = SessionRecord(session="s", run="r", task="count", turns=3, record='{"a": "\U0001f600"}', updated_at=1000.5)
FUNCTION = FunctionRecord(name="f", kind="function", definition="CREATE FUNCTION f ...", created_at=1.0)
ESTIMATE = EstimateRecord(template_hash="h", function="f", template="Is {x}?", sel=0.25, n=4, updated_at=2.0)
CALIBRATION = CalibrationRecord(function="f", template_hash="h", proxy="g", low=0.2, high=0.8, n=50, calibrated_at=3.0)
ALL: tuple[Record, ...] = (SESSION, FUNCTION, ESTIMATE, CALIBRATION)


@pytest.fixture
def state() -> Iterator[State]:
    with Store.open() as store:
        state = State(store, clock=lambda: 2000.25)
        yield state
        state.close()


@pytest.mark.parametrize("record", ALL, ids=lambda r: r.table)
def test_a_record_has_the_columns_of_its_table(record: Record) -> None:
    table = next(t for t in STATE if t.name == record.table)
    assert [f.name for f in attrs.fields(type(record))] == [name for name, _ in table.columns]


@pytest.mark.parametrize("record", ALL, ids=lambda r: r.table)
def test_a_record_comes_back_as_it_went_in(state: State, record: Record) -> None:
    state.save(record)
    state.save(record)
    assert state.all(type(record)) == [record]  # type: ignore[type-var]


def test_saving_again_replaces(state: State) -> None:
    state.save(SESSION)
    state.save(attrs.evolve(SESSION, turns=4, outcome="final"))
    found = state.get(SessionRecord, session="s")
    assert found is not None
    assert (found.turns, found.outcome) == (4, "final")


def test_many_are_saved_at_once_and_replace(state: State) -> None:
    many = [
        EstimateRecord(template_hash=f"{n:04}", function="f", template="é {x}", n=n) for n in range(ROWS_AT_ONCE + 3)
    ]
    state.save(*many, FUNCTION)
    state.save(*(attrs.evolve(record, n=record.n + 1) for record in many[::2]))
    state.save()
    assert [r.n for r in sorted(state.all(EstimateRecord), key=lambda r: r.template_hash)] == [
        n + (n % 2 == 0) for n in range(len(many))
    ]
    assert [r.name for r in state.all(FunctionRecord)] == ["f"]


def test_records_are_found_by_their_fields_the_newest_last(state: State) -> None:
    for n, run in enumerate(["r1", "r2", "r1"]):
        state.save(attrs.evolve(SESSION, session=f"s{n}", run=run, updated_at=float(10 - n)))
    assert [s.session for s in state.all(SessionRecord)] == ["s2", "s1", "s0"]
    assert [s.session for s in state.all(SessionRecord, run="r1", parent=None)] == ["s2", "s0"]
    newest = state.get(SessionRecord, run="r1")
    assert newest is not None and newest.session == "s0"
    assert state.get(SessionRecord, run="r3") is None


def test_a_time_that_is_not_given_is_now(state: State) -> None:
    state.save(attrs.evolve(FUNCTION, created_at=None))
    found = state.get(FunctionRecord, name="f")
    assert found is not None and found.created_at == 2000.25


def test_a_function_and_an_agent_may_share_a_name_and_go_alone(state: State) -> None:
    state.save(FUNCTION)
    state.save(attrs.evolve(FUNCTION, kind="agent"))
    assert state.delete(FunctionRecord, name="f", kind="agent") == 1
    assert state.all(FunctionRecord) == [FUNCTION]
    assert state.delete(FunctionRecord) == 1


def test_a_field_that_does_not_exist_is_refused(state: State) -> None:
    with pytest.raises(ValueError, match="kleene_functions has no column nam"):
        state.all(FunctionRecord, nam="f")


def test_lone_surrogates_are_mended(state: State) -> None:
    state.save(attrs.evolve(SESSION, task="a\ud800"))
    found = state.get(SessionRecord, session="s")
    assert found is not None and found.task == "a\ufffd"


def test_a_saved_session_is_there_after_a_restart(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.duckdb") as store:
        state = State(store)
        state.save(SESSION)
        state.close()
    with Store.open(tmp_path / "run.duckdb") as store:
        state = State(store)
        assert state.get(SessionRecord, run="r") == SESSION
        state.close()
