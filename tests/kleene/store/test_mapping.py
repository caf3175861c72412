"""kleene.store.mapping: events to rows."""

from __future__ import annotations

import json
from typing import get_type_hints

import attrs

from kleene.store.columns import CallColumns
from kleene.store.eventfile import line
from kleene.store.mapping import INTO, Batch, columns_of, hide_texts
from kleene.store.schema import TRACE
from kleene.store.writer import Forms
from kleene.udfs import events

# CallStreamed and CallDropped are for displays: the writer passes them over, the whole reply is in the call's own row. CallsFinished stands for
# so many CallFinished.
LEFT_OUT = {
    ("StatementPlanned", "at"),
    ("RunOfStatement", "session"),
    ("RunOfStatement", "lacked"),
    ("CallFinished", "wants"),
    ("CallFinished", "error_kind"),
}


def test_every_event_has_a_table_and_every_field_a_column() -> None:
    tables = {t.name: t for t in TRACE}
    kinds = [
        k
        for k in vars(events).values()
        if isinstance(k, type)
        and issubclass(k, events.Event)
        and k not in (events.Event, events.CallStreamed, events.CallDropped, events.CallsFinished)
    ]
    assert {k.__name__ for k in kinds} == set(INTO)
    for kind in kinds:
        columns = columns_of(kind.__name__, tables[INTO[kind.__name__][0]])
        fields = {f.name for f in attrs.fields(kind)}
        missing = {(kind.__name__, f) for f in fields - set(columns)} - LEFT_OUT
        assert missing == set()
        assert get_type_hints(kind)


def test_many_calls_in_one_event_leave_the_rows_and_lines_of_single_ones() -> None:
    odd = ["a", 'say "ü"\n\t\x00', "\ud800", "😀" * 3]
    block = events.CallsFinished(
        at=9.5,
        statement="1",
        session=None,
        number=7,
        sites=["1:1", "1:2", "1:1", "1:1"],
        alias="worker",
        model='m"',
        provider="p",
        wants="text",
        started=[1.25, 1.25, 2.0, 2.0],
        finished=[1.5, 1.5, 2.5, 2.5],
        input_tokens=[1, 2, 3, 4],
        output_tokens=[4, 3, 2, 1],
        dollars=[0.0, 0.25, 1e-7, 0.5],
        prompts=odd,
        replies=odd[::-1],
    )
    forms = Forms()
    for trace_text in (True, False):
        together, apart, lines = Batch(TRACE), Batch(TRACE), []
        columns = CallColumns.of(block, trace_text=trace_text)
        together.add_block(columns)
        for event in block.one_by_one():
            form = forms.of(event)
            if not trace_text:
                hide_texts(form)
            apart.add(form)
            lines.append(json.loads(line(form)))
        assert rows(together) == rows(apart)
        assert [json.loads(x) for x in columns.lines()] == lines
        together.merge(apart)  # as when an earlier batch could not be written
        assert rows(together) == rows(apart)


def test_every_renamed_field_goes_to_a_column_that_exists() -> None:
    tables = {t.name: {name for name, _ in t.columns} for t in TRACE}
    assert [(e, c) for e, (t, renamed) in INTO.items() for c in renamed.values() if c not in tables[t]] == []


def rows(batch: Batch) -> dict[str, list[dict[str, object]]]:
    return {
        table.name: [{k: v for k, v in row.items() if v is not None} for row in arrow.to_pylist()]
        for table, arrow in batch.tables()
    }


def test_events_of_one_key_become_one_row() -> None:
    batch = Batch(TRACE)
    batch.add({"event": "SessionStarted", "session": "s", "run": "r", "role": "root"})
    batch.add({"event": "SessionFinished", "session": "s", "outcome": "final", "error": None})
    batch.add({"event": "SessionStarted", "session": "t", "run": "r"})
    assert rows(batch) == {
        "trace_sessions": [
            {"session": "s", "run": "r", "role": "root", "outcome": "final"},
            {"session": "t", "run": "r"},
        ]
    }
    assert batch.size == 2


def test_an_older_batch_goes_under_a_newer() -> None:
    older, newer = Batch(TRACE), Batch(TRACE)
    older.add({"event": "SessionFinished", "session": "s", "outcome": "failed", "turns": 1})
    older.add({"event": "FinalRecorded", "session": "s", "rows": "1"})
    newer.add({"event": "SessionFinished", "session": "s", "outcome": "final"})
    newer.add({"event": "FinalRecorded", "session": "s", "rows": "2"})
    newer.merge(older)
    assert rows(newer) == {
        "trace_sessions": [{"session": "s", "outcome": "final", "turns": 1}],
        "trace_final": [{"session": "s", "rows": "1"}, {"session": "s", "rows": "2"}],
    }


def test_what_is_not_known_or_has_no_key_is_left_out() -> None:
    batch = Batch(TRACE)
    batch.add({"event": "Invented", "session": "s"})
    batch.add({"no": "event"})
    batch.add({"event": "CallFinished", "call": None, "alias": "a"})
    batch.add({"event": "RunStarted", "run": "r", "of_a_later_version": 1})
    assert rows(batch) == {"trace_runs": [{"run": "r"}]}


def test_a_value_of_a_wrong_type_costs_no_other() -> None:
    batch = Batch(TRACE)
    batch.add(
        {"event": "CallFinished", "call": "1", "batch_size": "many", "started_at": "noon", "dollars": 0.5, "prompt": 7}
    )
    batch.add({"event": "CallFinished", "call": "2", "batch_size": 3, "attempts": 10**30, "reply": "\ud800\0"})
    assert rows(batch) == {
        "trace_calls": [
            {"call": "1", "dollars": 0.5, "prompt": "7"},
            {"call": "2", "batch_size": 3, "reply": "\ufffd\0"},
        ]
    }
