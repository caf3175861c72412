"""What a model provider is: one request to one reply, and what it can do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from kleene.planner.specs import Price
from kleene.udfs.protocols import OnText as OnText
from kleene.udfs.protocols import ProviderError, Reply, Request, Route

EMBED_HINT = 'name one that makes vectors: [aliases.embed] candidates = ["openai:text-embedding-3-small"] in kleene.toml, or --model embed=local'


@attrs.frozen
class Capabilities:
    """What a model has, as it is asked here. ``logprobs``: scores are read from log-probabilities. ``context_window`` is in tokens, None: not
    known. ``batch``: the most items worth asking for in one request; ``embed_batch``: the most texts whose vectors are."""

    streaming: bool = False
    tools: bool = False
    json_schema: bool = False
    prompt_cache: bool = False
    reasoning_control: bool = False
    cost_reported: bool = False
    logprobs: bool = False
    embeddings: bool = False
    context_window: int | None = None
    batch: int = 20
    embed_batch: int = 1

    @property
    def lacks(self) -> tuple[str, ...]:
        """What calls go without, by the names that ``trace_calls.degraded`` has for it.

        >>> Capabilities(json_schema=True, prompt_cache=True).lacks
        ('logprobs', 'effort')
        """
        has = {
            "json_schema": self.json_schema,
            "logprobs": self.logprobs,
            "effort": self.reasoning_control,
            "prompt_cache": self.prompt_cache,
        }
        return tuple(name for name, there in has.items() if not there)


class Provider(Protocol):
    """One model behind one endpoint. ``free``: it costs no dollars. ``price`` None and not free: unpriced."""

    @property
    def name(self) -> str: ...

    @property
    def endpoint(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def price(self) -> Price | None: ...

    @property
    def context_window(self) -> int | None: ...

    @property
    def free(self) -> bool: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def send(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send one request on trio; no retry. ``on_text`` sees the reply's text as it arrives, where the provider streams, else once.

        Raises ``ProviderError``. Cancellation closes the request's connection.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections opened in the running trio loop. The provider can be used again."""
        ...


def one_text_only(name: str, model: str) -> ProviderError:
    """For who asks for several vectors at once of a model that has not the like: ask again for each alone."""
    return ProviderError("bad_request", f"{name} ({model}) takes one text at a time", sent=False)


def vector_text(vector: Iterable[Any]) -> str:
    """A vector as the text of a reply: a JSON array.

    >>> vector_text([0.25, -1e-05, 2])
    '[0.25,-1e-05,2]'
    """
    return json.dumps(list(vector), separators=(",", ":"))


class Handler(Protocol):
    """A ``CallHandler`` that can also hand a reply's text over as it arrives, and says which aliases it knows."""

    def route(self, alias: str) -> Route: ...

    def known_aliases(self) -> tuple[str, ...]: ...

    async def send(self, request: Request, route: Route, on_text: OnText | None = None) -> Reply: ...

    async def aclose(self) -> None: ...
