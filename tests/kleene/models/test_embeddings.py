"""Vectors: the openai wire, Python functions, and who is asked for them where nobody said."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kleene.config import Access, AliasConfig, Config
from kleene.models import Anthropic, FunctionModel, build_handler
from kleene.models.recording import fingerprint
from kleene.planner.errors import ConfigError
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import Answered, AnswerReader, Unknown
from kleene.udfs.protocols import Message, ProviderError, Reply, Request, Route
from tests.fake_server import FakeServer, Raw, Say, failure
from tests.kleene.models.wires import fail, provider, run, send

ASK = Request("embed", (Message("user", "a red apple"),), wants="embedding")
READER = AnswerReader.of(AnswerType("embedding", "FLOAT[]"))
OPENAI_KEY = Access(api_key="k")


def test_a_text_is_sent_and_its_vector_is_the_reply() -> None:
    with FakeServer(lambda a: Say("[0.25, -1e-05, 2]", usage=(4, 0))) as server:
        reply = send(provider("openai", server.url), ASK)
    assert reply == Reply("[0.25,-1e-05,2]", 4, 0, model="fake-1")
    assert server.asks[0].path == "/v1/embeddings"
    assert server.asks[0].body == {"model": "fake-1", "input": "a red apple", "encoding_format": "float"}


@pytest.mark.parametrize("wire", ["anthropic", "responses"])
def test_a_wire_without_vectors_says_so_and_sends_nothing(wire: str) -> None:
    with FakeServer(lambda a: "no") as server:
        error = fail(provider(wire, server.url), ASK)
        assert server.count == 0
    assert (error.kind, error.sent, error.message) == ("not_found", False, f"{wire} (fake-1) makes no embeddings")
    assert error.hint == (
        'name one that makes vectors: [aliases.embed] candidates = ["openai:text-embedding-3-small"] in kleene.toml, '
        "or --model embed=local"
    )


def test_a_reply_without_a_vector_is_malformed() -> None:
    with FakeServer(lambda a: Raw(b'{"data": []}', 200, {"content-type": "application/json"})) as server:
        assert fail(provider("openai", server.url), ASK).kind == "malformed"


def test_a_text_that_is_too_long_is_an_overflow() -> None:
    with FakeServer(lambda a: failure(400, "input is too long", "invalid_request_error")) as server:
        assert fail(provider("openai", server.url), ASK).kind == "context_overflow"


@pytest.mark.parametrize("found", [[1, 0.5], (1, 0.5), "[1.0,0.5]"], ids=["list", "tuple", "text"])
def test_a_function_may_return_numbers(found: Any) -> None:
    model = FunctionModel(lambda request: found)
    assert run(lambda: model.send(ASK)).text == "[1.0,0.5]"


def test_a_function_that_returns_none_of_these_is_told_what_to_return() -> None:
    with pytest.raises(ProviderError) as error:
        run(lambda: FunctionModel(lambda request: {"a": 1}).send(ASK))
    assert error.value.hint == 'request.wants is "embedding": return a list of numbers'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2.5]", Answered("[1, 2.5]")),
        ("true", Unknown("unreadable", 'the reply is "true", not a list of numbers')),
        ("[]", Unknown("unreadable", 'the reply is "[]", not a list of numbers')),
        ("[1, null]", Unknown("schema", 'the reply is "[1, null]", not a list of numbers that a FLOAT holds')),
        ("[1e39]", Unknown("schema", 'the reply is "[1e39]", not a list of numbers that a FLOAT holds')),
        ("[NaN]", Unknown("schema", 'the reply is "[NaN]", not a list of numbers that a FLOAT holds')),
        ("[true]", Unknown("schema", 'the reply is "[true]", not a list of numbers that a FLOAT holds')),
    ],
)
def test_only_a_list_of_numbers_is_a_vector(text: str, expected: Answered | Unknown) -> None:
    assert READER.read(Reply(text)) == expected


def test_a_recording_tells_a_vector_from_a_reply_to_the_same_text() -> None:
    route = Route("embed", "local", "in process", "m")
    assert fingerprint(ASK, route) != fingerprint(attrs.evolve(ASK, wants="text"), route)


def embedder(models: Any, config: Config | None = None) -> str:
    route = build_handler(models, config or Config()).route("embed")
    return f"{route.provider}:{route.model}"


def test_who_makes_vectors_follows_from_what_is_configured() -> None:
    own = Access(base_url="http://127.0.0.1:9/v1", model="nomic")
    assert embedder(None, Config(openai=OPENAI_KEY)) == "openai:text-embedding-3-small"
    assert embedder(None, Config(openai=own)) == "openai:nomic"
    assert embedder(None, Config(anthropic=OPENAI_KEY, openai=OPENAI_KEY)) == "openai:text-embedding-3-small"
    assert embedder(FunctionModel(str, name="f")) == "f:f"
    assert (
        embedder({"worker": Anthropic("c", api_key="k")}, Config(openai=OPENAI_KEY)) == "openai:text-embedding-3-small"
    )
    chosen = Config(openai=OPENAI_KEY, aliases={"embed": AliasConfig(("openai:text-embedding-3-large",))})
    assert embedder(None, chosen) == "openai:text-embedding-3-large"


def test_without_anyone_who_makes_vectors_the_error_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError) as error:
        embedder(None, Config(anthropic=Access(api_key="k")))
    assert error.value.message == "there is no embeddings model"
    assert error.value.hint is not None and "[aliases.embed]" in error.value.hint
