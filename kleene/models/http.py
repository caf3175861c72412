"""JSON over HTTP on trio: connections, size limits, and failures by name.

Connections are sharded: a client holds one connection and serves one request at a time. On loopback 64 such clients made about 1,900 requests/s
where one client with a pool of 64 made 460 (its pool is searched at every request). A server that closed an idle connection is noticed
before the connection is used again. No request is sent twice unless it is known that the server did not read it: asking again may cost
money, and is up to those who keep the books. Proxies and certificate authorities come from the environment, as httpx reads them.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies

import attrs
import httpx
import trio

from kleene.models.connection import Unread
from kleene.models.failures import Origin, from_status, from_transport, malformed, no_authorities, no_proxy, timed_out
from kleene.models.shards import Answer, Client, Direct, Shard, Target
from kleene.planner.errors import ConfigError
from kleene.udfs.jsontext import clean
from kleene.udfs.protocols import ProviderError

Take: TypeAlias = Callable[[Mapping[str, str], bytes], None]
MAX_REPLY_BYTES = 64 * 2**20
ERROR_BYTES = 65536
USER_AGENT = "kleene"


@attrs.frozen
class HttpReply:
    headers: Mapping[str, str]
    body: bytes


@attrs.define(eq=False)
class _Shards:
    """The shards of one trio loop: idle ones last in, first out. ``closed``: what serves a request now is closed after it."""

    gate: trio.Semaphore
    idle: list[Shard] = attrs.field(factory=list)
    closed: bool = False


@attrs.define(eq=False)
class _Call:
    """One request. ``sent``: a byte of it may have left."""

    target: Target
    content: bytes
    take: Take | None
    sent: bool = False

    def leaving(self) -> None:
        self.sent = True


@attrs.define(eq=False)
class Endpoint:
    """One server with one set of headers. May be used from several trio loops, each with connections of its own."""

    base_url: str
    origin: Origin
    headers: Mapping[str, str] = attrs.field(repr=False)
    connections: int = 64
    max_reply_bytes: int = MAX_REPLY_BYTES
    _shards: dict[trio.lowlevel.TrioToken, _Shards] = attrs.field(factory=dict, init=False, repr=False)
    _targets: dict[str, Target] = attrs.field(factory=dict, init=False, repr=False)
    _tls: tuple[tuple[str | None, str | None], ssl.SSLContext] | None = attrs.field(
        default=None, init=False, repr=False
    )

    async def request(
        self, path: str, body: Mapping[str, Any], timeout_s: float, take: Take | None = None
    ) -> HttpReply:
        """Send one request and read the whole reply. ``take`` gets the body's bytes as they arrive, in place of ``HttpReply.body``.

        Raises ``ProviderError`` on anything but a complete reply of status 200 to 299. The time limit covers the whole reply.
        """
        content = clean(json.dumps(body, ensure_ascii=False)).encode()
        call = _Call(self._target(path), content, take)
        with trio.move_on_after(timeout_s):
            try:
                return await self._exchange(call)
            except httpx.HTTPError as error:
                raise from_transport(self.origin, error) from None
        raise timed_out(self.origin, timeout_s, sent=call.sent)

    async def aclose(self) -> None:
        """Close this loop's connections: the idle ones now, each of the others when its request has ended."""
        shards = self._shards.pop(trio.lowlevel.current_trio_token(), None)
        if shards is None:
            return
        shards.closed = True
        with trio.CancelScope(shield=True):
            while shards.idle:
                await shards.idle.pop().aclose()

    async def _exchange(self, call: _Call) -> HttpReply:
        """One request, on a kept connection where there is one. What the server closed before it read the request goes out again on a new one."""
        token = trio.lowlevel.current_trio_token()
        shards = self._shards.get(token)
        if shards is None:
            shards = self._shards.setdefault(token, _Shards(trio.Semaphore(self.connections)))
        async with shards.gate:
            try:
                return await self._served(shards, await self._kept(shards) or self._new_shard(), call)
            except Unread:
                call.sent = False
            return await self._served(shards, self._new_shard(), call)

    async def _kept(self, shards: _Shards) -> Shard | None:
        """The shard that served last, of those that can serve again."""
        while shards.idle:
            shard = shards.idle.pop()
            if shard.is_ready():
                return shard
            await _end(shard)
        return None

    async def _served(self, shards: _Shards, shard: Shard, call: _Call) -> HttpReply:
        try:
            answer = await shard.send(call.target, call.content, call.leaving)
            try:
                return await self._reply(answer, call.take)
            finally:
                with trio.CancelScope(shield=True):
                    await answer.close()
        finally:
            if shards.closed:
                await _end(shard)
            else:
                shards.idle.append(shard)

    async def _reply(self, answer: Answer, take: Take | None) -> HttpReply:
        """Read a response to its end, or no further than its limit."""
        good = answer.status < 300
        body = _Body(self, answer, self.max_reply_bytes if good else ERROR_BYTES, take if good else None)
        async for chunk in answer.chunks:
            try:
                body.feed(chunk)
            except Exception:
                await _abandon(answer.chunks)
                raise
        body.finish()
        return HttpReply(answer.headers, b"".join(body.parts))

    def _target(self, path: str) -> Target:
        found = self._targets.get(path)
        if found is None:
            url = httpx.URL(self.base_url + path)
            headers = {
                "accept": "*/*",
                "accept-encoding": "gzip, deflate",
                "connection": "keep-alive",
                "user-agent": USER_AGENT,
                "content-type": "application/json",
                **self.headers,
                **_authorization(url),
            }
            found = self._targets[path] = Target(url, httpx.Headers(headers))
        return found

    def _new_shard(self) -> Shard:
        """A connection to be, as the environment is now: a variable that is set after a failure counts at the next request."""
        scheme = httpx.URL(self.base_url).scheme  # in small letters, however it was written
        proxied = _has_proxy(scheme)
        if scheme == "http" and not proxied:
            return Direct(None)
        try:
            tls = self._context()
        except (OSError, ValueError) as error:
            raise no_authorities(self.origin, error) from None
        if not proxied:
            return Direct(tls)
        try:
            return Client(tls)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise no_proxy(self.origin, error) from None

    def _context(self) -> ssl.SSLContext:
        """What certificates are verified with, made once: loading the authorities takes 25 ms."""
        wanted = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        if self._tls is None or self._tls[0] != wanted:
            context = httpx.create_ssl_context()
            context.set_alpn_protocols(["http/1.1"])
            self._tls = wanted, context
        return self._tls[1]


