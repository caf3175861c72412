"""Aliases, failover and breakers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from kleene.config import AliasOptions
from kleene.models import FunctionModel, Reply, Router
from kleene.models.breaker import Breaker
from kleene.models.router import Alias
from kleene.planner.errors import ConfigError, NoModel
from kleene.planner.specs import Price
from kleene.udfs.protocols import ProviderError, Request, Route
from tests.kleene.models.wires import ask, run


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Model:
    """A scripted model: fails with what stands in ``fails``, else answers with its name."""

    def __init__(self, name: str, *fails: str, retryable: bool = True) -> None:
        self.fails = list(fails)
        self.asked: list[Request] = []
        self.retryable = retryable
        self.model = FunctionModel(self.answer, name=name)

    def answer(self, request: Request) -> str:
        self.asked.append(request)
        if self.fails:
            raise ProviderError(self.fails.pop(0), "down", retryable=self.retryable)
        return self.model.name


def router(clock: Callable[[], float] | None = None, **aliases: Any) -> Router:
    made = {
        name: value if isinstance(value, Alias) else Alias(tuple(v.model for v in value))
        for name, value in aliases.items()
    }
    return Router(made, lambda text: FunctionModel(lambda r: text, name=text), clock=clock or Clock())


async def through(handler: Router, alias: str = "worker", tries: int = 5) -> str:
    """What a dispatcher does: send, and on a failure go where the error says."""
    route = handler.route(alias)
    for _ in range(tries):
        try:
            return (await handler.send(ask(), route)).text
        except ProviderError as error:
            if error.reroute is None and not error.retryable:
                return error.kind
            route = error.reroute or route
    return "gave up"


def send(handler: Router, route: Route) -> Reply | ProviderError:
    async def work() -> Reply | ProviderError:
        try:
            return await handler.send(ask(), route)
        except ProviderError as error:
            return error

    return run(work)


@pytest.mark.parametrize("alias", ["root", "worker", "proxy", "judge"])
def test_the_standard_aliases_fall_back_to_worker(alias: str) -> None:
    handler = router(root=[Model("r")], worker=[Model("w")])
    assert handler.route(alias).model == ("r" if alias == "root" else "w")


def test_one_model_of_any_alias_stands_for_all_four() -> None:
    assert router(proxy=[Model("p")]).route("judge") == Route("judge", "p", "python", "p", None, None, True)


def test_an_unknown_alias_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as error:
        router(worker=[Model("w")], reviewer=[Model("v")]).route("reviewr")
    assert (error.value.message, error.value.hint) == ("there is no model alias reviewr", "did you mean reviewer?")
    with pytest.raises(ConfigError) as error:
        router(worker=[Model("w")]).route("zzz")
    assert error.value.hint == "defined are root, worker, proxy, judge; [aliases.zzz] in kleene.toml defines one"


def test_nothing_configured_names_the_three_ways() -> None:
    with pytest.raises(NoModel) as error:
        router().route("worker")
    assert error.value.message == "no model is configured"
    assert error.value.hint == (
        "give it one of three ways: a key in the environment (ANTHROPIC_API_KEY, or OPENAI_API_KEY with OPENAI_MODEL, or OPENAI_BASE_URL for a "
        "server of your own); a file (kleene setup, or [anthropic] / [openai] in kleene.toml); or --model provider:MODEL (models= in Python) or "
        "--model-script FILE.py:NAME"
    )


def test_a_failure_names_the_next_candidate_and_the_last_one_none() -> None:
    handler = router(
        worker=[
            Model("a", "overloaded"),
            Model("b", "bad_request", retryable=False),
            Model("c", "auth", retryable=False),
        ]
    )
    a, b, c = handler.routes("worker")
    errors = [send(handler, route) for route in (a, b, c)]
    assert [e.reroute for e in errors if isinstance(e, ProviderError)] == [b, c, None]


def test_a_refusal_that_was_learned_from_stays_with_its_candidate() -> None:
    def refuse(request: Request) -> str:
        raise ProviderError("bad_request", "response_format is not supported", retryable=True)

    handler = Router({"worker": Alias((FunctionModel(refuse), Model("b").model))}, FunctionModel)  # type: ignore[arg-type]
    error = send(handler, handler.route("worker"))
    assert isinstance(error, ProviderError) and error.retryable and error.reroute is None


def test_the_request_ends_where_the_candidates_do() -> None:
    first, second = Model("a", "overloaded"), Model("b")
    assert run(lambda: through(router(worker=[first, second]))) == "b"
    assert (len(first.asked), len(second.asked)) == (1, 1)
    assert (
        run(lambda: through(router(worker=[Model("a", "auth", retryable=False), Model("b", "quota", retryable=False)])))
        == "quota"
    )


def test_three_failures_open_the_circuit_for_30_s_then_one_trial_decides() -> None:
    clock = Clock()
    first, second = Model("a", *["overloaded"] * 4), Model("b")
    handler = router(clock, worker=[first, second])
    a, b = handler.routes("worker")
    for _ in range(2):
        send(handler, a)
    assert handler.route("worker") == a
    send(handler, a)
    assert handler.route("worker") == b
    clock.now = 29.9
    assert handler.route("worker") == b
    clock.now = 30
    assert handler.route("worker") == a
    send(handler, a)
    assert handler.route("worker") == b
    clock.now = 60
    send(handler, handler.route("worker"))
    assert (handler.route("worker"), handler.health()[0].state) == (a, "closed")


@pytest.mark.parametrize("kind", ["auth", "quota", "not_found"])
def test_what_asking_again_cannot_mend_opens_the_circuit_at_once(kind: str) -> None:
    handler = router(worker=[Model("a", kind), Model("b")])
    send(handler, handler.route("worker"))
    assert handler.route("worker").model == "b"
    assert (handler.health()[0].state, handler.health()[0].last_error) == ("open", "down")


@pytest.mark.parametrize("kind", ["bad_request", "context_overflow"])
def test_a_request_that_is_itself_at_fault_does_not_count(kind: str) -> None:
    handler = router(worker=[Model("a", *[kind] * 9), Model("b")])
    a = handler.route("worker")
    for _ in range(9):
        send(handler, a)
    assert handler.route("worker") == a


def test_only_one_trial_is_out_at_a_time_and_a_cancelled_one_frees_the_place() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(3):
        breaker.failed("x")
    clock.now = 30
    assert breaker.allows()
    breaker.sending()
    assert not breaker.allows()
    breaker.abandoned()
    assert breaker.allows()


def test_a_cancelled_request_says_nothing_about_the_model() -> None:
    async def slow(request: Request) -> str:
        await trio.sleep(5)
        return "x"

    handler = Router({"worker": Alias((FunctionModel(slow),))}, FunctionModel)  # type: ignore[arg-type]

    async def work() -> None:
        for _ in range(4):
            with trio.move_on_after(0.01):
                await handler.send(ask(), handler.route("worker"))

    run(work)
    assert handler.health()[0].state == "closed"


def test_one_candidate_is_asked_even_when_its_circuit_is_open() -> None:
    model = Model("a", *["overloaded"] * 3)
    handler = router(worker=[model])
    for _ in range(3):
        send(handler, handler.route("worker"))
    assert run(lambda: through(handler)) == "a"


def test_an_endpoint_has_one_circuit_for_all_its_aliases() -> None:
    first, second = Model("a", "auth"), Model("b")
    handler = router(worker=[first, second], judge=[first, second])
    send(handler, handler.route("worker"))
    assert handler.route("judge").model == "b"


def test_an_aliass_options_apply_where_the_caller_does_not_say_and_are_part_of_the_key() -> None:
    model = Model("m")
    handler = router(worker=Alias((model.model,), AliasOptions(effort="high", temperature=0.5, cache_prefix=False)))
    route = handler.route("worker")
    assert route.model == "m@effort=high,temperature=0.5"

    async def work() -> None:
        await handler.send(ask(), route)
        await handler.send(ask(effort="low"), route)

    run(work)
    assert [(r.options.effort, r.options.temperature, r.options.cache_prefix) for r in model.asked] == [
        ("high", 0.5, False),
        ("low", 0.5, False),
    ]


def test_an_alias_has_a_concurrency_of_its_own() -> None:
    busy, most = 0, 0

    async def slow(request: Request) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await trio.sleep(0.01)
        busy -= 1
        return "x"

    handler = Router({"worker": Alias((FunctionModel(slow),), AliasOptions(concurrency=2))}, FunctionModel)  # type: ignore[arg-type]

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(handler.send, ask(), handler.route("worker"))

    run(work)
    assert most == 2


def test_prices_and_windows_come_from_the_model_then_from_the_tables() -> None:
    own = FunctionModel(lambda r: "x", name="claude-opus-5", price=Price(9, 9), context_window=5)
    handler = Router(
        {"a": Alias((own,)), "b": Alias(("s",))},
        lambda text: FunctionModel(lambda r: "x", name=text),
        context_windows={"s": 77},
    )
    assert (handler.route("a").price, handler.route("a").context_window, handler.route("a").free) == (
        Price(9, 9),
        5,
        False,
    )
    assert (handler.route("b").context_window, handler.route("b").free) == (77, True)


def test_a_model_string_is_made_once_and_at_first_use() -> None:
    made: list[str] = []

    def make(text: str) -> FunctionModel:
        made.append(text)
        return FunctionModel(lambda r: "x", name=text)

    handler = Router({"worker": Alias(("m",)), "judge": Alias(("m", "n"))}, make)
    assert made == []
    handler.route("worker")
    handler.route("judge")
    assert made == ["m", "n"]


def test_a_route_of_another_router_is_refused() -> None:
    handler = router(worker=[Model("a")])
    with pytest.raises(ConfigError, match="alias worker has no candidate openai:x"):
        run(lambda: handler.send(ask(), Route("worker", "openai", "e", "x")))
