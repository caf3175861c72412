"""One connection that serves one request at a time, and nothing around it that costs processor time.

A client's redirects, cookies and hooks, which nothing here uses, and a pool's search at every request cost more than the request itself. So
the connection is held as it is. Where a proxy may stand between, an httpx client is asked, which knows which one serves whom.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Protocol
from urllib.request import getproxies

import attrs
import h11
import httpx

from kleene.models.connection import Connection

KEEP_ALIVE_S = 30.0
CONNECT_TIMEOUT_S = 30.0
HEADS_KEPT = 1024
EXTENSIONS = {"timeout": {"connect": CONNECT_TIMEOUT_S}}


@attrs.frozen(eq=False)
class Target:
    """Where POST requests go, with the headers that all of them have."""

    url: httpx.URL
    headers: httpx.Headers
    host: str = attrs.field(init=False)
    port: int = attrs.field(init=False)
    post: Callable[[int], h11.Request] = attrs.field(init=False)
    """The head of a request whose body has so many bytes. One of a length that was sent before is not put together and checked again."""

    def __attrs_post_init__(self) -> None:
        url = self.url
        object.__setattr__(self, "host", url.raw_host.decode("ascii"))
        object.__setattr__(self, "port", url.port or (443 if url.scheme == "https" else 80))
        object.__setattr__(self, "post", functools.lru_cache(HEADS_KEPT)(self._post))

    def all_headers(self, length: int) -> list[tuple[bytes, bytes]]:
        """Those of a request whose body has so many bytes."""
        return [(b"host", self.url.netloc), *self.headers.raw, (b"content-length", b"%d" % length)]

    def _post(self, length: int) -> h11.Request:
        try:
            return h11.Request(method="POST", target=self.url.raw_path, headers=self.all_headers(length))
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error


@attrs.frozen(eq=False)
class Answer:
    """The head of a response. The names of ``headers`` are in lower case. ``chunks`` raises ``httpx.HTTPError``; ``close`` must be awaited."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class Shard(Protocol):
    """What has one connection, and serves one request at a time."""

    def is_ready(self) -> bool:
        """Whether it may serve another request. One that may not is to be closed."""
        ...

    async def send(self, target: Target, content: bytes, leaving: Callable[[], None]) -> Answer:
        """Send one request. ``leaving`` is called before its first byte may leave. Raises ``httpx.HTTPError``, ``Unread`` among them."""
        ...

    async def aclose(self) -> None: ...


class Direct:
    """A connection of our own, opened at the first request: encrypted by ``tls``, or not where that is None."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._connection: Connection | None = None

    def is_ready(self) -> bool:
        return self._connection is not None and self._connection.is_fresh(KEEP_ALIVE_S)

    async def send(self, target: Target, content: bytes, leaving: Callable[[], None]) -> Answer:
        request = target.post(len(content))
        if self._connection is None:
            self._connection = await Connection.open(target.host, target.port, self._tls, CONNECT_TIMEOUT_S)
        connection = self._connection
        leaving()
        try:
            response = await connection.send(request, content)
        except BaseException:
            await self.aclose()
            raise
        return Answer(response.status_code, headers_of(response.headers), chunks_of(connection), self._rest)

    async def _rest(self) -> None:
        """Keep the connection for the next request, if it can serve one."""
        if self._connection is not None and not await self._connection.next_request():
            await self.aclose()

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


class Whole(httpx.AsyncByteStream):
    """A request's body in one piece. httpx's own is a generator, which trio warns of where a cancel leaves it in its midst."""

    def __init__(self, content: bytes) -> None:
        self._left = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class Client:
    """An httpx client with one connection, and the proxies that the environment names. Raises what httpx does of a proxy that is none."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_S)
        self._proxies = getproxies()
        self._client = httpx.AsyncClient(verify=tls, limits=limits)

    def is_ready(self) -> bool:
        return self._proxies == getproxies()

    async def send(self, target: Target, content: bytes, leaving: Callable[[], None]) -> Answer:
        headers = target.all_headers(len(content))
        request = httpx.Request("POST", target.url, headers=headers, stream=Whole(content), extensions=EXTENSIONS)
        leaving()
        response = await self._client.send(request, stream=True)
        return Answer(response.status_code, response.headers, response.aiter_raw(), response.aclose)

    async def aclose(self) -> None:
        await self._client.aclose()


async def chunks_of(connection: Connection) -> AsyncIterator[bytes]:
    while chunk := await connection.read():
        yield chunk


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name in lower case; those that come more than once are joined, as HTTP has it."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
