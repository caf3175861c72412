"""kleene.models.shards: what is sent, what is said of headers, and when a connection is kept."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from kleene.models.connection import Unread
from kleene.models.failures import Origin
from kleene.models.http import Endpoint
from kleene.models.shards import Answer, Client, Direct, Target, headers_of
from kleene.udfs.protocols import ProviderError
from tests.fake_server import FakeServer, Say
from tests.kleene.models.wires import run

TLS = Path(__file__).parents[2] / "fixtures" / "tls"
PROXIES = [name for scheme in ("http", "https", "all", "no") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without proxies."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def endpoint(url: str, **options: int) -> Endpoint:
    return Endpoint(url, Origin("openai", "m"), {}, **options)


def test_headers_that_come_twice_are_joined() -> None:
    raw = [(b"Content-Type", b"text/html"), (b"X-A", b"1"), (b"x-a", "é".encode("latin-1"))]
    assert headers_of(raw) == {"content-type": "text/html", "x-a": "1, é"}


def test_a_request_is_written_as_the_url_says() -> None:
    target = Target(httpx.URL("http://user:secret@Bücher.example:8080/v1/chat?a=ü"), httpx.Headers({"accept": "*/*"}))
    assert (target.host, target.port) == ("xn--bcher-kva.example", 8080)
    request = target.post(12)
    assert (request.method, request.target) == (b"POST", b"/v1/chat?a=%C3%BC")
    assert list(request.headers) == [
        (b"host", b"xn--bcher-kva.example:8080"),
        (b"accept", b"*/*"),
        (b"content-length", b"12"),
    ]
    assert target.post(12) is request
    assert target.post(13) is not request


@pytest.mark.parametrize(("url", "port"), [("http://a", 80), ("https://a", 443), ("https://[::1]:8443/v1", 8443)])
def test_a_port_is_the_schemes_where_none_is_given(url: str, port: int) -> None:
    assert Target(httpx.URL(url), httpx.Headers()).port == port


def test_a_header_that_cannot_be_sent_is_said() -> None:
    target = Target(httpx.URL("http://a/v1"), httpx.Headers({"x-a": "one\r\nx-b: two"}))
    with pytest.raises(httpx.LocalProtocolError, match="Illegal header value"):
        target.post(0)


class Closed(Direct):
    """A kept connection of which nobody has noticed yet that the server closed it."""

    def is_ready(self) -> bool:
        return True

    async def send(self, target: Target, content: bytes, leaving: Callable[[], None]) -> Answer:
        leaving()
        raise Unread("closed")


@pytest.mark.parametrize("kept", [1, 3])
def test_what_the_server_did_not_read_goes_out_once_more_on_a_new_connection(bare: Any, kept: int) -> None:
    with FakeServer(lambda _: "ok") as server:
        at = endpoint(server.url + "/v1")

        async def work() -> None:
            await at.request("/chat/completions", ASK, 5.0)
            (shards,) = at._shards.values()
            shards.idle.extend(Closed(None) for _ in range(kept))
            await at.request("/chat/completions", ASK, 5.0)
            await at.aclose()

        run(work)
        assert (server.count, server.connections) == (2, 2)


def test_a_request_that_found_no_connection_in_its_time_was_not_sent(bare: Any) -> None:
    with FakeServer(lambda _: Say("ok", delay=0.2)) as server:
        at = endpoint(server.url + "/v1", connections=1)

        async def work() -> ProviderError:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(at.request, "/chat/completions", ASK, 5.0)
                await trio.sleep(0.05)
                with pytest.raises(ProviderError) as error:
                    await at.request("/chat/completions", ASK, 0.05)
            await at.aclose()
            return error.value

        error = run(work)
        assert server.count == 1
    assert (error.kind, error.retryable, error.sent, error.billed) == ("timeout", True, False, False)
    assert error.message == "openai (m): no connection within 0.05 s"


def test_a_connection_that_serves_while_its_endpoint_is_closed_is_closed_after(bare: Any) -> None:
    with FakeServer(lambda _: Say("ok", delay=0.2)) as server:
        at = endpoint(server.url + "/v1")

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(at.request, "/chat/completions", ASK, 5.0)
                await trio.sleep(0.05)
                await at.aclose()
            with trio.fail_after(5):
                while server._open:  # the server sees the end of each connection
                    await trio.sleep(0.01)

        run(work)
        assert server.count == 1


class CancelAt(trio.abc.Instrument):
    """Cancels a scope of a task at its moment of that number: before one of its steps, and after it, where the task waits."""

    def __init__(self, moment: int) -> None:
        self.scope = trio.CancelScope()
        self.left = moment
        self.task: trio.lowlevel.Task | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()

    after_task_step = before_task_step


@pytest.mark.parametrize("way", ["plain", "tls", "proxy"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_cancel_at_any_step_leaves_nothing_behind(bare: pytest.MonkeyPatch, way: str, streamed: bool) -> None:
    """On a new connection and on a kept one: no socket stays, the next request gets its own answer, the gate is free."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if way == "tls" else None
    if tls is not None:
        tls.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
        bare.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))

    with FakeServer(lambda a: Say("re:" + a.prompt, pieces=1), tls=tls) as server:
        if way == "proxy":
            bare.setenv("HTTP_PROXY", server.url)
        at = endpoint("http://model.invalid/v1" if way == "proxy" else server.url + "/v1", connections=1)

        async def say(text: str) -> bytes:
            parts: list[bytes] = []
            take = (lambda _, data: parts.append(data)) if streamed else None
            body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": streamed}
            reply = await at.request("/chat/completions", body, 5.0, take)
            return b"".join(parts) or reply.body

        async def cancelled_at(step: int, text: str) -> bool:
            instrument = CancelAt(step)
            trio.lowlevel.add_instrument(instrument)
            with instrument.scope:
                instrument.task = trio.lowlevel.current_task()
                assert f"re:{text}" in (await say(text)).decode()
            instrument.task = None
            trio.lowlevel.remove_instrument(instrument)
            return instrument.scope.cancelled_caught

        async def work() -> list[int]:
            steps = []
            for kept in (False, True):
                step = 1
                while await cancelled_at(step, f"cancelled-{step}-{kept}"):
                    if kept or step % 5 == 0:
                        assert f"re:after-{step}-{kept}" in (await say(f"after-{step}-{kept}")).decode()
                    if not kept:
                        await at.aclose()
                    step += 1
                steps.append(step)
            await at.aclose()
            while server._open:  # the server sees the end of each connection
                await trio.sleep(0.01)
            return steps

        new, kept = run(work)
        assert new >= kept > 4
        assert len({ask.prompt for ask in server.asks}) == server.count  # nothing was sent twice


