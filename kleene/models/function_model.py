"""A Python function as a model: for tests, demos, scripted runs, and models in process."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import secrets
import sys
import threading
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import outcome
import trio

from kleene.models.provider import Capabilities, OnText, one_text_only, vector_text
from kleene.models.tool_words import read_uses
from kleene.planner.specs import Price
from kleene.udfs.protocols import ProviderError, Reply, Request, out_of_time

LAST_WORDS_S = 1.0
"""How long a cancelled coroutine may take to end when its model is closed."""


@attrs.define(eq=False)
class FunctionModel:
    """``fn(request) -> str | Reply``, sync or async.

    A sync function runs in the thread of the calls: nothing else moves while it runs, and nothing is quicker. With ``threads=True`` it runs
    in worker threads, at most 64 at a time, and a cancel leaves it behind. A coroutine function runs on trio when its code names trio, else on
    an asyncio loop in a thread of its own; ``on_asyncio`` decides otherwise.

    Where it is offered functions to call (``request.tools``) it returns a ``Reply`` with ``uses``, or text that ends in a JSON array of calls
    (``kleene.models.tool_words``).

    For ``embed`` (``request.wants`` is ``"embedding"``) it returns a list of numbers.

    Answers are remembered under ``name``. Without one it is the function's own, module and all, and a later process finds them again. What has no
    name of its own (a lambda, a closure, a method, an object) may be another function under the same name the next time: its answers are
    remembered for this ``FunctionModel`` alone. A function that was changed needs another ``name``: nobody looks into its code.

    Token counts that a reply does not have are characters / 4. Without a price the model is free. What ``fn`` raises ends the call
    (``ProviderError`` as it is, anything else as kind ``other``, not to be retried).
    """

    fn: Callable[[Request], Any]
    name: str = ""
    threads: bool = False
    price: Price | None = None
    context_window: int | None = None
    on_asyncio: bool | None = attrs.field(default=None, kw_only=True)
    _limiter: trio.CapacityLimiter | None = attrs.field(default=None, init=False, repr=False)
    _loop: _AsyncioThread | None = attrs.field(default=None, init=False, repr=False)
    _awaits: bool = attrs.field(default=False, init=False, repr=False)  # a sync function that returned an awaitable
    endpoint: str = attrs.field(default="python", init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.name:
            self.name = name_of(self.fn)
            if not has_own_name(self.fn):
                self.endpoint = f"python#{secrets.token_hex(8)}"

    @property
    def model(self) -> str:
        return self.name

    @property
    def free(self) -> bool:
        return self.price is None

    @property
    def instant(self) -> bool:
        """Whether the function returns its text at once; where it returns an awaitable after all, its timeout is kept here."""
        return not self.threads and not inspect.iscoroutinefunction(self.fn)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(context_window=self.context_window, json_schema=True, embeddings=True)

    def at_once(self, request: Request) -> Reply | None:
        """The reply of a function that waits for nothing. None: it returned an awaitable, of which nothing has run, and ``send`` is to be used
        from now on. Raises as ``send`` does."""
        if self._awaits or (request.wants == "embedding" and len(request.messages) > 1):
            return None
        try:
            found = self.fn(request)
        except ProviderError:
            raise
        except Exception as error:
            raise self._raised(error) from error
        if type(found) is not str and inspect.isawaitable(found):
            self._awaits = True
            if inspect.iscoroutine(found):
                found.close()
            return None
        return self._reply(request, found)

    async def send(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Call the function once. A sync function is no checkpoint: the caller yields between calls. The router times it unless it is ``instant``."""
        if request.wants == "embedding" and len(request.messages) > 1:
            raise one_text_only("python", self.name)
        try:
            found = await self._in_thread(request) if self.threads else self.fn(request)
            if type(found) is not str and inspect.isawaitable(found):
                found = await (self._in_time(request, found) if self.instant else self._awaited(found))
        except ProviderError:
            raise
        except Exception as error:
            raise self._raised(error) from error
        reply = self._reply(request, found)
        if request.tools and not reply.uses:
            reply = read_uses(reply)
        if on_text is not None:
            on_text(reply.text)
        return reply

    async def aclose(self) -> None:
        """End the asyncio thread, if there is one."""
        loop, self._loop = self._loop, None
        if loop is not None:
            await trio.to_thread.run_sync(loop.stop)

    def _raised(self, error: Exception) -> ProviderError:
        return ProviderError("other", f"{self.name} raised {type(error).__name__}: {error}")

    def _reply(self, request: Request, found: Any) -> Reply:
        if request.wants == "embedding" and not isinstance(found, str | Reply):
            return Reply(self._vector(found), _asked(request), 0)
        if type(found) is str:
            return Reply(found, _asked(request), (len(found) + 3) // 4)
        if isinstance(found, Reply):
            if found.input_tokens is not None and found.output_tokens is not None:
                return found
            asked = _asked(request) if found.input_tokens is None else found.input_tokens
            said = (len(found.said) + 3) // 4 if found.output_tokens is None else found.output_tokens
            return attrs.evolve(found, input_tokens=asked, output_tokens=said)
        if isinstance(found, str):
            return self._reply(request, str(found))
        raise ProviderError(
            "malformed",
            f"{self.name} returned {type(found).__name__}, not text",
            hint="return a str or a kleene.Reply(text)",
        )

    def _vector(self, found: Any) -> str:
        """A list, a tuple or an array of numbers as text."""
        try:
            return vector_text(float(v) for v in found)
        except (TypeError, ValueError):
            raise ProviderError(
                "malformed",
                f"{self.name} returned {type(found).__name__}, not a list of numbers",
                hint='request.wants is "embedding": return a list of numbers',
            ) from None

    async def _in_time(self, request: Request, found: Awaitable[Any]) -> Any:
        timeout = request.options.timeout
        with trio.move_on_after(timeout) as scope:
            return await self._awaited(found)
        assert scope.cancelled_caught
        raise out_of_time(self.name, timeout)

    async def _in_thread(self, request: Request) -> Any:
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(64)
        return await trio.to_thread.run_sync(self.fn, request, abandon_on_cancel=True, limiter=self._limiter)

    async def _awaited(self, found: Awaitable[Any]) -> Any:
        use_asyncio = self.on_asyncio
        if use_asyncio is None:
            use_asyncio = self.on_asyncio = not _names_trio(self.fn)
        if not use_asyncio:
            return await found
        if self._loop is None:
            self._loop = _AsyncioThread()
        return await self._loop.run(found)


class _AsyncioThread:
    """An asyncio loop in a daemon thread, to await what needs one from trio."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="kleene-asyncio", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._end_what_runs()
        finally:
            self._loop.close()

    def _end_what_runs(self) -> None:
        """Cancel what is under way and let it end: a loop that only stops destroys its tasks where they stand."""
        if running := asyncio.all_tasks(self._loop):
            for task in running:
                if not task.cancelling():  # a second cancel would cut short what it does about the first
                    task.cancel()
            self._loop.run_until_complete(asyncio.wait(running, timeout=LAST_WORDS_S))

    async def run(self, found: Awaitable[Any]) -> Any:
        """Await on the asyncio loop. A trio cancel cancels the asyncio task and does not wait for it."""
        task = trio.lowlevel.current_task()
        token = trio.lowlevel.current_trio_token()
        waiting = True

        def wake(result: outcome.Outcome[Any]) -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                trio.lowlevel.reschedule(task, result)

        async def work() -> None:
            result = await outcome.acapture(_plain, found)
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(wake, result)

        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        future.add_done_callback(lambda _: _close_unstarted(found))

        def abort(_: Any) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = False
            future.cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


def _close_unstarted(found: Awaitable[Any]) -> None:
    """What was cancelled before its first step is never awaited, and Python warns of a coroutine left like that."""
    if inspect.iscoroutine(found) and inspect.getcoroutinestate(found) == inspect.CORO_CREATED:
        found.close()


async def _plain(found: Awaitable[Any]) -> Any:
    return await found


def name_of(fn: Callable[..., Any]) -> str:
    """Module and name of a function, or of the class of an object that is called; for a script's own, the script's name.

    >>> name_of(name_of)
    'kleene.models.function_model.name_of'
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    module = getattr(named, "__module__", None) or "python"
    if module == "__main__":
        module = Path(getattr(sys.modules["__main__"], "__file__", None) or "main").stem
    return f"{module}.{named.__qualname__}"


def has_own_name(fn: Callable[..., Any]) -> bool:
    """Whether module and name say which function it is."""
    return inspect.isfunction(fn) and fn.__closure__ is None and fn.__name__ != "<lambda>"


def _asked(request: Request) -> int:
    return (request.characters() + 3) // 4


def _names_trio(fn: Callable[..., Any]) -> bool:
    """Whether a function's code, or a function of its module that it names, uses trio (and not asyncio first)."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    if not hasattr(fn, "__code__"):
        fn = type(fn).__call__
    seen: set[Any] = set()
    todo: list[Any] = [fn]
    while todo:
        found = inspect.unwrap(todo.pop())
        code = getattr(found, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        scope = {**getattr(found, "__globals__", {}), **_closure(found)}
        for name in _names(code):
            value = scope.get(name)
            library = (
                value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
            ) or name
            if name == "trio" or library.partition(".")[0] == "trio":
                return True
            if inspect.isfunction(value):
                todo.append(value)
    return False


def _closure(fn: Any) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(fn).nonlocals)
    except (TypeError, ValueError):
        return {}


def _names(code: types.CodeType) -> list[str]:
    names = [*code.co_names, *code.co_freevars]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names
