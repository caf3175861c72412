"""Recordings: written, read again without a model, and honest about what changed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kleene.config import Config
from kleene.models import FunctionModel, OpenAI, Recorder, Replay, Reply, build_handler
from kleene.models.provider import Handler
from kleene.models.router import Alias, Router
from kleene.planner.errors import ConfigError
from kleene.planner.specs import Price
from kleene.udfs.protocols import Message, ProviderError, Request
from tests.fake_server import FakeServer, failure
from tests.kleene.models.wires import ask, run

PRICE = Price(1.0, 2.0, as_of="2026-11-30", source="test")


def turn(path: str, *texts: str, system: str = "You write SQL.") -> Request:
    roles = ("user", "assistant")
    return Request("root", tuple(Message(roles[i % 2], t) for i, t in enumerate(texts)), system, path=path)


TURNS = [
    turn("root/1", "task"),
    turn("root/2", "task", "reply 1", "feedback"),
    turn("root/2/a/1", "child"),
    turn("root/10", "late"),
]


def model(fn: Any = None) -> FunctionModel:
    return FunctionModel(fn or (lambda r: f"<{r.prompt}>"), name="m", price=PRICE, context_window=9000)


def play(handler: Handler, requests: list[Request]) -> list[str]:
    async def work() -> list[str]:
        said = []
        for request in requests:
            try:
                said.append((await handler.send(request, handler.route(request.alias))).text)
            except ProviderError as error:
                said.append(error.kind)
        await handler.aclose()
        return said

    return run(work)


def record(path: Path, requests: list[Request], fn: Any = None, **about: Any) -> list[str]:
    return play(build_handler(model(fn), Config(), record=path, about=about or None), requests)


def test_a_replay_says_what_was_recorded_and_asks_no_model(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    requests = [ask("a"), ask("b"), *TURNS]
    said = record(path, requests)
    assert play(build_handler(None, Config(), replay=path), list(reversed(requests))) == list(reversed(said))


def test_the_file_is_a_header_and_sorted_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [TURNS[3], ask("a"), TURNS[1], TURNS[0]], command="run")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert (lines[0]["kleene_recording"], lines[0]["about"]) == (1, {"command": "run"})
    assert lines[0]["routes"] == {
        alias: {
            "provider": "m",
            "endpoint": "python",
            "model": "m",
            "price": {"input": 1.0, "output": 2.0, "as_of": "2026-11-30", "source": "test"},
            "context_window": 9000,
        }
        for alias in ("root", "worker")
    }
    assert [line["key"] for line in lines[2:]] == ["root/1", "root/2", "root/10"]
    assert lines[1]["messages"] == [["user", "a"]] and len(lines[1]["key"]) == 64


def test_two_recordings_of_one_run_are_equal_whoever_finished_first(tmp_path: Path) -> None:
    calls = [ask(str(i)) for i in range(20)]
    record(tmp_path / "one", TURNS + calls)
    record(tmp_path / "two", calls[::-1] + TURNS)
    one, two = ((tmp_path / name).read_text().splitlines() for name in ("one", "two"))
    assert one[1:] == two[1:]


def test_a_turn_holds_only_what_the_turn_before_did_not(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, TURNS[:2])
    second = json.loads(path.read_text().splitlines()[2])
    assert (second["base"], second["messages"], "system" in second) == (
        "root/1",
        [["assistant", "reply 1"], ["user", "feedback"]],
        False,
    )


def test_the_route_of_a_replay_is_the_recorded_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [ask("a")])
    live = build_handler(model(), Config()).route("worker")
    assert Replay(path).route("worker") == live
    with pytest.raises(ConfigError) as error:
        Replay(path).route("workr")
    assert (error.value.message, error.value.hint) == (
        f"the recording {path} has no model for alias workr",
        "did you mean worker?",
    )


def test_a_call_that_was_not_recorded_is_an_error_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [ask("a")])
    replay = Replay(path)

    async def work() -> None:
        await replay.send(ask("other  prompt\n"), replay.route("worker"))

    with pytest.raises(ProviderError) as error:
        run(work)
    assert (error.value.kind, error.value.retryable, error.value.sent) == ("not_found", False, False)
    assert error.value.message == f"the recording {path} has no reply for this call: 'other prompt'"
    assert error.value.hint == "the prompt, the data or the model changed since: record again with --record FILE"


@pytest.mark.parametrize(
    "changed",
    [
        ask("a", schema="{}"),
        ask("a", system="s"),
        ask("a", effort="low"),
        ask("a", temperature=0.0),
        ask("a", seed=1),
        ask("a", max_tokens=5),
    ],
    ids=["schema", "system", "effort", "temperature", "seed", "max_tokens"],
)
def test_everything_that_can_change_the_reply_is_part_of_the_key(tmp_path: Path, changed: Request) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [ask("a")])
    assert play(Replay(path), [changed]) == ["not_found"]


def test_the_time_limit_is_not_part_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [ask("a")])
    assert play(Replay(path), [ask("a", timeout=1.0, cache_prefix=False)]) == ["<a>"]


def test_a_changed_turn_is_answered_and_the_first_difference_told(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, TURNS[:2])
    told: list[str] = []
    replay = Replay(path, warn=told.append)
    assert play(replay, [turn("root/2", "task", "reply 1", "feedback,\nchanged")]) == ["<feedback>"]
    assert (
        told
        == replay.warnings
        == [
            f"turn root/2 differs from the recording {path}: message 3 (user), line 1: recorded 'feedback', now 'feedback,\\nchanged'"
        ]
    )


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (
            turn("root/1", "task", system="You write SQL!"),
            "the system text, line 1: recorded 'You write SQL.', now 'You write SQL!'",
        ),
        (turn("root/1", "task", "more"), "it has 2 messages, recorded were 1"),
        (turn("root/1", "x" * 100), "message 1 (user), line 1: recorded 'task', now 'xxxxxxxxxxxxxxxxxxxx...'"),
    ],
    ids=["system", "more", "other"],
)
def test_strict_refuses_a_changed_turn(tmp_path: Path, changed: Request, difference: str) -> None:
    path = tmp_path / "r.jsonl"
    record(path, TURNS[:1])
    replay = build_handler(None, Config(), replay=path, replay_strict=True)
    with pytest.raises(ProviderError) as error:
        run(lambda: replay.send(changed, replay.route("root")))
    assert (error.value.kind, error.value.message) == (
        "not_found",
        f"turn root/1 differs from the recording {path}: {difference}",
    )


def test_failures_are_replayed_in_their_order_and_without_a_wait(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    fails = [ProviderError("rate_limited", "later", retryable=True, retry_after=9, billed=False, hint="wait"), None]

    def fn(request: Request) -> str:
        error = fails.pop(0)
        if error is not None:
            raise error
        return "ok"

    assert record(path, [ask("a"), ask("a")], fn) == ["rate_limited", "ok"]
    replay = Replay(path)
    with pytest.raises(ProviderError) as error:
        run(lambda: replay.send(ask("a"), replay.route("worker")))
    found = error.value
    assert (found.kind, found.message, found.retryable, found.retry_after, found.billed, found.hint) == (
        "rate_limited",
        "later",
        True,
        None,
        False,
        "wait",
    )
    assert play(replay, [ask("a"), ask("a")]) == ["ok", "ok"]


def test_a_call_made_more_often_than_recorded_gets_the_last_reply_unless_strict(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    replies = ["one", "two"]
    record(path, [ask("a"), ask("a")], lambda r: replies.pop(0))
    assert play(Replay(path), [ask("a")] * 3) == ["one", "two", "two"]
    assert play(Replay(path, strict=True), [ask("a")] * 3) == ["one", "two", "not_found"]


def test_a_reply_keeps_every_field(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    reply = Reply("h\u00e9\x00\n\U0001f600", 1, 2, 0.5, "length", 3, 4, "m-2026")
    record(path, [ask("a")], lambda r: reply)
    replay = Replay(path)
    assert run(lambda: replay.send(ask("a"), replay.route("worker"))) == reply


def test_a_recording_that_was_killed_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(Router({"worker": Alias((model(),))}, lambda t: model()), path)
    for prompt in ("a", "b"):
        run(lambda p=prompt: recorder.send(ask(p), recorder.route("worker")))  # type: ignore[misc]
    killed = tmp_path / "killed.jsonl"
    killed.write_text(path.read_text() + '{"key": "cut')
    recorder.finish()
    assert play(Replay(killed), [ask("a"), ask("b")]) == ["<a>", "<b>"]


def test_a_recording_named_gz_is_packed_whether_finished_or_killed(tmp_path: Path) -> None:
    plain, path = tmp_path / "r.jsonl", tmp_path / "r.jsonl.gz"
    requests = [ask("a"), ask("b ü"), *TURNS]
    said = record(plain, requests)

    async def killed() -> bytes:
        handler = build_handler(model(), Config(), record=path)
        for request in requests:
            await handler.send(request, handler.route(request.alias))
        data = path.read_bytes()
        await handler.aclose()
        return data

    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(run(killed))
    assert gzip.decompress(path.read_bytes()) == plain.read_bytes()
    for file in (path, cut):
        assert play(Replay(file), requests) == said
    before = path.read_bytes()
    record(path, requests)
    assert path.read_bytes() == before
    data = bytearray(before)
    data[-6] ^= 1  # its checksum
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="cannot read the recording"):
        Replay(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a recording of this version of Kleene"),
        ('{"kleene_recording": 99}\n', "is not a recording of this version of Kleene"),
        ("\n".join(['{"kleene_recording": 1}', "oops", "{}"]), ", line 2: not JSON"),
        ("\n".join(['{"kleene_recording": 1}', "[1]", ""]), ", line 2: not an object"),
        ('{"kleene_recording": 1}\n{"key": 1}\n', ", line 2: not a recorded request"),
    ],
    ids=["empty", "version", "json", "array", "fields"],
)
def test_a_file_that_is_no_recording_is_a_config_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Replay(path)
    assert error.value.message == f"{path} {message}".replace(" ,", ",")


def test_a_missing_file_and_a_folder_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the recording"):
        Replay(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot write the recording"):
        build_handler(model(), Config(), record=tmp_path)
    with pytest.raises(ConfigError, match="cannot be recorded and replayed at once"):
        build_handler(model(), Config(), record=tmp_path / "a", replay=tmp_path / "b")


def test_no_key_is_in_a_recording(tmp_path: Path) -> None:
    path, key = tmp_path / "r.jsonl", "sk-0123456789abcdef"
    with FakeServer(lambda a: failure(401, "bad key " + key) if a.number else "ok") as server:
        url = server.url.replace("http://", "http://user:secret@")
        play(
            build_handler(
                OpenAI("m", base_url=url + "/v1", api_key=key), Config(), record=path, about={"command": "sql"}
            ),
            [ask("a"), ask("b")],
        )
    text = path.read_text()
    assert key not in text and "secret" not in text and '"endpoint": "http://127.0.0.1:' in text
