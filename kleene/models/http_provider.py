"""What the three HTTP wires share: one request out, one reply or one stream of events back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import attrs

from kleene.models.degrade import Degrade
from kleene.models.failures import from_body, malformed
from kleene.models.http import Endpoint, HttpReply, json_of, public_url
from kleene.models.provider import EMBED_HINT, Capabilities, OnText
from kleene.models.sse import SseEvent, SseParser
from kleene.models.tool_words import in_words, read_uses
from kleene.planner.specs import AnswerType, Price
from kleene.udfs.answers import schema_for
from kleene.udfs.jsontext import clean
from kleene.udfs.protocols import Message, ProviderError, Reply, Request

W = TypeVar("W")
LEFT_OUT = "left out"
OTHER_FORM = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)
"""What reading JSON raises that has another form than the wire says."""
MOST_TOKENS = 10**12
MOST_DOLLARS = 1e6
"""Beyond these a figure of one request is a mistake; the books could not hold it."""
SCORE = schema_for(AnswerType("score", "DOUBLE"))


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


class HttpProvider(ABC):
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
        self._wires: dict[tuple[str, Any], Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.endpoint!r})"

    @property
    def endpoint(self) -> str:
        return public_url(self.connection.base_url)

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """The request as this wire writes it."""

    def lacks(self, request: Request) -> dict[str, str]:
        """What this request asks for that goes another way or is left out: name → what is done. As of now, so it is read with the body."""
        options, degrade = request.options, self.degrade
        found = {}
        if request.schema is not None and degrade.structured != "schema":
            found["json_schema"] = degrade.structured
        if request.tools and not degrade.tools:
            found["tools"] = "text"
        if is_score(request):
            found["logprobs"] = "a number in the reply"
        if options.effort is not None and not degrade.effort:
            found["effort"] = LEFT_OUT
        if options.temperature is not None and not degrade.temperature:
            found["temperature"] = LEFT_OUT
        if options.seed is not None and not degrade.seed:
            found["seed"] = LEFT_OUT
        return found

    @abstractmethod
    def read(self, value: Any, request: Request) -> Reply:
        """The reply out of this wire's JSON. Raises ``ProviderError`` (malformed) where it is none."""

    @abstractmethod
    def fold(self, on_text: OnText) -> Fold:
        """What puts a streamed reply together again."""

    async def send(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Send one request on trio; no retry. With ``on_text`` the reply is streamed. Raises ``ProviderError``; cancellation closes the connection."""
        if request.wants == "embedding":
            return await self.embed(request)
        lacks = self.lacks(request)  # now: what is learned meanwhile is of later requests
        asked, words = request, bool(request.tools) and not self.degrade.tools
        if words:
            request = in_words(request)
        body = {**self.body(request), **self.extra}
        try:
            if on_text is None:
                answer = await self.connection.request(self.path, body, request.options.timeout)
                reply = self._whole(request, answer.headers, json_of(self.connection.origin, answer))
            else:
                reply = await self._streamed(request, body, on_text)
        except ProviderError as error:
            raise self._learned(asked, error) from None
        if words:
            reply = read_uses(reply)
        return reply if not lacks else attrs.evolve(reply, degraded=said(lacks))

    async def embed(self, request: Request) -> Reply:
        """One text's vector. Raises ``ProviderError`` where the wire has none."""
        raise no_embeddings(self.name, self.model)

    async def aclose(self) -> None:
        """Close the connections of the running trio loop."""
        await self.connection.aclose()

    def _whole(self, request: Request, headers: Mapping[str, str], value: Any) -> Reply:
        error = from_body(self.connection.origin, headers, value)
        if error is not None:
            raise error
        try:
            reply = _encodable(self.read(value, request))
        except OTHER_FORM:
            raise self.malformed(value) from None
        if request.schema is not None:
            self.degrade.saw(reply)
        return reply

    async def _streamed(self, request: Request, body: dict[str, Any], on_text: OnText) -> Reply:
        stream = _Stream(self, on_text)
        reply = await self.connection.request(
            self.path, {**body, **self.streaming()}, request.options.timeout, stream.take
        )
        if stream.unstreamed is not None:
            whole = self._whole(
                request,
                reply.headers,
                json_of(self.connection.origin, HttpReply(reply.headers, b"".join(stream.unstreamed))),
            )
            on_text(whole.text)
            return whole
        return self._whole(request, reply.headers, stream.whole(reply.headers))

    def wire(self, schema: str, form: Callable[[str], W]) -> W:
        """The schema in this wire's form, made once for the requests of a statement."""
        key = (schema, form)
        if key not in self._wires:
            if len(self._wires) >= 64:
                self._wires.clear()
            self._wires[key] = form(schema)
        found: W = self._wires[key]
        return found

    def streaming(self) -> dict[str, Any]:
        """What is added to the body of a streamed request."""
        return {"stream": True}

    def malformed(self, value: Any) -> ProviderError:
        text = self.connection.origin.scrub(json.dumps(value))
        return malformed(self.connection.origin, text if len(text) <= 120 else text[:117] + "...")

    def _learned(self, request: Request, error: ProviderError) -> ProviderError:
        if error.kind == "bad_request" and self.degrade.learn(error.message, request):
            error.retryable = True
        return error


class _Stream:
    """A streamed reply as its bytes come: events into the wire's fold. ``unstreamed`` gathers the bytes of a server that does not stream."""

    def __init__(self, provider: HttpProvider, on_text: OnText) -> None:
        self.unstreamed: list[bytes] | None = None
        self._provider = provider
        self._fold = provider.fold(_whole_characters(on_text))
        self._parser = SseParser()

    def take(self, headers: Mapping[str, str], data: bytes) -> None:
        if "json" in headers.get("content-type", "").lower():
            self.unstreamed = [] if self.unstreamed is None else self.unstreamed
            self.unstreamed.append(data)
            return
        for event in self._parser.feed(data):
            self._event(headers, event)

    def whole(self, headers: Mapping[str, str]) -> Any:
        """The JSON of the whole reply. Raises ``ProviderError`` where the stream ended before it said so."""
        for event in self._parser.close():
            if not _is_cut(event.data):
                self._event(headers, event)
        if not self._fold.complete:
            origin = self._provider.connection.origin
            message = f"{origin.provider} ({origin.model}): the stream ended before the reply was complete"
            raise ProviderError("network", message, retryable=True)
        try:
            return self._fold.whole()
        except OTHER_FORM:
            raise self._provider.malformed("its events do not fit together") from None

    def _event(self, headers: Mapping[str, str], event: SseEvent) -> None:
        if event.data == "[DONE]":
            return
        value = _json(event.data)
        error = from_body(self._provider.connection.origin, headers, value)
        if error is not None:
            error.billed = True
            raise error
        try:
            self._fold.take(value, event.event)
        except OTHER_FORM:
            raise self._provider.malformed(value) from None


def _encodable(reply: Reply) -> Reply:
    """The reply without halves of characters, which JSON can hold and no file and no terminal takes."""
    uses = tuple(attrs.evolve(u, name=clean(u.name), arguments=clean(u.arguments)) for u in reply.uses)
    model = None if reply.model is None else clean(reply.model)
    return attrs.evolve(reply, text=clean(reply.text), model=model, uses=uses)


def _whole_characters(on_text: OnText) -> OnText:
    """Where a server cuts a character in two, as JSON can, its first half waits for the second, for ever where none comes."""
    half = ""

    def take(text: str) -> None:
        nonlocal half
        text, half = half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, half = text[:-1], text[-1]
        if text:
            on_text(clean(text))

    return take


def _is_cut(text: str) -> bool:
    """Whether an event without its end is the beginning of one: it was not what the server had to say."""
    return text == "" or (text[0] in "{[" and text != "[DONE]" and isinstance(_json(text), str))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def said(lacks: Mapping[str, str]) -> str:
    """What a request went without, in one line.

    >>> said({"json_schema": "tool", "seed": "left out"})
    'json_schema: tool; seed: left out'
    """
    return "; ".join(f"{name}: {instead}" for name, instead in lacks.items())


def is_score(request: Request) -> bool:
    """Whether a score is asked for, which is best read from the next token's log-probabilities."""
    return request.schema is not None and request.schema == SCORE


def no_embeddings(name: str, model: str) -> ProviderError:
    return ProviderError("not_found", f"{name} ({model}) makes no embeddings", sent=False, hint=EMBED_HINT)


def with_line(messages: tuple[Message, ...], line: str) -> tuple[Message, ...]:
    """The messages with a line under the last one: how a schema is asked for in words."""
    *before, last = messages
    return (*before, Message(last.role, f"{last.text}\n\n{line}"))


def count(usage: Any, *path: str) -> int:
    """A token count out of a usage block; 0 where it is missing or no number that can be."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    is_number = isinstance(usage, int | float) and not isinstance(usage, bool)
    return int(usage) if is_number and 0 <= usage <= MOST_TOKENS else 0


def reported(*counts: int) -> bool:
    """Whether a usage block says anything: one that is all zeros is what servers send that do not count."""
    return any(counts)


def cost(usage: Any) -> float | None:
    """What the provider says the request cost, in dollars; None where it says nothing that can be."""
    for name in ("cost_usd", "cost"):
        value = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_DOLLARS:
            return float(value)
    return None
