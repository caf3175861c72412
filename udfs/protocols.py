"""The seam between dispatch and models: one vendor-neutral request and reply, and the protocol that turns one into the other.

Dispatch (this floor) knows budgets, memo and retries; a handler (``kleene.models``) knows wires, keys and routes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import attrs

from kleene.planner.errors import number
from kleene.planner.specs import Price


@attrs.frozen
class ToolSpec:
    """A function that a model may call. ``parameters`` is the JSON schema of its arguments (an object) as text."""

    name: str
    description: str
    parameters: str


@attrs.frozen
class ToolUse:
    """A model's call of a function. ``arguments`` is the text that the model wrote, which should be a JSON object and may be anything."""

    id: str
    name: str
    arguments: str


@attrs.frozen
class ToolResult:
    """What a call of this ``id`` gave."""

    id: str
    text: str


@attrs.frozen
class Message:
    """``role``: user or assistant. An assistant's may have ``uses`` after its text, a user's the ``results`` of all of them before its text."""

    role: str
    text: str
    uses: tuple[ToolUse, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def more(self) -> str:
        """The uses and results as text; empty where there are none."""
        if not self.uses and not self.results:
            return ""
        return "\n".join([*(f"{u.name} {u.arguments}" for u in self.uses), *(r.text for r in self.results)])


@attrs.frozen
class Options:
    """What a caller may ask of a model besides the text. ``max_tokens`` bounds the reply, reasoning included."""

    max_tokens: int = 1024
    effort: str | None = None
    temperature: float | None = None
    seed: int | None = None
    timeout: float = 120.0
    cache_prefix: bool = True


@attrs.frozen
class Request:
    """One model request. ``schema`` is a JSON schema as text (None: free text). ``path`` names the asker for a recording:
    a session path and turn number such as ``root/3`` for a session's turn, None for a statement's call."""

    alias: str
    messages: tuple[Message, ...]
    system: str | None = None
    schema: str | None = None
    options: Options = Options()
    model: str = ""
    path: str | None = None
    wants: str = "text"  # or embedding: the reply's text is then a JSON array of numbers, or one such array (or null) a line for each message
    tools: tuple[ToolSpec, ...] = ()

    @property
    def prompt(self) -> str:
        """The last user message's text: for a statement's call, the rendered prompt. Of texts whose vectors are wanted, all, a line each."""
        if self.wants == "embedding":
            return "\n".join(m.text for m in self.messages)
        return next((m.text for m in reversed(self.messages) if m.role == "user"), "")

    def characters(self) -> int:
        """Of the messages, the system text and the tools."""
        total = len(self.system or "")
        for message in self.messages:
            total += len(message.text)
            if message.uses or message.results:
                total += len(message.more)
        for tool in self.tools:
            total += len(tool.name) + len(tool.description) + len(tool.parameters)
        return total

    def bytes_bound(self) -> int:
        """UTF-8 bytes of all texts: an upper bound of the request's input tokens for byte-level tokenizers, with 64 a message for framing."""
        total = 64 * (len(self.messages) + 2)
        for message in self.messages:
            total += bytes_of(message.text)
            if message.uses or message.results:
                total += bytes_of(message.more) + 64 * (len(message.uses) + len(message.results))
        for tool in self.tools:
            total += 64 + bytes_of(tool.name) + bytes_of(tool.description) + bytes_of(tool.parameters)
        return total + bytes_of(self.system or "") + bytes_of(self.schema or "")


def bytes_of(text: str) -> int:
    """The length of a text in UTF-8; where it is ASCII it is known without a copy."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@attrs.frozen
class Reply:
    """A model's reply. ``stop``: ``end``, ``length`` (cut by max_tokens), ``refusal``, ``other``. Token counts None: not reported.

    ``input_tokens`` excludes cache reads and writes. ``dollars`` is what the provider says it cost, None if it does not say.
    ``degraded`` says what was asked for and done in another way, or left out, for the model lacks it: ``json_schema: tool; seed: left out``.
    ``uses`` are the calls of the request's tools.
    """

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    dollars: float | None = None
    stop: str = "end"
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    model: str | None = None
    degraded: str = ""
    uses: tuple[ToolUse, ...] = ()

    @property
    def said(self) -> str:
        """The text, and the uses below it."""
        return (
            self.text
            if not self.uses
            else "\n".join([*([self.text] if self.text else []), Message("", "", self.uses).more])
        )


class ProviderError(Exception):
    """A request that brought no reply. Raised by handlers, turned into ``CallFailed`` by dispatch, never seen by users.

    ``kind``: auth, rate_limited, overloaded, network, timeout, bad_request, not_found, context_overflow, quota, malformed, other.
    ``retryable``: asking again can help. ``retry_after``: seconds the provider asks to wait. ``sent``: a request left this process, and
    counts as one. ``billed``: its tokens may be charged; False where the provider refused it before working on it. ``reroute``: the
    alias's next candidate, where there is one: send there instead of asking this one again.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        sent: bool = True,
        billed: bool | None = None,
        reroute: Route | None = None,
        hint: str | None = None,
    ):
        super().__init__(message)
        self.billed = sent if billed is None else billed
        self.reroute = reroute
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.sent = sent
        self.hint = hint


