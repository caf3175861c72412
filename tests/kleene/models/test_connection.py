"""kleene.models.connection: the edges of HTTP/1.1, over a stream whose other end is the test."""

from __future__ import annotations

from collections.abc import Iterable

import h11
import httpx
import pytest
import trio

from kleene.models.connection import MAX_HEAD_BYTES, Connection
from tests.kleene.models.wires import run

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
        return response.status_code, whole, connection.next_request()

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
        assert connection.next_request()
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
        reusable = connection.next_request()
        await connection.aclose()
        assert peer.closed
        return reusable

    assert run(work) is False