@pytest.mark.parametrize(
    ("url", "environment", "kind"),
    [
        ("http://model.example", {}, Direct),
        ("http://model.example", {"NO_PROXY": "localhost"}, Direct),
        ("http://model.example", {"HTTPS_PROXY": "http://127.0.0.1:9"}, Direct),
        ("http://model.example", {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "a, *"}, Direct),
        ("http://model.example", {"HTTP_PROXY": "127.0.0.1:9", "NO_PROXY": "a"}, Client),
        ("http://model.example", {"ALL_PROXY": "http://127.0.0.1:9"}, Client),
        ("https://model.example", {"HTTP_PROXY": "http://127.0.0.1:9"}, Direct),
        ("https://model.example", {"HTTPS_PROXY": "http://127.0.0.1:9"}, Client),
    ],
)
def test_httpx_is_asked_where_a_proxy_may_stand_between(
    bare: pytest.MonkeyPatch, url: str, environment: dict[str, str], kind: type
) -> None:
    for name, value in environment.items():
        bare.setenv(name, value)
    assert type(endpoint(url)._new_shard()) is kind


def test_a_proxy_that_is_set_or_unset_counts_at_the_next_connection(bare: pytest.MonkeyPatch) -> None:
    with FakeServer(lambda _: "by proxy") as proxy, FakeServer(lambda _: "direct") as server:
        at = endpoint("http://model.invalid/v1")
        there = endpoint(server.url + "/v1")

        async def work() -> None:
            with pytest.raises(ProviderError, match="name is not known"):
                await at.request("/chat/completions", ASK, 5.0)
            bare.setenv("HTTP_PROXY", proxy.url)
            for _ in range(2):
                await at.request("/chat/completions", ASK, 5.0)
                await there.request("/chat/completions", ASK, 5.0)
            assert (proxy.count, proxy.connections, server.count) == (4, 2, 0)
            bare.setenv("NO_PROXY", "127.0.0.1")
            await there.request("/chat/completions", ASK, 5.0)
            bare.delenv("HTTP_PROXY")
            await there.request("/chat/completions", ASK, 5.0)
            assert (proxy.count, server.count) == (4, 2)
            await at.aclose()
            await there.aclose()

        run(work)


@pytest.mark.parametrize("proxy", ["ftp://127.0.0.1:9", "http://127.0.0.1:port", "socks9://127.0.0.1:9"])
def test_a_proxy_that_is_none_is_an_error_that_names_the_variables(bare: pytest.MonkeyPatch, proxy: str) -> None:
    bare.setenv("HTTP_PROXY", proxy)

    async def work() -> None:
        await endpoint("http://model.example/v1").request("/chat/completions", ASK, 5.0)

    with pytest.raises(ProviderError) as error:
        run(work)
    assert error.value.message.startswith("openai (m): the proxy cannot be used: ")
    assert (error.value.kind, error.value.retryable, error.value.sent) == ("network", False, False)
    assert error.value.hint == "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"


def test_authorities_that_cannot_be_read_are_an_error_that_names_the_variable(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("SSL_CERT_FILE", "/no/such/file.pem")

    async def work() -> None:
        await endpoint("https://model.example/v1").request("/chat/completions", ASK, 5.0)

    with pytest.raises(ProviderError) as error:
        run(work)
    assert error.value.message.startswith("openai (m): no certificate authorities: ")
    assert (error.value.kind, error.value.retryable, error.value.sent) == ("network", False, False)
    assert error.value.hint == "SSL_CERT_FILE must name a file of certificates (PEM), SSL_CERT_DIR a folder of them"