def out_of_time(model: str, seconds: float) -> ProviderError:
    """A request that had no whole reply within its time."""
    hint = "SET timeout = SECONDS allows more"
    return ProviderError("timeout", f"no reply from {model} within {number(seconds)} s", retryable=True, hint=hint)


@attrs.frozen
class Route:
    """The model an alias stands for. ``provider``, ``endpoint`` and ``model`` are the memo's key for who answers."""

    alias: str
    provider: str
    endpoint: str
    model: str
    price: Price | None = None
    context_window: int | None = None
    # A FunctionModel or local model costs no dollars, so that a dollar budget has a meaning without a price.
    free: bool = False
    # Its replies come without waiting (a Python function in the loop's own thread), so that no timeout could act on them.
    instant: bool = attrs.field(default=False, eq=False)
    # The most texts whose vectors it is asked for in one request.
    embed_batch: int = attrs.field(default=1, eq=False)

    @property
    def is_function(self) -> bool:
        """Whether a Python function answers: its endpoint is ``python``, or ``python#...`` where no name says which function it is."""
        return self.endpoint.partition("#")[0] == "python"


OnText: TypeAlias = Callable[[str], None]


class Listener(Protocol):
    """Who hears a reply as it arrives (an ``OnText``), and that what was heard of an attempt is void."""

    def __call__(self, text: str) -> None: ...

    def dropped(self, error: str, next_model: str | None) -> None:
        """The attempt broke off after some of its text was told. ``next_model`` is asked from the start; None: nobody is."""
        ...


AtOnce: TypeAlias = Callable[[Request], "Reply | None"]
"""One request answered without waiting. None: nothing was asked, and ``send`` must be used from now on. Raises ``ProviderError``."""


class CallHandler(Protocol):
    """What dispatch is given. One ``send`` is one request: no retry inside (dispatch retries, so that every request is budgeted).

    A handler may have ``at_once(route) -> AtOnce | None`` for routes that are ``instant``: then prompts are asked in blocks. One that ends each
    ``send`` in time may say ``keeps_time = True``: then its calls are not timed once more.
    """

    def route(self, alias: str) -> Route:
        """The model behind an alias. Raises ``ConfigError`` (``NoModel`` where nothing is configured)."""
        ...

    async def send(self, request: Request, route: Route, on_text: OnText | None = None) -> Reply:
        """Send one request, on trio, within its ``options.timeout``. ``on_text`` sees the reply's text as it arrives, where there is one.
        Raises ``ProviderError``; cancellation closes the request's connection."""
        ...

    async def aclose(self) -> None: ...
