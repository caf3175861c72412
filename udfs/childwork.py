"""Children at work: each runs in a thread of its own while the loop goes on; when its statement ends early, it is cancelled and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kleene.planner.errors import Cancelled
from kleene.udfs.runtime import unwrap

if TYPE_CHECKING:
    from kleene.udfs.children import Child, ChildReply

AT_ONCE = 8
"""So many children of one statement run at the same time."""


async def run_child(child: Child, room: trio.CapacityLimiter) -> ChildReply:
    """Run an admitted child in a thread. Cancelling this cancels the child, and returns when it has ended."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_with, child)
            try:
                return await trio.to_thread.run_sync(child.run, limiter=room)
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        error = unwrap(errors)
        if isinstance(error, Cancelled):
            await (
                trio.lowlevel.checkpoint_if_cancelled()
            )  # then it is this task that was cancelled, not the child alone
        raise error from None
    finally:
        child.close()


async def _cancel_with(child: Child) -> None:
    try:
        await trio.sleep_forever()
    finally:
        child.cancel()
