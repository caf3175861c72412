"""One tiny request to see whether a model can be reached with the key it was given."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import attrs
import trio

from kleene.models.provider import Handler, Provider
from kleene.planner.errors import KleeneError
from kleene.udfs.protocols import Message, Options, ProviderError, Reply, Request, Route

PROMPT = "Reply with the word ready."
TOKENS = 16
TIMEOUT_S = 30.0
REACHED = ("rate_limited", "overloaded")


@attrs.frozen
class Probe:
    """What came of it. ``reached``: the endpoint took the key, even where it had no time for an answer (``error`` says so)."""

    reached: bool
    seconds: float
    error: str | None = None
    hint: str | None = None
    degraded: str = ""


def probe(provider: Provider) -> Probe:
    """Ask a provider one thing and close its connections. Every failure is told in the result; nothing is retried."""

    async def once(request: Request) -> Reply:
        return await provider.send(request)

    return trio.run(_probed, once, _request("text"), provider.aclose)


def probe_routes(handler: Handler, routes: tuple[Route, ...]) -> tuple[Probe, ...]:
    """Ask the models of these routes one after the other, through their handler, and close it."""
    return trio.run(_all, handler, routes)


async def _all(handler: Handler, routes: tuple[Route, ...]) -> tuple[Probe, ...]:
    found = []
    for route in routes:

        async def once(request: Request, route: Route = route) -> Reply:
            return await handler.send(request, route)

        wants = "embedding" if route.alias == "embed" else "text"
        found.append(await _probed(once, _request(wants)))
    await handler.aclose()
    return tuple(found)


def _request(wants: str) -> Request:
    options = Options(max_tokens=TOKENS, timeout=TIMEOUT_S)
    return Request("worker", (Message("user", PROMPT),), options=options, wants=wants)


async def _probed(
    once: Callable[[Request], Awaitable[Reply]], request: Request, close: Callable[[], Awaitable[None]] | None = None
) -> Probe:
    started = time.monotonic()
    try:
        with trio.fail_after(TIMEOUT_S):
            reply = await _learning(once, request)
        return Probe(True, time.monotonic() - started, degraded=reply.degraded)
    except ProviderError as error:
        return Probe(error.kind in REACHED, time.monotonic() - started, error.message, error.hint)
    except KleeneError as error:
        return Probe(False, time.monotonic() - started, error.message, error.hint)
    except trio.TooSlowError:
        return Probe(False, TIMEOUT_S, f"no answer within {TIMEOUT_S:.0f} s", "check the base URL")
    finally:
        if close is not None:
            with trio.CancelScope(shield=True):
                await close()


async def _learning(once: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """Ask again where the endpoint refused a parameter that can be left out (``max_tokens`` has two names)."""
    try:
        return await once(request)
    except ProviderError as error:
        if error.kind != "bad_request" or not error.retryable:
            raise
    return await once(request)
