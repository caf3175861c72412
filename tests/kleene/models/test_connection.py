"""kleene.models.connection: the edges of HTTP/1.1, over a stream whose other end is the test."""

from __future__ import annotations

import ssl
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import h11
import httpx
import pytest
import trio

from kleene.models.connection import MAX_HEAD_BYTES, Connection, Unread
from tests.kleene.models.wires import run

TLS = Path(__file__).parents[2] / "fixtures" / "tls"

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
END = b""


class Peer(trio.abc.Stream):
    """A server's side: gives its pieces one by one whatever is sent; ``END`` hangs up. As a socket, it is readable where pieces are left."""

    def __init__(self, *pieces: bytes, deaf_after: int | None = None) -> None:
        self.pieces = list(pieces)
        self.got = b""
        self.closed = False
        self._deaf_after = deaf_after

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.got += bytes(data)
        if self._deaf_after is not None and len(self.got) > self._deaf_after:
            raise trio.BrokenResourceError("broken pipe")

    async def wait_send_all_might_not_block(self) -> None: ...

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self.pieces:
            await trio.sleep_forever()
        return self.pieces.pop(0)

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()

    def is_readable(self) -> bool:
        return bool(self.pieces)

    def getsockopt(self, *_: int) -> bytes:
        raise OSError("no socket")


def post(body: bytes) -> h11.Request:
    headers = [("host", "model"), ("content-length", str(len(body)))]
    return h11.Request(method="POST", target="/v1", headers=headers)


