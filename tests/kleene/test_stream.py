"""The replies of sessions as they arrive."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import kleene
from kleene.udfs.events import CallDropped, CallStreamed, Event
from tests.fake_server import Ask, FakeServer, Raw, Say, failure, write

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


# -- a reply that breaks off ---------------------------------------------------------------------------------------------------------------

WIRES: dict[str, Any] = {
    "chat": lambda model, url: kleene.OpenAI(model, base_url=url + "/v1", api_key="k"),
    "messages": lambda model, url: kleene.Anthropic(model, base_url=url, api_key="k"),
    "responses": lambda model, url: kleene.Responses(model, base_url=url + "/v1", api_key="k"),
}
WRONG = "Done.\n```sql\nFINAL(7);\n```"


def cut(text: str, share: float) -> Callable[[Ask], Raw]:
    """A streamed reply that is cut off after a share of its bytes."""

    def rule(ask: Ask) -> Raw:
        whole = write(ask, Say(text, pieces=8))
        return attrs.evolve(whole, cut=int(len(whole.body) * share))

    return rule


@contextmanager
def two(wire: str, first: Any, second: Any, listener: Listener | None) -> Iterator[tuple[kleene.Engine, list[Ask]]]:
    """An engine whose root has two candidates; and what the servers were asked, in order."""
    with FakeServer(first) as one, FakeServer(second) as other:
        models = {"root": [WIRES[wire]("first", one.url), WIRES[wire]("second", other.url)]}
        with kleene.connect(store=":memory:", models=models, on_event=listener) as k:
            yield k, one.asks
            for ask in other.asks:
                assert ask.body["model"] == "second"


def dropped(listener: Listener) -> list[tuple[int, str, str | None]]:
    return [(e.attempt, e.model, e.next_model) for e in listener.heard if isinstance(e, CallDropped)]


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("wire", sorted(WIRES))
def test_a_reply_that_breaks_off_is_asked_of_the_next_model_from_the_start(wire: str, share: float) -> None:
    listener = Listener()
    with two(wire, cut(WRONG, share), lambda ask: Say(REPLY, pieces=4), listener) as (k, asks):
        run = k.run("What is it?", budget=kleene.Budget(calls=5))
        assert run.answer is not None and run.answer.fetchall() == [(42,)]
        assert (len(asks), run.usage.requests) == (1, 2)
        rows = k.sql("SELECT model, attempts, error, reply FROM trace_calls").fetchall()
        assert rows == [("second", 2, None, REPLY)]
        assert k.sql("SELECT count(*) FROM memo").fetchall() == [(0,)]
    assert dropped(listener) == [(0, "first", "second")]
    half = "".join(p.text for p in listener.pieces if p.attempt == 0)
    assert half and WRONG.startswith(half)
    assert "".join(p.text for p in listener.pieces if p.attempt == 1) == REPLY
    kinds = [type(e).__name__ for e in listener.heard if type(e).__name__.startswith("Call")]
    assert kinds.index("CallDropped") > kinds.index("CallStreamed")
    assert kinds.index("CallDropped") == sum(p.attempt == 0 for p in listener.pieces)


def test_both_halves_of_a_broken_reply_are_paid_for() -> None:
    def rule(ask: Ask) -> Raw:
        whole = write(ask, Say("x" * 4_000, pieces=8))
        return attrs.evolve(whole, cut=int(len(whole.body) * 0.6))

    listener = Listener()
    with two("chat", rule, lambda ask: Say(REPLY, usage=(10, 5)), listener) as (k, _):
        usage = k.run("What is it?", budget=kleene.Budget(calls=5)).usage
    half = sum(len(p.text) for p in listener.pieces if p.attempt == 0)
    assert 1_000 < half < 4_000
    assert usage.output_tokens == 5 + -(-half // 4)
    assert usage.input_tokens > 10
    assert usage.requests == 2


def test_a_reply_that_stops_coming_is_asked_of_the_next_model() -> None:
    def stalls(ask: Ask) -> Raw:
        return attrs.evolve(write(ask, Say(WRONG, pieces=8)), chunk=600, pause=3.0)

    listener = Listener()
    with two("chat", stalls, lambda ask: Say(REPLY), listener) as (k, _):
        k.sql("SET timeout = 0.5")
        run = k.run("What is it?", budget=kleene.Budget(calls=5))
        assert run.answer is not None and run.answer.fetchall() == [(42,)]
    assert dropped(listener) == [(0, "first", "second")]
    assert [e.error for e in listener.heard if isinstance(e, CallDropped)] == ["no reply from first within 0.5 s"]


def test_what_broke_off_everywhere_fails_and_nothing_of_it_stays() -> None:
    listener = Listener()
    with two("chat", cut(WRONG, 0.7), lambda ask: failure(401, "no key"), listener) as (k, _):
        run = k.run("What is it?", budget=kleene.Budget(calls=5))
        assert (run.outcome, run.answer, run.usage.requests) == ("failed", None, 2)
        assert k.sql("SELECT attempts, reply FROM trace_calls").fetchall() == [(2, None)]
    assert dropped(listener) == [(0, "first", "second")]


def test_where_the_budget_ends_with_the_broken_reply_it_is_dropped() -> None:
    listener = Listener()
    with two("chat", cut(WRONG, 0.7), lambda ask: Say(REPLY), listener) as (k, _):
        run = k.run("What is it?", budget=kleene.Budget(calls=1))
        assert (run.outcome, run.answer, run.usage.requests) == ("budget_exhausted", None, 1)
    assert dropped(listener) == [(0, "first", "second")]


def test_a_cancelled_reply_is_dropped() -> None:
    def stalls(ask: Ask) -> Raw:
        return attrs.evolve(write(ask, Say(WRONG, pieces=8)), chunk=600, pause=2.0)

    listener = Listener()
    with two("chat", stalls, lambda ask: Say(REPLY), listener) as (k, _):

        def cancel() -> None:
            while not listener.pieces:
                time.sleep(0.01)
            k.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        run = k.run("What is it?", budget=kleene.Budget(calls=5))
        thread.join()
        assert run.outcome == "cancelled"
    assert dropped(listener) == [(0, "first", None)]
