"""From an alias to a model: candidates in order, failover, and one breaker an endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import attrs

from kleene.config import STANDARD_ALIASES, AliasOptions
from kleene.models.breaker import Breaker
from kleene.models.prices import Prices, load_prices
from kleene.models.provider import EMBED_HINT, Capabilities, OnText, Provider
from kleene.planner.errors import ConfigError, NoModel, did_you_mean
from kleene.udfs.protocols import AtOnce, Options, ProviderError, Reply, Request, Route, out_of_time

if TYPE_CHECKING:
    import trio

    from kleene.planner.specs import Price

Source: TypeAlias = "str | Provider"
EMBED = "embed"
OPENS_AT_ONCE = frozenset({"auth", "quota", "not_found"})
NOT_ITS_FAULT = frozenset({"bad_request", "context_overflow"})
NO_MODEL_HINT = (
    "give it one of three ways: a key in the environment (ANTHROPIC_API_KEY, or OPENAI_API_KEY with OPENAI_MODEL, or OPENAI_BASE_URL for a "
    "server of your own); a file (kleene setup, or [anthropic] / [openai] in kleene.toml); or --model provider:MODEL (models= in Python) or "
    "--model-script FILE.py:NAME"
)


@attrs.frozen
class Alias:
    """``sources`` are provider objects, or strings that become one at first use; ``options`` hold where the caller does not say."""

    sources: tuple[Source, ...]
    options: AliasOptions = attrs.field(factory=AliasOptions)


@attrs.frozen
class Health:
    """How one candidate does: for ``kleene doctor``. ``state`` is the breaker's, ``degraded`` what is done without."""

    alias: str
    route: Route
    state: str
    last_error: str | None
    degraded: tuple[str, ...]


@attrs.define(eq=False)
class _Candidate:
    route: Route
    provider: Provider
    breaker: Breaker
    options: AliasOptions
    limit: trio.CapacityLimiter | None


