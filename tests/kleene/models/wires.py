"""What the tests of providers share: the three wires over a server, and one way to run a coroutine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from kleene.models import Anthropic, OpenAI, Responses
from kleene.models.http_provider import HttpProvider
from kleene.udfs.protocols import Message, Options, ProviderError, Reply, Request

T = TypeVar("T")
WIRES: dict[str, Callable[..., HttpProvider]] = {"openai": OpenAI, "anthropic": Anthropic, "responses": Responses}
BOOL = '{"type": "object", "properties": {"answer": {"type": "boolean"}}, "required": ["answer"], "additionalProperties": false}'


def provider(wire: str, url: str, **options: Any) -> HttpProvider:
    options.setdefault("api_key", "sk-test-0123456789abcdef")
    return WIRES[wire]("fake-1", base_url=url if wire == "anthropic" else url + "/v1", **options)


def ask(
    prompt: str = "Is apple red?", *, system: str | None = None, schema: str | None = None, **options: Any
) -> Request:
    return Request("worker", (Message("user", prompt),), system, schema, Options(**options))


def run(work: Callable[[], Awaitable[T]], within: float = 20.0) -> T:
    """Run on trio, with a time limit for the test's own sake."""

    async def main() -> T:
        with trio.fail_after(within):
            return await work()

    return trio.run(main)


def send(
    model: HttpProvider, request: Request, on_text: Callable[[str], None] | None = None, within: float = 20.0
) -> Reply:
    """One request in a loop of its own, connections closed."""

    async def work() -> Reply:
        try:
            return await model.send(request, on_text)
        finally:
            await model.aclose()

    return run(work, within)


def fail(
    model: HttpProvider, request: Request | None = None, on_text: Callable[[str], None] | None = None
) -> ProviderError:
    """The error that a request ends with."""
    try:
        reply = send(model, request or ask(), on_text)
    except ProviderError as error:
        return error
    raise AssertionError(f"no error but {reply}")
