"""kleene.udfs.events: who hears what on the stream, and no longer than wanted."""

from __future__ import annotations

from kleene.udfs.events import CallFinished, CallsFinished, Event, EventStream, RunStarted


def block() -> CallsFinished:
    return CallsFinished(
        at=1.0,
        statement="1",
        session=None,
        number=3,
        sites=["1:1", "1:1"],
        alias="worker",
        model="m",
        provider="p",
        wants="text",
        started=[0.5, 0.5],
        finished=[1.0, 1.0],
        input_tokens=[1, 2],
        output_tokens=[3, 4],
        dollars=[0.0, 0.0],
        prompts=["a", "b"],
        replies=["A", "B"],
    )


def test_a_sink_takes_blocks_for_as_long_as_it_asked_for_them() -> None:
    stream, heard = EventStream(), list[Event]()
    end = stream.subscribe(heard.append, blocks=True)
    stream.emit(block())
    end()
    end()
    stream.emit(block())
    assert [type(e) for e in heard] == [CallsFinished]
    heard.clear()
    stream.subscribe(heard.append)  # the same sink, which now wants calls
    stream.emit(block())
    assert [(e.call, e.prompt) for e in heard if isinstance(e, CallFinished)] == [("1.3", "a"), ("1.4", "b")]


def test_ending_one_subscription_leaves_another_of_the_same_sink() -> None:
    stream, heard = EventStream(), list[Event]()
    first = stream.subscribe(heard.append)
    stream.subscribe(heard.append)
    first()
    first()
    stream.emit(RunStarted(at=1.0, run="r", task="t"))
    assert len(heard) == 1


def test_a_sink_that_raises_is_heard_of_once() -> None:
    stream = EventStream()

    def broken(event: Event) -> None:
        raise ValueError("full")

    stream.subscribe(broken, blocks=True)
    stream.emit(block())
    stream.emit(block())
    assert [str(e) for e in stream.failures] == ["full"]