@attrs.define(eq=False)
class Router:
    """A ``CallHandler`` over aliases. ``make`` turns a model string into a provider; ``pricing`` are the user's prices, over those Kleene knows.

    One ``send`` is one request. A failed one names the next candidate in ``ProviderError.reroute``; who called sends there, under that
    route, so that what is remembered is remembered for the model that answered. ``route`` gives the first candidate whose breaker is not
    open. An alias of the standard four that is not defined is worker, else root, else the first that is defined.
    """

    keeps_time: ClassVar[bool] = True

    aliases: Mapping[str, Alias]
    make: Callable[[str], Provider]
    pricing: Mapping[str, Price] = attrs.field(factory=dict)
    context_windows: Mapping[str, int] = attrs.field(factory=dict)
    clock: Callable[[], float] = time.monotonic
    _prices: Prices | None = attrs.field(default=None, init=False, repr=False)
    _candidates: dict[str, tuple[_Candidate, ...]] = attrs.field(factory=dict, init=False, repr=False)
    _providers: dict[str, Provider] = attrs.field(factory=dict, init=False, repr=False)
    _breakers: dict[tuple[str, str, str], Breaker] = attrs.field(factory=dict, init=False, repr=False)

    def route(self, alias: str) -> Route:
        """The model behind an alias now. Raises ``ConfigError`` (``NoModel`` where nothing is configured)."""
        candidates = self._of(alias)
        if len(candidates) == 1:
            return candidates[0].route
        return next((c.route for c in candidates if c.breaker.allows()), candidates[0].route)

    def routes(self, alias: str) -> tuple[Route, ...]:
        """All candidates of an alias, in order: the memo is asked for each."""
        return tuple(c.route for c in self._of(alias))

    def known_aliases(self) -> tuple[str, ...]:
        """Every alias that ``route`` knows; none where nothing is configured."""
        return tuple(dict.fromkeys((*STANDARD_ALIASES, *self.aliases))) if self.aliases else ()

    def capabilities(self, route: Route) -> Capabilities:
        return self._candidate(route).provider.capabilities

    def health(self) -> tuple[Health, ...]:
        """One line a candidate of every defined alias. Raises ``ConfigError`` where one cannot be made."""
        found = []
        for alias in self.aliases:
            for c in self._of(alias):
                degraded = getattr(getattr(c.provider, "degrade", None), "notes", ())
                found.append(Health(alias, c.route, c.breaker.state, c.breaker.last_error, degraded))
        return tuple(found)

    async def send(self, request: Request, route: Route, on_text: OnText | None = None) -> Reply:
        """Send one request to the route's candidate. Raises ``ProviderError``, with ``reroute`` where another candidate is ready."""
        candidate = self._candidate(route)
        request = _with_options(request, candidate.options)
        candidate.breaker.sending()
        try:
            if candidate.limit is None:
                reply = await _in_time(candidate, request, on_text)
            else:
                async with candidate.limit:
                    reply = await _in_time(candidate, request, on_text)
        except ProviderError as error:
            self._failed(candidate, route, error)
            raise
        except BaseException:
            candidate.breaker.abandoned()
            raise
        candidate.breaker.succeeded()
        return reply

    def at_once(self, route: Route) -> AtOnce | None:
        """How a candidate that waits for nothing answers one request; None where it must be sent to."""
        candidate = self._candidate(route)
        answer = getattr(candidate.provider, "at_once", None)
        breaker, options = candidate.breaker, candidate.options
        if answer is None or not route.instant or candidate.limit is not None or breaker.state != "closed":
            return None

        def ask(request: Request) -> Reply | None:
            try:
                reply: Reply | None = answer(_with_options(request, options))
            except ProviderError as error:
                self._failed(candidate, route, error)
                raise
            if reply is not None:
                breaker.succeeded()
            return reply

        return ask

    async def aclose(self) -> None:
        """Close every provider that was used."""
        for provider in {id(c.provider): c.provider for cs in self._candidates.values() for c in cs}.values():
            await provider.aclose()

    def _failed(self, candidate: _Candidate, route: Route, error: ProviderError) -> None:
        """Count the failure, and say in it who is asked next."""
        self._judge(candidate, error)
        # A refusal that the provider has learned from is for the same candidate to hear again.
        learned = error.kind in NOT_ITS_FAULT and error.retryable
        error.reroute = None if learned else self._next(route)

    def _judge(self, candidate: _Candidate, error: ProviderError) -> None:
        if error.kind in NOT_ITS_FAULT:
            candidate.breaker.abandoned()
        else:
            candidate.breaker.failed(error.message, now=error.kind in OPENS_AT_ONCE)

    def _next(self, route: Route) -> Route | None:
        """The candidate after this one that lets requests through; never one before it, so that a request ends."""
        candidates = self._of(route.alias)
        after = [c.route for c in candidates].index(route) + 1
        return next((c.route for c in candidates[after:] if c.breaker.allows()), None)

    def _candidate(self, route: Route) -> _Candidate:
        for candidate in self._of(route.alias):
            if candidate.route is route or candidate.route == route:
                return candidate
        raise ConfigError(
            f"alias {route.alias} has no candidate {route.provider}:{route.model}", hint="ask route() again"
        )

    def _of(self, alias: str) -> tuple[_Candidate, ...]:
        found = self._candidates.get(alias)
        if found is None:
            found = self._candidates[alias] = self._made(alias, self._defined(alias))
        return found

    def _defined(self, alias: str) -> Alias:
        if not self.aliases:
            raise NoModel("no model is configured", hint=NO_MODEL_HINT)
        if alias in self.aliases:
            return self.aliases[alias]
        if alias in STANDARD_ALIASES:
            name = next((a for a in ("worker", "root") if a in self.aliases), next(iter(self.aliases)))
            return self.aliases[name]
        if alias == EMBED:
            raise ConfigError("there is no embeddings model", hint=EMBED_HINT)
        known = self.known_aliases()
        near = did_you_mean(alias, known)
        hint = (
            f"did you mean {near}?"
            if near
            else f"defined are {', '.join(known)}; [aliases.{alias}] in kleene.toml defines one"
        )
        raise ConfigError(f"there is no model alias {alias}", hint=hint)

    def _made(self, alias: str, defined: Alias) -> tuple[_Candidate, ...]:
        limit = _limiter(defined.options.concurrency)
        made = []
        for source in defined.sources:
            provider = self._provider(source)
            route = self._route_to(alias, provider, defined.options)
            breaker = self._breakers.setdefault(
                (provider.name, provider.endpoint, provider.model), Breaker(clock=self.clock)
            )
            made.append(_Candidate(route, provider, breaker, defined.options, limit))
        return tuple(made)

    def _provider(self, source: Source) -> Provider:
        if not isinstance(source, str):
            return source
        if source not in self._providers:
            self._providers[source] = self.make(source)
        return self._providers[source]

    def _known_prices(self) -> Prices:
        """Read when the first model that has a price is routed to: the file is a tenth of what opening an engine took."""
        if self._prices is None:
            self._prices = load_prices().with_rows(self.pricing)
        return self._prices

    def _route_to(self, alias: str, provider: Provider, options: AliasOptions) -> Route:
        price = provider.price or (None if provider.free else self._known_prices().of(provider.model))
        known = self.context_windows.get(provider.model)
        window = (
            provider.context_window or known or (None if provider.free else self._known_prices().window(provider.model))
        )
        return Route(
            alias,
            provider.name,
            provider.endpoint,
            provider.model + _variant(options),
            price,
            window,
            provider.free,
            instant=getattr(provider, "instant", False),
            embed_batch=provider.capabilities.embed_batch,
        )


def _limiter(concurrency: int | None) -> trio.CapacityLimiter | None:
    if concurrency is None:
        return None
    import trio

    return trio.CapacityLimiter(concurrency)


async def _in_time(candidate: _Candidate, request: Request, on_text: OnText | None) -> Reply:
    """One request within its time: a model that hangs has failed like one that says so, and the next one is asked."""
    if candidate.route.instant:
        return await candidate.provider.send(request, on_text)
    import trio  # a router is made with every engine, also with those that never call

    timeout = request.options.timeout
    with trio.move_on_after(timeout) as scope:
        return await candidate.provider.send(request, on_text)
    assert scope.cancelled_caught
    raise out_of_time(candidate.route.model, timeout)


def _variant(options: AliasOptions) -> str:
    """What an alias's own options add to the model's name in a route: they change answers, so they are part of the memo's key."""
    parts = [f"{name}={value}" for name in ("effort", "temperature") if (value := getattr(options, name)) is not None]
    return "@" + ",".join(parts) if parts else ""


def _with_options(request: Request, options: AliasOptions) -> Request:
    asked = request.options
    effort = asked.effort if asked.effort is not None else options.effort
    temperature = asked.temperature if asked.temperature is not None else options.temperature
    cache = asked.cache_prefix if options.cache_prefix is None else options.cache_prefix
    if (effort, temperature, cache) == (asked.effort, asked.temperature, asked.cache_prefix):
        return request
    return attrs.evolve(
        request, options=Options(asked.max_tokens, effort, temperature, asked.seed, asked.timeout, cache)
    )


def sources_of(value: Source | Sequence[Source]) -> tuple[Source, ...]:
    """One source or a list of them, as a tuple."""
    return (value,) if isinstance(value, str) or not isinstance(value, Sequence) else tuple(value)