def said(peer: Peer, body: bytes = b"asked") -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection can serve another request."""

    async def work() -> tuple[int, bytes, bool]:
        connection = Connection(peer, peer)  # type: ignore[arg-type]
        response = await connection.send(post(body), body)
        whole = b""
        while chunk := await connection.read():
            whole += chunk
        assert await connection.read() == b""
        return response.status_code, whole, await connection.next_request()

    return run(work)


def by_byte(data: bytes) -> Iterable[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nx-a: late\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (OK, (200, b"ok", True)),
        (CHUNKED, (200, b"ok", True)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK, (200, b"ok", True)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", (200, b"ok", False)),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", (200, b"ok", False)),
    ],
    ids=["length", "chunked", "informational", "no content", "close", "http 1.0"],
)
def test_a_response_is_read_to_its_end_however_it_is_cut(reply: bytes, found: tuple[int, bytes, bool]) -> None:
    assert said(Peer(reply)) == found
    assert said(Peer(*by_byte(reply))) == found


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert said(Peer(b"HTTP/1.1 200 OK\r\n\r\no", b"k", END)) == (200, b"ok", False)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_a_request_goes_out_whole(size: int) -> None:
    peer = Peer(OK)
    assert said(peer, b"x" * size)[0] == 200
    head, _, body = peer.got.partition(b"\r\n\r\n")
    assert head == b"POST /v1 HTTP/1.1\r\nhost: model\r\ncontent-length: %d" % size
    assert body == b"x" * size


def test_a_second_response_is_no_answer_to_the_next_request() -> None:
    assert said(Peer(OK + OK)) == (200, b"ok", False)


def test_what_comes_while_the_connection_rests_makes_it_stale() -> None:
    async def work() -> tuple[bool, bool, bool]:
        peer = Peer(OK)
        connection = Connection(peer, peer)  # type: ignore[arg-type]
        await connection.send(post(b""), b"")
        while await connection.read():
            pass
        assert await connection.next_request()
        fresh, old = connection.is_fresh(30), connection.is_fresh(0)
        peer.pieces.append(END)
        return fresh, old, connection.is_fresh(30)

    assert run(work) == (True, False, False)


def test_a_server_that_answers_before_it_has_read_the_request_is_heard() -> None:
    early = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig"
    assert said(Peer(early, deaf_after=1000), b"x" * 100_000) == (413, b"big", False)


def test_a_server_that_hangs_up_on_a_request_and_says_nothing_is_a_failed_write() -> None:
    with pytest.raises(httpx.WriteError, match="broken pipe"):
        said(Peer(END, deaf_after=1000), b"x" * 100_000)


@pytest.mark.parametrize(
    ("pieces", "kind", "message"),
    [
        ([END], httpx.RemoteProtocolError, "Server disconnected without sending a response"),
        ([b"HTTP/1.1 200 OK\r\ncontent-", END], httpx.RemoteProtocolError, "disconnected without sending a response"),
        ([OK[:-1], END], httpx.RemoteProtocolError, r"without sending complete message body \(received 1 bytes, expected 2\)"),
        ([CHUNKED[:-3], END], httpx.RemoteProtocolError, "peer unexpectedly closed connection"),
        ([b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n"], httpx.RemoteProtocolError, "illegal"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"], httpx.RemoteProtocolError, "illegal status line"),
        ([b"HTTP/1.1 200 OK\r\n" + b"x-a: " + b"y" * MAX_HEAD_BYTES], httpx.RemoteProtocolError, "Receive buffer too long"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n"], httpx.RemoteProtocolError, "bad Content-Length"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"], httpx.RemoteProtocolError, "."),
    ],
    ids=["silence", "half a head", "half a body", "half a chunk", "tls", "ssh", "endless head", "bad length", "upgrade"],
)  # fmt: skip
def test_what_is_no_response_is_an_error(pieces: list[bytes], kind: type[httpx.HTTPError], message: str) -> None:
    with pytest.raises(kind, match=message):
        said(Peer(*pieces))


def test_a_body_of_another_length_than_was_said_is_not_sent() -> None:
    peer = Peer(OK)

    async def work() -> None:
        await Connection(peer, peer).send(post(b"long"), b"longer")  # type: ignore[arg-type]

    with pytest.raises(httpx.LocalProtocolError):
        run(work)
    assert peer.got == b""


def test_a_response_left_half_read_ends_the_connection() -> None:
    async def work() -> bool:
        peer = Peer(OK[:-1])
        connection = Connection(peer, peer)  # type: ignore[arg-type]
        await connection.send(post(b""), b"")
        with trio.move_on_after(0.01):
            while True:
                await connection.read()
        reusable = await connection.next_request()
        await connection.aclose()
        assert peer.closed
        return reusable

    assert run(work) is False


def test_a_request_that_went_out_in_part_ends_the_connection_though_it_was_answered() -> None:
    early = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"
    assert said(Peer(early, deaf_after=1000), b"x" * 100_000) == (413, b"big", False)


Serve = Callable[[trio.abc.Stream, trio.SocketStream], Awaitable[None]]


def against(serve: Serve, work: Callable[[Connection], Awaitable[None]], version: ssl.TLSVersion | None = None) -> None:
    """A connection to a server on a socket of this loop, encrypted where a version is given. ``serve`` gets the stream and the one below."""

    async def main() -> None:
        trusted = None
        if version is not None:
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.minimum_version = server.maximum_version = version
            server.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
            trusted = ssl.create_default_context(cafile=TLS / "cert.pem")

        async def handle(plain: trio.SocketStream) -> None:
            async with plain:
                stream = plain if version is None else trio.SSLStream(plain, server, server_side=True)
                await serve(stream, plain)

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, handle, [listener])
            connection = await Connection.open("127.0.0.1", listener.socket.getsockname()[1], trusted, 5.0)
            try:
                await work(connection)
            finally:
                await connection.aclose()
            nursery.cancel_scope.cancel()

    run(main)


async def asked(connection: Connection, body: bytes = b"asked") -> tuple[int, bytes]:
    response = await connection.send(post(body), body)
    whole = b""
    while chunk := await connection.read():
        whole += chunk
    return response.status_code, whole


PLAIN_AND_TLS = pytest.mark.parametrize(
    "version", [None, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["plain", "tls 1.2", "tls 1.3"]
)


@PLAIN_AND_TLS
@pytest.mark.parametrize(
    ("end", "kind"),
    [("before", Unread), ("read", httpx.RemoteProtocolError), ("reset", httpx.ReadError), ("began", httpx.RemoteProtocolError)],
)  # fmt: skip
@pytest.mark.skipif(sys.platform != "linux", reason="what the server received is asked of Linux")
def test_a_request_is_unread_only_where_the_server_had_closed_before(
    version: ssl.TLSVersion | None, end: str, kind: type[Exception]
) -> None:
    """``reset`` may come without a word of what was received, though the server has read all of it."""
    closed = trio.Event()

    async def serve(stream: trio.abc.Stream, plain: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(OK)
        if end != "before":
            await stream.receive_some(1000)
        if end == "began":
            await stream.send_all(b"HTTP/1.1 200 OK\r\n")
        if end == "reset":
            plain.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(plain)
        closed.set()

    async def work(connection: Connection) -> None:
        assert await asked(connection) == (200, b"ok")
        assert await connection.next_request()
        if end == "before":
            await closed.wait()
        with pytest.raises(httpx.HTTPError) as error:
            await asked(connection)
        assert type(error.value) is kind

    against(serve, work, version)


@PLAIN_AND_TLS
def test_a_second_response_is_none_though_it_is_not_decrypted_yet(version: ssl.TLSVersion | None) -> None:
    """TLS: in a record of its own, it is neither on the socket nor in h11."""

    async def serve(stream: trio.abc.Stream, plain: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(OK[:-1])
        await stream.send_all(OK[-1:])
        await stream.receive_some(1000)
        if version is None:
            await stream.send_all(OK + OK)
        else:
            await both_at_once(stream, plain)
        await trio.sleep_forever()

    async def both_at_once(stream: trio.abc.Stream, plain: trio.SocketStream) -> None:
        hoard = stream.transport_stream = Peer()  # type: ignore[attr-defined]
        await stream.send_all(OK)
        await stream.send_all(OK)
        await plain.send_all(hoard.got)

    async def work(connection: Connection) -> None:
        assert await asked(connection) == (200, b"ok")
        assert await connection.next_request()
        assert await asked(connection) == (200, b"ok")
        assert not await connection.next_request()

    against(serve, work, version)


@PLAIN_AND_TLS
def test_a_server_that_hangs_up_on_a_long_request_is_heard(version: ssl.TLSVersion | None) -> None:
    async def serve(stream: trio.abc.Stream, plain: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")

    async def work(connection: Connection) -> None:
        assert await asked(connection, b"x" * 20_000_000) == (413, b"big")
        assert not await connection.next_request()

    against(serve, work, version)