def _has_proxy(scheme: str) -> bool:
    """Whether a proxy may serve URLs of the scheme, as httpx reads the environment: which hosts it does not serve is left to httpx."""
    proxies = getproxies()
    if "*" in (host.strip() for host in proxies.get("no", "").split(",")):
        return False
    return bool(proxies.get(scheme) or proxies.get("all"))


async def _end(shard: Shard) -> None:
    with trio.CancelScope(shield=True):
        await shard.aclose()


def _authorization(url: httpx.URL) -> dict[str, str]:
    """The header for a name and password that stand in the URL."""
    if not url.username and not url.password:
        return {}
    return {"authorization": "Basic " + base64.b64encode(f"{url.username}:{url.password}".encode()).decode()}


class _Body:
    """The bytes of one response: unpacked, counted against a limit, kept or handed on. Errors are the response's own."""

    def __init__(self, endpoint: Endpoint, answer: Answer, limit: int, take: Take | None) -> None:
        self.parts: list[bytes] = []
        self._origin = endpoint.origin
        self._answer = answer
        self._limit = limit
        self._take = take
        self._size = 0
        packing = answer.headers.get("content-encoding", "identity").strip().lower()
        self._packed = packing in ("gzip", "x-gzip", "deflate")
        if not self._packed and packing not in ("", "identity"):
            raise malformed(self._origin, f"its encoding is {packing}")
        self._unpacker = zlib.decompressobj(wbits=47) if self._packed else None  # 47: gzip or zlib, as the data says

    def feed(self, chunk: bytes) -> None:
        if self._unpacker is not None:
            try:
                # One byte beyond the limit is enough to know: the rest of a decompression bomb stays packed.
                chunk = self._unpacker.decompress(chunk, self._limit - self._size + 1)
            except zlib.error as error:
                raise malformed(self._origin, f"its compression is broken ({error})") from None
        room = self._limit - self._size
        self._size += len(chunk)
        if len(chunk) > room:
            self.parts.append(chunk[:room])  # of an error, its beginning is told
            raise self._too_large()
        if self._take is not None:
            self._take(self._answer.headers, chunk)
        elif chunk:
            self.parts.append(chunk)

    def finish(self) -> None:
        """Raises ``ProviderError`` where the response is an error, or its packed data was cut short."""
        if self._answer.status >= 300:
            raise self._error()
        if self._unpacker is not None and self._size and not self._unpacker.eof:
            raise malformed(self._origin, "its compression is broken (cut short)")

    def _too_large(self) -> ProviderError:
        if self._answer.status >= 300:
            return self._error()
        error = malformed(self._origin, f"it is larger than {self._limit // 2**20} MiB")
        error.retryable = False
        return error

    def _error(self) -> ProviderError:
        return from_status(self._origin, self._answer.status, self._answer.headers, b"".join(self.parts))


async def _abandon(chunks: AsyncIterator[bytes]) -> None:
    """Leave a response half read. Its generators, each inside the next, end in order only by an error from their innermost wait."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async for _ in chunks:
            pass


def json_of(origin: Origin, reply: HttpReply) -> Any:
    """The reply's JSON; bytes that are no UTF-8 become U+FFFD. Raises ``ProviderError`` (malformed)."""
    text = reply.body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        start = " ".join(origin.scrub(text)[:80].split())
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
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url).raw_host.decode("ascii").encode(
            "idna"
        )  # as a name is looked up: a label is neither empty nor too long
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
