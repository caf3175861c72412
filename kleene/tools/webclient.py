"""One HTTP request at a time, over connections that go only where the rules allow: what the web tools share.

httpcore speaks the protocol; the network below it is ours. It resolves a name once, asks the rules about every address, connects to one of
those, and looks every 50 ms whether the statement was cancelled or its time is over, whatever the other side does. Proxies of the environment
are not used: behind one, nothing of this could be seen.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import httpcore
import httpx

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools.hosts import Address, HostRules, as_address, host_of, port_of

POLL_S = 0.05
PIECE = 1 << 16
USER_AGENT = "kleene"

Resolver = Callable[[str, int], Iterable[str]]
"""The addresses of a host, as text. May raise ``OSError``."""


def system_resolver(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@attrs.frozen
class Reach:
    """What may be reached and how much is taken: ``body_bytes`` of a body, ``unpacked_bytes`` of what it unpacks to, ``seconds`` in all.
    ``context`` makes the TLS settings."""

    rules: HostRules
    resolve: Resolver = system_resolver
    body_bytes: int = 16 << 20
    unpacked_bytes: int = 64 << 20
    seconds: float = 30.0
    redirects: int = 5
    context: Callable[[], ssl.SSLContext] = httpx.create_ssl_context


@attrs.frozen
class Clock:
    """When to stop: a moment of ``time.monotonic``, or when ``cancelled`` says so."""

    deadline: float
    cancelled: Callable[[], bool]

    def check(self) -> None:
        if self.cancelled():
            raise Cancelled("the statement was cancelled")
        if time.monotonic() > self.deadline:
            raise _TimeOver


class _TimeOver(Exception):
    pass


@attrs.frozen
class Request:
    """``headers`` may hold keys: it is in no message and no ``repr``."""

    method: str
    url: httpx.URL
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen
class Reply:
    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def location(self) -> str | None:
        """Where a redirect points to."""
        return self.headers.get("location") if self.status in (301, 302, 303, 307, 308) else None


def send(request: Request, reach: Reach, clock: Clock) -> Reply:
    """Sends one request and reads the whole reply; redirects are not followed.

    Raises ``ToolError``: access denied by the rules, timed out, too large, unsupported for an encoding nobody asked for, io for whatever the
    network does; ``Cancelled``. No message holds a header.
    """
    clock = attrs.evolve(clock, deadline=min(clock.deadline, time.monotonic() + reach.seconds))
    host = host_of(request.url)
    reach.rules.check_url(request.url)
    headers = {
        "Host": request.url.netloc.decode("ascii"),
        "User-Agent": USER_AGENT,
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "Connection": "close",
        **request.headers,
    }
    try:
        context = reach.context() if request.url.scheme == "https" else None
        with httpcore.ConnectionPool(
            ssl_context=context, max_connections=1, network_backend=_Backend(reach, clock)
        ) as pool:
            # In parts, so that nobody reads the URL a second time in another way.
            target = httpcore.URL(
                scheme=request.url.raw_scheme, host=host, port=port_of(request.url), target=request.url.raw_path
            )
            sent = [(name.encode("ascii"), value.encode("utf-8")) for name, value in headers.items()]
            with pool.stream(request.method, target, headers=sent, content=request.body) as response:
                taken = httpx.Headers(response.headers)
                return Reply(request.url, response.status, taken, _body(response, taken, reach, clock))
    except _TimeOver:
        raise ToolError(
            f"{host} did not answer in full within {reach.seconds:g} s",
            kind="timed out",
            hint="try again, or ask for less",
        ) from None
    except httpcore.LocalProtocolError:  # its message would quote the header
        raise ToolError("the request holds what no request can", kind="invalid arguments") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, ssl.SSLError, OSError) as error:
        raise ToolError(f"{host}: {_said(error)}", kind="io") from error


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__


def _body(response: httpcore.Response, headers: httpx.Headers, reach: Reach, clock: Clock) -> bytes:
    encodings = [name.strip().lower() for name in headers.get("content-encoding", "").split(",")]
    unpack = _Unpacker([name for name in encodings if name not in ("", "identity")], reach.unpacked_bytes)
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > reach.body_bytes:
        raise _too_large(reach.body_bytes)
    taken, pieces = 0, []
    for piece in response.iter_stream():
        clock.check()
        taken += len(piece)
        if taken > reach.body_bytes:
            raise _too_large(reach.body_bytes)
        pieces.append(unpack.add(piece))
    return b"".join(pieces)


class _Unpacker:
    """Undoes gzip and deflate, piece by piece and never beyond a limit: a bomb is noticed before it is unpacked."""

    def __init__(self, encodings: list[str], limit: int) -> None:
        unknown = [name for name in encodings if name not in ("gzip", "x-gzip", "deflate")]
        if unknown or len(encodings) > 1:
            raise ToolError(
                f"the reply is packed as {', '.join(encodings)}, which was not asked for", kind="unsupported"
            )
        self.packed = bool(encodings)
        self.raw = encodings == ["deflate"]
        self.limit = limit
        self.made = 0
        self.unpacker = zlib.decompressobj(wbits=47)  # gzip and zlib, by their heads

    def add(self, data: bytes) -> bytes:
        if not self.packed:
            return data
        out = []
        while data:
            piece = self._unpack(data)
            self.made += len(piece)
            if self.made > self.limit:
                raise _too_large(self.limit)
            out.append(piece)
            data = self.unpacker.unconsumed_tail
            if self.unpacker.eof:
                data = self.unpacker.unused_data
                if not data.startswith(b"\x1f\x8b"):  # no further member: what follows is filling
                    break
                self.unpacker = zlib.decompressobj(wbits=47)
        return b"".join(out)

    def _unpack(self, data: bytes) -> bytes:
        most = self.limit - self.made + 1
        try:
            return self.unpacker.decompress(data, most)
        except zlib.error as error:
            if self.raw and not self.made:  # some servers send deflate without its head
                self.raw, self.unpacker = False, zlib.decompressobj(wbits=-15)
                return self._unpack(data)
            raise ToolError(f"the reply cannot be unpacked: {error}", kind="io") from None


def _too_large(limit: int) -> ToolError:
    return ToolError(f"the reply has more than {limit:,} bytes", kind="too large", hint="ask for a smaller page")


# The network below httpcore


class _Backend(httpcore.NetworkBackend):
    """Opens connections to addresses that the rules allow."""

    def __init__(self, reach: Reach, clock: Clock) -> None:
        self.reach = reach
        self.clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        host = host.lower().rstrip(".").strip("[]")
        addresses = self._addresses(host, port)
        self.reach.rules.check_addresses(host, addresses, port)
        failed: OSError | None = None
        for address in addresses:
            try:
                return _Stream(_connect(str(address), port, self.clock), self.clock)
            except OSError as error:
                failed = error
        raise httpcore.ConnectError(_said(failed) if failed else f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("no Unix sockets")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _addresses(self, host: str, port: int) -> list[Address]:
        address = as_address(host)
        if address is not None:
            return [address]
        found = [text.partition("%")[0] for text in self._resolved(host, port)]
        return [ipaddress.ip_address(text) for text in found]

    def _resolved(self, host: str, port: int) -> list[str]:
        """In a thread of its own: the system's resolver can be neither interrupted nor given a time."""
        answers: list[list[str]] = []
        errors: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(list(self.reach.resolve(host, port)))
            except (OSError, UnicodeError) as error:
                errors.append(error)

        thread = threading.Thread(target=ask, name="kleene-resolver", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_S)
            self.clock.check()
        if errors or not answers:
            raise httpcore.ConnectError(f"the name cannot be resolved: {_said(errors[0]) if errors else 'no answer'}")
        return answers[0]


def _connect(address: str, port: int, clock: Clock) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        code = made.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
        while not select.select([], [made], [], POLL_S)[1]:
            clock.check()
        code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(POLL_S)
    except BaseException:
        made.close()
        raise
    return made


class _Stream(httpcore.NetworkStream):
    """A socket with a timeout of 50 ms: each time it is over, the clock is asked and the same is done again."""

    def __init__(self, made: socket.socket, clock: Clock) -> None:
        self.socket = made
        self.clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            self.clock.check()
            with suppress(TimeoutError, ssl.SSLWantReadError):
                return self.socket.recv(min(max_bytes, PIECE))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        while left:
            self.clock.check()
            with suppress(TimeoutError, ssl.SSLWantWriteError):
                left = left[self.socket.send(left[:PIECE]) :]

    def close(self) -> None:
        self.socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = ssl_context.wrap_socket(self.socket, server_hostname=server_hostname, do_handshake_on_connect=False)
        stream = _Stream(secured, self.clock)
        try:
            while True:
                self.clock.check()
                with suppress(TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    secured.do_handshake()
                    return stream
        except BaseException:
            secured.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self.socket, ssl.SSLSocket):
            return self.socket
        return self.socket if info == "socket" else None
