"""Waiting for a blocking function on whichever event loop the caller runs: trio or asyncio."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Run a blocking function in a thread without blocking the loop. Cancelling the waiting task calls ``cancel``, which must make the
    function end soon; the cancellation then goes on."""
    try:
        if _on_trio():
            import trio

            return await trio.to_thread.run_sync(function, abandon_on_cancel=True)
        import asyncio

        return await asyncio.to_thread(function)
    except BaseException:
        cancel()
        raise


def _on_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())
