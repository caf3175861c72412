"""One connection that serves one request at a time, and nothing around it that costs processor time.

A client's redirects, cookies and hooks, which nothing here uses, and a pool's search at every request cost more than the request itself. So a
connection of httpcore's is held as it is. Where a proxy may stand between, an httpx client is asked, which knows which one serves whom.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import attrs
import httpcore
import httpx

KEEP_ALIVE_S = 30.0
CONNECT_TIMEOUT_S = 30.0
EXTENSIONS = {"timeout": {"connect": CONNECT_TIMEOUT_S}}
FAILURES = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)


@attrs.frozen(eq=False)
class Target:
    """Where POST requests go, with the headers that all of them have."""

    url: httpx.URL
    headers: httpx.Headers
    core: httpcore.URL = attrs.field(init=False)
    raw: list[tuple[bytes, bytes]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        url = self.url
        core = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        object.__setattr__(self, "core", core)
        object.__setattr__(self, "raw", [(b"host", url.netloc), *self.headers.raw])


@attrs.frozen(eq=False)
class Answer:
    """The head of a response. The names of ``headers`` are in lower case. ``chunks`` raises ``httpx.HTTPError``; ``close`` must be awaited."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class Shard(Protocol):
    """What has one connection. ``used``: it has served a request, so that its connection may have been closed since."""

    used: bool

    async def send(self, target: Target, content: bytes) -> Answer:
        """Send one request. Raises ``httpx.HTTPError``."""
        ...

    async def aclose(self) -> None: ...


class Direct:
    """A connection of httpcore's, made anew where the server closed it. ``tls`` None: for plain HTTP only."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.used = False
        self._tls = tls
        self._connection: httpcore.AsyncHTTPConnection | None = None

    async def send(self, target: Target, content: bytes) -> Answer:
        connection = self._connection
        if connection is None or not connection.is_available() or connection.has_expired():
            await self.aclose()
            connection = httpcore.AsyncHTTPConnection(
                target.core.origin, ssl_context=self._tls, keepalive_expiry=KEEP_ALIVE_S
            )
            self._connection = connection
        headers = [*target.raw, (b"content-length", str(len(content)).encode())]
        request = httpcore.Request("POST", target.core, headers=headers, content=content, extensions=EXTENSIONS)
        try:
            response = await connection.handle_async_request(request)
        except FAILURES as error:
            raise as_httpx(error) from error
        return Answer(response.status, headers_of(response.headers), chunks_of(response), response.aclose)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()


class Client:
    """An httpx client with one connection."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.used = False
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_S)
        self._client = httpx.AsyncClient(verify=tls, limits=limits)

    async def send(self, target: Target, content: bytes) -> Answer:
        request = httpx.Request("POST", target.url, headers=target.headers, content=content, extensions=EXTENSIONS)
        response = await self._client.send(request, stream=True)
        return Answer(response.status_code, response.headers, response.aiter_raw(), response.aclose)

    async def aclose(self) -> None:
        await self._client.aclose()


async def chunks_of(response: httpcore.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_stream():
            yield chunk
    except FAILURES as error:
        raise as_httpx(error) from error


def headers_of(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name in lower case; those that come more than once are joined, as HTTP has it."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def as_httpx(error: Exception) -> httpx.HTTPError:
    """An error of httpcore's as httpx's of the same name."""
    found: httpx.HTTPError = getattr(httpx, type(error).__name__)(str(error))
    return found
