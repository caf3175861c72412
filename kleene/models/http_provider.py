"""What the three HTTP wires share: one request out, one reply or one stream of events back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, Protocol

import attrs

from kleene.models.degrade import Degrade
from kleene.models.failures import from_body, malformed
from kleene.models.http import Endpoint, HttpReply, json_of, public_url
from kleene.models.provider import Capabilities, OnText
from kleene.models.sse import SseEvent, SseParser
from kleene.planner.specs import Price
from kleene.udfs.jsontext import clean
from kleene.udfs.protocols import Message, ProviderError, Reply, Request


class Fold(Protocol):
    """Gathers a stream's events into a reply."""

    def take(self, value: Any, event: str) -> None:
        """One event's JSON and its name."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the stream said that the reply ended."""
        ...

    def whole(self) -> Any:
        """The JSON that the same request would have brought without streaming."""
        ...


class HttpProvider:
    """One model behind one HTTP endpoint. ``price`` None: looked up by the router. ``extra`` is merged into every request's body."""

    name: ClassVar[str] = "http"
    path: ClassVar[str] = "/"

    def __init__(
        self,
        model: str,
        connection: Endpoint,
        *,
        price: Price | None = None,
        context_window: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.connection = connection
        self.price = price
        self.context_window = context_window
        self.free = False
        self.extra = dict(extra or {})
        self.degrade = Degrade()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.endpoint!r})"

    @property
    def endpoint(self) -> str:
        return public_url(self.connection.base_url)

    @property
    def capabilities(self) -> Capabilities:
        raise NotImplementedError

    def body(self, request: Request) -> dict[str, Any]:
        """The request as this wire writes it."""
        raise NotImplementedError

    def read(self, value: Any, request: Request) -> Reply:
        """The reply out of this wire's JSON. Raises ``ProviderError`` (malformed) where it is none."""
        raise NotImplementedError

    def fold(self, on_text: OnText) -> Fold:
        raise NotImplementedError

    async def send(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send one request on trio; no retry. With ``on_text`` the reply is streamed. Raises ``ProviderError``; cancellation closes the connection."""
        body = {**self.body(request), **self.extra}
        if request.model:
            body["model"] = request.model
        try:
            if on_text is None:
                reply = await self.connection.post(self.path, body, request.options.timeout)
                return self._whole(request, reply.headers, json_of(self.connection.origin, reply))
            return await self._streamed(request, body, on_text)
        except ProviderError as error:
            raise self._learned(request, error) from None

    async def aclose(self) -> None:
        """Close the connections of the running trio loop."""
        await self.connection.aclose()

    def _whole(self, request: Request, headers: Mapping[str, str], value: Any) -> Reply:
        error = from_body(self.connection.origin, headers, value)
        if error is not None:
            raise error
        try:
            reply = self.read(value, request)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            raise self.malformed(value) from None
        return attrs.evolve(reply, text=clean(reply.text))

    async def _streamed(self, request: Request, body: dict[str, Any], on_text: OnText) -> Reply:
        origin = self.connection.origin
        fold = self.fold(on_text)
        async with self.connection.stream(self.path, {**body, **self.streaming()}, request.options.timeout) as (
            headers,
            chunks,
        ):
            if "json" in headers.get("content-type", ""):
                data = b"".join([chunk async for chunk in chunks])
                reply = self._whole(request, headers, json_of(origin, HttpReply(headers, data)))
                on_text(reply.text)
                return reply
            async for event in _events(chunks):
                if event.data == "[DONE]":
                    continue
                value = _json(event.data)
                error = from_body(origin, headers, value)
                if error is not None:
                    error.billed = True
                    raise error
                try:
                    fold.take(value, event.event)
                except (KeyError, IndexError, TypeError, AttributeError, ValueError):
                    raise self.malformed(value) from None
        if not fold.complete:
            raise ProviderError(
                "network",
                f"{origin.provider} ({origin.model}): the stream ended before the reply was complete",
                retryable=True,
            )
        return self._whole(request, headers, fold.whole())

    def streaming(self) -> dict[str, Any]:
        """What is added to the body of a streamed request."""
        return {"stream": True}

    def malformed(self, value: Any) -> ProviderError:
        text = json.dumps(value)
        return malformed(self.connection.origin, text if len(text) <= 120 else text[:117] + "...")

    def _learned(self, request: Request, error: ProviderError) -> ProviderError:
        options = request.options
        if error.kind == "bad_request" and self.degrade.learn(
            error.message,
            had_schema=request.schema is not None,
            had_effort=options.effort is not None,
            had_seed=options.seed is not None,
        ):
            error.retryable = True
        return error


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[SseEvent]:
    parser = SseParser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
    for event in parser.close():
        yield event


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def with_line(messages: tuple[Message, ...], line: str) -> tuple[Message, ...]:
    """The messages with a line under the last one: how a schema is asked for in words."""
    *before, last = messages
    return (*before, Message(last.role, f"{last.text}\n\n{line}"))


def count(usage: Any, *path: str) -> int:
    """A token count out of a usage block; 0 where it is missing or no number."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return int(usage) if isinstance(usage, int | float) and not isinstance(usage, bool) and usage >= 0 else 0


def reported(*counts: int) -> bool:
    """Whether a usage block says anything: one that is all zeros is what servers send that do not count."""
    return any(counts)


def cost(usage: Any) -> float | None:
    """What the provider says the request cost, in dollars."""
    for name in ("cost_usd", "cost"):
        value = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
    return None
