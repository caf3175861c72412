"""JSON over HTTP on trio: connections, size limits, and failures by name.

Connections are sharded: a client holds one connection and serves one request at a time. On loopback 64 such clients made about 1,900 requests/s
where one client with a pool of 64 made 460 (its pool is searched at every request). A server that closed an idle connection is noticed
before the connection is used again. Proxies and certificate authorities come from the environment, as httpx reads them.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx
import trio

from kleene.models.failures import Origin, from_status, from_transport, malformed, timed_out
from kleene.planner.errors import ConfigError
from kleene.udfs.jsontext import clean

MAX_REPLY_BYTES = 64 * 2**20
CONNECT_TIMEOUT_S = 30.0
USER_AGENT = "kleene"


@attrs.frozen
class HttpReply:
    headers: Mapping[str, str]
    body: bytes


@attrs.define(eq=False)
class _Clients:
    """The clients of one trio loop: idle ones last in, first out."""

    gate: trio.Semaphore
    idle: list[httpx.AsyncClient] = attrs.field(factory=list)


@attrs.define(eq=False)
class Endpoint:
    """One server with one set of headers. May be used from several trio loops, each with connections of its own."""

    base_url: str
    origin: Origin
    headers: Mapping[str, str] = attrs.field(repr=False)
    connections: int = 64
    max_reply_bytes: int = MAX_REPLY_BYTES
    _clients: dict[trio.lowlevel.TrioToken, _Clients] = attrs.field(factory=dict, init=False, repr=False)
    _tls: ssl.SSLContext | None = attrs.field(default=None, init=False, repr=False)

    async def post(self, path: str, body: Mapping[str, Any], timeout_s: float) -> HttpReply:
        """Send one request and read the whole reply. Raises ``ProviderError`` on anything but a complete reply of status 200 to 299."""
        async with self._exchange(path, body, timeout_s) as response:
            data = await self._read(response, response.status_code < 300)
            if response.status_code >= 300:
                raise from_status(self.origin, response.status_code, response.headers, data)
            return HttpReply(response.headers, data)

    @asynccontextmanager
    async def stream(
        self, path: str, body: Mapping[str, Any], timeout_s: float
    ) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[bytes]]]:
        """Send one request and hand over the reply's bytes as they arrive. Errors as in ``post``; the time limit covers the whole reply."""
        async with self._exchange(path, body, timeout_s) as response:
            if response.status_code >= 300:
                data = await self._read(response, False)
                raise from_status(self.origin, response.status_code, response.headers, data)
            yield response.headers, self._chunks(response)

    async def aclose(self) -> None:
        """Close this loop's idle connections."""
        clients = self._clients.pop(trio.lowlevel.current_trio_token(), None)
        with trio.CancelScope(shield=True):
            for client in clients.idle if clients else ():
                await client.aclose()

    @asynccontextmanager
    async def _exchange(self, path: str, body: Mapping[str, Any], timeout_s: float) -> AsyncIterator[httpx.Response]:
        content = clean(json.dumps(body, ensure_ascii=False)).encode()
        with trio.move_on_after(timeout_s) as scope:
            try:
                async with self._client() as client:
                    request = client.build_request(
                        "POST", self.base_url + path, content=content, headers=dict(self.headers)
                    )
                    response = await client.send(request, stream=True)
                    try:
                        yield response
                    finally:
                        with trio.CancelScope(shield=True):
                            await response.aclose()
                return
            except httpx.HTTPError as error:
                raise from_transport(self.origin, error) from None
        if scope.cancelled_caught:
            raise timed_out(self.origin, timeout_s)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        token = trio.lowlevel.current_trio_token()
        clients = self._clients.get(token)
        if clients is None:
            clients = self._clients.setdefault(token, _Clients(trio.Semaphore(self.connections)))
        async with clients.gate:
            client = clients.idle.pop() if clients.idle else self._new_client()
            try:
                yield client
            finally:
                clients.idle.append(client)

    def _new_client(self) -> httpx.AsyncClient:
        if self._tls is None:
            self._tls = httpx.create_ssl_context()
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=30)
        return httpx.AsyncClient(
            verify=self._tls, limits=limits, timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
        )

    async def _read(self, response: httpx.Response, whole: bool) -> bytes:
        """All bytes of a reply; of an error reply at most 64 KiB."""
        parts: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            parts.append(chunk)
            size += len(chunk)
            if not whole and size > 65536:
                break
            if size > self.max_reply_bytes:
                raise self._too_large()
        return b"".join(parts)

    async def _chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > self.max_reply_bytes:
                raise self._too_large()
            yield chunk

    def _too_large(self) -> Exception:
        error = malformed(self.origin, f"it is larger than {self.max_reply_bytes // 2**20} MiB")
        error.retryable = False
        return error


def json_of(origin: Origin, reply: HttpReply) -> Any:
    """The reply's JSON; bytes that are no UTF-8 become U+FFFD. Raises ``ProviderError`` (malformed)."""
    text = reply.body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        start = " ".join(text[:80].split())
        raise malformed(origin, f"it is not JSON: {start!r}" if start else "it is empty") from None


def checked_key(key: str | None, setting: str) -> str | None:
    """A key without outer blanks. Raises ``ConfigError``, which does not show it, where it cannot be sent in a header."""
    if key is None or not key.strip():
        return None
    key = key.strip()
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise ConfigError(
            f"{setting} holds a character that no key has (a blank, a line break or a letter outside ASCII)",
            hint="copy the key again, alone on one line",
        )
    return key


def checked_url(url: str, setting: str) -> str:
    """A base URL without a slash at its end. Raises ``ConfigError`` where it is not http or https, or has no host."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise ConfigError(
            f"{setting} is {public_url(url)!r}, not a URL",
            hint="write it as https://host/v1 or http://127.0.0.1:8080/v1",
        )
    return url


def public_url(url: str) -> str:
    """The URL without a user name, password and query: fit for the memo, the trace and messages."""
    head, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{head}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}" if rest else url
