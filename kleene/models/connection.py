"""One HTTP/1.1 connection on trio: h11 speaks the protocol, trio moves the bytes.

A request costs 0.3 ms of processor time this way; the same through a connection of httpcore's, which looks after what two tasks might do with
it at once, 0.55 (``bench_runtime.py --only layers``). Failures are httpx's own, so that a caller needs to know of one kind.
"""

from __future__ import annotations

import socket
import ssl
import sys

import h11
import httpx
import trio

from kleene.models.tls import Underlay, encrypted, holds_more

READ_BYTES = 65536
WHOLE_BYTES = 65536
"""Up to this size a body goes out in one piece with the head."""
MAX_HEAD_BYTES = 100 * 1024
LOST = (trio.BrokenResourceError, trio.ClosedResourceError)
TCP_INFO = socket.TCP_INFO if sys.platform == "linux" else None
BYTES_ACKED = slice(120, 128)
"""Where tcpi_bytes_acked is in struct tcp_info, whose beginning never changes (linux/tcp.h, since Linux 4.1)."""


class Unread(httpx.RemoteProtocolError):
    """The server had closed the connection when the request came, and has not read it: it may be sent again."""


class Connection:
    """Serves one request at a time: ``send``, then ``read`` until it gives b"". Raises ``httpx.HTTPError``.

    ``below``: what carries the bytes of a ``stream`` that is encrypted.
    """

    def __init__(self, stream: trio.abc.Stream, socket: trio.socket.SocketType, below: Underlay | None = None) -> None:
        self._stream = stream
        self._socket = socket
        self._below = below
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._idle_since = trio.current_time()
        self._acked = 0
        self._whole = True

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> Connection:
        """Connect, by whichever address of the host answers first. Raises ``httpx.ConnectError`` and ``httpx.ConnectTimeout``."""
        try:
            with trio.fail_after(timeout_s):
                plain = await trio.open_tcp_stream(host, port)
                if tls is None:
                    return cls(plain, plain.socket)
                below = Underlay(plain)
                return cls(await encrypted(below, tls, host), plain.socket, below)
        except trio.TooSlowError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except (*LOST, OSError) as error:
            raise httpx.ConnectError(str(error)) from error

    async def send(self, request: h11.Request, body: bytes) -> h11.Response:
        """Send one request, whose content-length is the body's, and wait for the head of the final response.

        Raises ``Unread`` where a kept connection was closed before the request came.
        """
        try:
            head = self._http.send(request) or b""
            self._http.send(h11.Data(data=body))  # a body whose length is given goes out as it is
            self._http.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        try:
            if len(body) <= WHOLE_BYTES:
                await self._stream.send_all(head + body)
            else:
                await self._stream.send_all(head)
                await self._stream.send_all(body)
            if self._below is not None and self._below.broken is not None:
                raise self._below.broken
        except LOST as error:
            # A server may answer, of a body that is too large, say, and hang up before it has read all of it.
            self._whole = False
            return await self._head(httpx.WriteError(str(error)))
        return await self._head()

    async def read(self) -> bytes:
        """The next bytes of the body; b"" at its end."""
        while self._http.their_state is h11.SEND_BODY:
            event = await self._event()
            if type(event) is h11.Data and event.data:
                return bytes(event.data)
        return b""

    async def next_request(self) -> bool:
        """Make ready for another request. False where one of the two was not sent or read to its end, or was the connection's last.

        Bytes beyond the response would be taken for the answer to the next request.
        """
        http = self._http
        if not self._whole or http.our_state is not h11.DONE or http.their_state is not h11.DONE:
            return False
        if any(http.trailing_data) or (self._below is not None and await holds_more(self._stream, self._below)):
            return False
        http.start_next_cycle()
        self._idle_since = trio.current_time()
        self._acked = self._acked_bytes()
        return True

    def is_fresh(self, keep_alive_s: float) -> bool:
        """Whether it can be used after a rest: nothing came since, which would be the server's closing."""
        return trio.current_time() < self._idle_since + keep_alive_s and not self._socket.is_readable()

    async def aclose(self) -> None:
        """Close at once, without a word to the server: at the end of a response nobody waits for one."""
        await trio.aclose_forcefully(self._stream)

    async def _head(self, unsent: httpx.WriteError | None = None) -> h11.Response:
        while True:
            try:
                event = await self._event()
            except Unread:
                raise
            except httpx.HTTPError:
                if unsent is not None:
                    raise unsent from None
                raise
            if type(event) is h11.Response:
                return event
            if type(event) is h11.InformationalResponse and event.status_code == 101:
                raise httpx.RemoteProtocolError("the server switched to another protocol")

    async def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise httpx.RemoteProtocolError(str(error)) from error
            if event is not h11.NEED_DATA:
                return event
            try:
                data = await self._stream.receive_some(READ_BYTES)
            except LOST as error:
                raise httpx.ReadError(str(error)) from error
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise self._ended()
            self._http.receive_data(bytes(data))

    def _ended(self) -> httpx.RemoteProtocolError:
        """The error for an end without a response. Every packet says how much its sender has received: where the end came and not one byte
        of the request was, the server had closed before. Where the system does not tell, nothing is taken for unread."""
        if self._acked and self._acked == self._acked_bytes():
            return Unread("Server disconnected before the request came.")
        return httpx.RemoteProtocolError("Server disconnected without sending a response.")

    def _acked_bytes(self) -> int:
        """How many bytes of ours the server's system has received; 0: not known."""
        if TCP_INFO is None:
            return 0
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, TCP_INFO, BYTES_ACKED.stop)
        except OSError:
            return 0
        return int.from_bytes(info[BYTES_ACKED], sys.byteorder)
