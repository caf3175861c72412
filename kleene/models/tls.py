"""TLS over a stream of trio's, which can be asked whether it holds bytes that nobody has read."""

from __future__ import annotations

import ssl

import trio


class Dry(Exception):
    """There are no more bytes at hand."""


class Underlay(trio.abc.Stream):
    """What carries the encrypted bytes. While it is ``dry`` it gives none.

    ``broken``: why bytes could not be sent. It is not raised, because trio's TLS then refuses to read what the server said before it hung up.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.dry = False
        self.broken: trio.BrokenResourceError | None = None
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            self.broken = error

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self.dry:
            raise Dry
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def encrypted(below: trio.abc.Stream, tls: ssl.SSLContext, host: str) -> trio.abc.Stream:
    """A stream whose server has shown its certificate. Closes what is below where it has none that verifies, or on cancellation.

    Raises ``trio.BrokenResourceError`` with ssl's error as its cause.
    """
    try:
        stream = trio.SSLStream(below, tls, server_hostname=host, https_compatible=True)
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(below)
        raise
    return stream


async def holds_more(stream: trio.abc.Stream, below: Underlay) -> bool:
    """Whether bytes that came already, or the other side's end, are still to be decrypted: the socket below does not know of them.

    They are lost: such a stream is to be closed.
    """
    below.dry = True
    try:
        await stream.receive_some(1)
    except Dry:
        below.dry = False
        return False
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    return True
