"""The replies of sessions as they arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kleene
from kleene.udfs.events import CallStreamed, Event
from tests.fake_server import Ask, FakeServer, Say, failure

REPLY = "Done.\n```sql\nFINAL(42);\n```"


class Listener:
    """Keeps what it hears."""

    def __init__(self, *, streams: bool = True) -> None:
        self.streams = streams
        self.heard: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(event)

    @property
    def pieces(self) -> list[CallStreamed]:
        return [e for e in self.heard if isinstance(e, CallStreamed)]


def ran(rule: Any, listener: Listener | None, store: str = ":memory:") -> list[Ask]:
    with FakeServer(rule) as server:
        model = kleene.OpenAI("m", base_url=server.url + "/v1", api_key="k")
        with kleene.connect(store=store, models=model, on_event=listener) as k:
            assert k.run("What is it?", budget=kleene.Budget(calls=5)).answer.fetchall() == [(42,)]  # type: ignore[union-attr]
        return list(server.asks)


def test_who_listens_hears_a_reply_in_pieces() -> None:
    listener = Listener()
    asks = ran(lambda a: Say(REPLY, pieces=4), listener)
    assert [a.stream for a in asks] == [True]
    assert len(listener.pieces) == 4
    assert "".join(p.text for p in listener.pieces) == REPLY
    assert {(p.call, p.attempt) for p in listener.pieces} == {("root/1", 0)}


def test_a_reply_that_is_asked_for_again_has_a_number_of_its_own() -> None:
    listener = Listener()
    ran(lambda a: failure(500, "no") if a.number == 0 else Say(REPLY), listener)
    assert {p.attempt for p in listener.pieces} == {1}


def test_nobody_listening_nothing_is_streamed() -> None:
    assert [a.stream for a in ran(lambda a: REPLY, None)] == [False]
    assert [a.stream for a in ran(lambda a: REPLY, Listener(streams=False))] == [False]


def test_pieces_are_not_written_to_the_event_file(tmp_path: Path) -> None:
    listener = Listener()
    ran(lambda a: Say(REPLY, pieces=4), listener, str(tmp_path / "run.duckdb"))
    lines = (tmp_path / "run.events.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = {json.loads(line)["event"] for line in lines}
    assert listener.pieces and "TurnFinished" in kinds and "CallStreamed" not in kinds
