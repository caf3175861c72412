from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kleene.__main__ import prompt
from kleene.cli.invocation import Invocation
from kleene.cli.parser import parse
from kleene.cli.setup import Console, dialogue
from kleene.cli.terminal import Terminal
from kleene.config import load_config
from tests.fake_server import FakeServer, failure
from tests.kleene.cli.doubles import Stream, invoke

KEY = "sk-ant-0123456789abcdef"


@pytest.fixture
def file() -> Path:
    return Path(os.environ["KLEENE_CONFIG_DIR"]) / "config.toml"


def test_a_key_that_works_is_kept_for_its_owner_alone(file: Path) -> None:
    with FakeServer(lambda a: "ready") as server:
        done = invoke("setup", "--anthropic-key", "-", "--anthropic-base-url", server.url, stdin=KEY + "\n")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[1] == f"[anthropic] api_key, base_url kept in {file}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_config().anthropic.api_key == KEY
    assert KEY not in done.err
    ask = server.asks[0]
    assert (ask.prompt, ask.body["model"], ask.body["max_tokens"]) == (
        "Reply with the word ready.",
        "claude-haiku-5-5",
        16,
    )


def test_a_key_that_is_refused_is_not_kept(file: Path) -> None:
    with FakeServer(lambda a: failure(401, "invalid x-api-key", "authentication_error")) as server:
        done = invoke("setup", "--anthropic-key", KEY, "--anthropic-base-url", server.url)
    assert done.code == 2
    assert done.err.startswith("error: anthropic is not kept: ")
    assert KEY not in done.err and not file.exists()


def test_a_busy_endpoint_has_accepted_the_key(file: Path) -> None:
    with FakeServer(lambda a: failure(429, "slow down", "rate_limit_error")) as server:
        done = invoke("setup", "--openai-key", KEY, "--openai-base-url", server.url + "/v1", "--openai-model", "m")
    assert done.code == 0
    assert done.err.startswith("openai: the key is accepted, though ")
    assert load_config().openai.model == "m"


def test_an_endpoint_that_refuses_a_parameter_is_asked_without_it() -> None:
    def rule(ask: object) -> object:
        return "ready" if "max_completion_tokens" in ask.body else failure(400, "Unsupported parameter: 'max_tokens'")  # type: ignore[attr-defined]

    with FakeServer(rule) as server:  # type: ignore[arg-type]
        assert invoke("setup", "--openai-key", KEY, "--openai-base-url", server.url + "/v1").code == 0
        assert server.count == 2


def test_untried_is_kept_when_asked_for(file: Path) -> None:
    done = invoke("setup", "--no-test", "--openai-base-url", "http://127.0.0.1:9/v1", "--web-search-key", "w")
    assert done.code == 0
    assert load_config().openai.base_url == "http://127.0.0.1:9/v1"
    assert load_config().web_search.api_key == "w"


def test_what_is_kept_lies_beside_what_was_there(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text('# mine\n[aliases]\nworker = "openai:m"\n', encoding="utf-8")
    assert invoke("setup", "--no-test", "--anthropic-key", KEY).code == 0
    text = file.read_text(encoding="utf-8")
    assert text.startswith('# mine\n[aliases]\nworker = "openai:m"\n')
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_file_can_be_named(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "other.toml"
    assert invoke("setup", "--no-test", "--anthropic-key", KEY, "--config", str(other)).code == 0
    assert load_config(file=other).anthropic.api_key == KEY
    assert not file.exists()


def test_a_key_that_can_be_none_is_a_usage_error() -> None:
    done = invoke("setup", "--anthropic-key", "two words")
    assert done.code == 2
    assert "two words" not in done.err


def test_show_masks_keys_and_says_where_they_are_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("setup", "--no-test", "--anthropic-key", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-0123456789abcdef")
    done = invoke("setup", "--show")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"name": "anthropic.api_key", "value": "sk-a...cdef", "source": str(file)},
        {"name": "openai.api_key", "value": "sk-p...cdef", "source": "OPENAI_API_KEY"},
    ]
    assert "0123456789" not in done.out + done.err


def test_without_flags_and_terminal_it_says_what_to_do() -> None:
    done = invoke("setup")
    assert (done.code, done.err) == (
        2,
        "error: setup without flags asks questions and needs a terminal\n"
        "hint: python -m kleene setup --anthropic-key - < key.txt; python -m kleene setup --help names the flags\n",
    )


def typed(text: str) -> tuple[int, str]:
    """The dialogue with a person who types this."""
    err = Stream(tty=True)
    inv = Invocation(parse(["setup"]), Terminal(Stream(tty=True), Stream(), err, environ={}), prompt)
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(text)
        return dialogue(inv, Console()), err.getvalue()


def test_the_dialogue_tries_and_keeps_what_is_typed(file: Path) -> None:
    with FakeServer(lambda a: "ready") as server:
        code, said = typed(f"3\n{server.url}/v1\nqwen\n\n5\n")
        assert (code, server.asks[0].body["model"]) == (0, "qwen")
    assert said == f"[openai] base_url, model kept in {file}\n"
    assert load_config().openai.model == "qwen"


def test_the_dialogue_keeps_what_fails_only_when_told_to(file: Path) -> None:
    with FakeServer(lambda a: failure(401, "no")) as server:
        typed(f"3\n{server.url}/v1\nm\n{KEY}\nn\n\n")
        assert not file.exists()
        typed(f"3\n{server.url}/v1\nm\n{KEY}\ny\n\n")
    assert load_config().openai.api_key == KEY


def test_leaving_the_dialogue_keeps_nothing(file: Path) -> None:
    assert typed("1\n\x04")[0] == 0
    assert not file.exists()
