"""How many requests are in flight: bounded for all together, adapted for each endpoint, and shared fairly among those who ask.

An endpoint that says it is overloaded is sent half as many at a time, once per wave of such replies; each full round of replies after that
lets one more in, up to the bound. Everything here runs on the trio loop, without locks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import attrs
import trio

from kleene.udfs.protocols import Route


class Endpoint:
    """What one endpoint takes at a time. ``room`` is None until it was ever overloaded: then only the common bound holds."""

    def __init__(self) -> None:
        self.inside = 0
        self.room: float | None = None
        self.held_until = 0.0
        self._halved_at = 0.0

    def throttled(self, now: float, started: float, wait_s: float) -> None:
        """A request begun at ``started`` was refused for load: halve what is sent, but once for all requests of the same wave."""
        self.held_until = max(self.held_until, now + wait_s)
        if started >= self._halved_at:
            self._halved_at = now
            self.room = max(1.0, (self.room if self.room is not None else float(self.inside)) / 2)

    def replied(self, bound: int) -> None:
        if self.room is not None:
            self.room += 1.0 / self.room
            if self.room >= bound:
                self.room = None


@attrs.frozen
class Party:
    """Who asks, a statement or a session, and how many of its requests may be in flight (None: as many as there is room for)."""

    name: str
    bound: int | None = None


class Gate:
    """Bounds requests in flight, of all together and of each party. Parties that wait are let in by turns."""

    def __init__(self, bound: int, *, clock: Callable[[], float] = time.monotonic):
        self.bound = bound
        self._clock = clock
        self._inside = 0
        self._endpoints: dict[str, Endpoint] = {}
        self._of: dict[str, int] = {}
        self._waiting: dict[tuple[Party, str], deque[trio.Event]] = {}

    def endpoint(self, route: Route) -> Endpoint:
        name = f"{route.provider}\n{route.endpoint}"
        found = self._endpoints.get(name)
        if found is None:
            found = self._endpoints[name] = Endpoint()
        return found

    def widen(self, wanted: int) -> None:
        """Let the common bound be at least this: a party may ask for more than the others (``SET concurrency``)."""
        self.bound = max(self.bound, wanted)

    @property
    def inside(self) -> int:
        return self._inside

    async def enter(self, route: Route, party: Party) -> Endpoint:
        """Wait for room. The caller must ``leave`` the endpoint that is returned."""
        endpoint = self.endpoint(route)
        if self._waiting or not self._has_room(endpoint, party):
            await self._wait(f"{route.provider}\n{route.endpoint}", endpoint, party)
        else:
            self._let_in(endpoint, party)
        while endpoint.held_until and (wait := endpoint.held_until - self._clock()) > 0:
            try:
                await trio.sleep(wait)
            except BaseException:
                self.leave(endpoint, party)
                raise
        return endpoint

    def enter_now(self, route: Route, party: Party) -> Endpoint | None:
        """Room without waiting, or None. The caller must ``leave`` the endpoint that is returned."""
        endpoint = self.endpoint(route)
        if self._waiting or endpoint.held_until > self._clock() or not self._has_room(endpoint, party):
            return None
        self._let_in(endpoint, party)
        return endpoint

    def leave(self, endpoint: Endpoint, party: Party) -> None:
        self._inside -= 1
        endpoint.inside -= 1
        left = self._of[party.name] - 1
        if left:
            self._of[party.name] = left
        else:
            del self._of[party.name]
        if self._waiting:
            self._admit()

    def _let_in(self, endpoint: Endpoint, party: Party) -> None:
        self._inside += 1
        endpoint.inside += 1
        self._of[party.name] = self._of.get(party.name, 0) + 1

    def _has_room(self, endpoint: Endpoint, party: Party) -> bool:
        if self._inside >= self.bound:
            return False
        if party.bound is not None and self._of.get(party.name, 0) >= party.bound:
            return False
        return endpoint.room is None or endpoint.inside < int(endpoint.room)

    async def _wait(self, name: str, endpoint: Endpoint, party: Party) -> None:
        turn = trio.Event()
        queue = self._waiting.setdefault((party, name), deque())
        queue.append(turn)
        self._admit()
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.leave(endpoint, party)  # let in and cancelled at the same moment
            else:
                queue.remove(turn)
                if not queue:
                    self._waiting.pop((party, name), None)
            raise

    def _admit(self) -> None:
        """Let in who can be let in, one of each party by turns."""
        progress = True
        while progress and self._inside < self.bound:
            progress = False
            for key in list(self._waiting):
                party, endpoint = key[0], self._endpoints[key[1]]
                if not self._has_room(endpoint, party):
                    continue
                queue = self._waiting.pop(key)
                turn = queue.popleft()
                if queue:
                    self._waiting[key] = queue  # to the end of the line
                self._let_in(endpoint, party)
                turn.set()
                progress = True
