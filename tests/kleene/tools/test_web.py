"""The web tools reach what they may and nothing else. Every server here is the test's own, on loopback."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import socketserver
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Cancelled, ConfigError, ToolError
from kleene.planner.specs import Volatility
from kleene.tools.base import Work
from kleene.tools.hosts import HostRules, carried, is_public, parse_url
from kleene.tools.jail import Jail
from kleene.tools.providers import Service, choose, load_providers
from kleene.tools.web import describe, media_type
from kleene.tools.webclient import Reach
from tests.kleene.tools.work import refusal, use, web_fetch, web_search
from tests.patience import AT_ONCE_S

pytest.importorskip("markdownify")

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """An HTTP server whose paths are functions. ``seen``: the paths that were asked for, with their headers and bodies."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                answer = server.answers.get(urlsplit(self.path).path)
                with contextlib.suppress(OSError):
                    answer(self) if answer else self.send_error(404, "nothing here")

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def says(self, path: str, body: bytes | str, kind: str = "text/plain", status: int = 200, **headers: str) -> str:
        data = body.encode() if isinstance(body, str) else body

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(data)

        self.answers[path] = answer
        return self.url + path

    def raw(self, path: str, parts: Callable[[], Iterator[bytes]]) -> str:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.close_connection = True
            for part in parts():
                handler.wfile.write(part)

        self.answers[path] = answer
        return self.url + path

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(Jail.of(tmp_path))


def to(*hosts: str, **changes: Any) -> Reach:
    return attrs.evolve(Reach(HostRules.of(hosts)), **changes)


def fetched(server: Server, work: Work, url: str, **changes: Any) -> tuple[str, int, str, int]:
    row = use(web_fetch(to(server.host, **changes)), work, url)[0]
    return row[0], row[1], row[2], row[3]


# What is fetched


def test_a_page_comes_as_markdown(server: Server, work: Work) -> None:
    page = "<html><head><title>T</title><script>bad()</script></head><body><h1>Hi</h1><p>a <b>b</b> <a href='/x'>c</a></p></body></html>"
    url = server.says("/a", page, "text/html; charset=utf-8")
    assert fetched(server, work, f"{url}?q=1#part") == (f"{url}?q=1", 200, "# Hi\n\na **b** [c](/x)", 6)
    path, headers, _ = server.seen[0]
    assert (path, headers["host"], headers["user-agent"]) == ("/a?q=1", server.host, "kleene")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"caf\xe9", "text/plain; charset=latin-1", "café"),
        ("é😀\0".encode(), "text/plain; charset=utf-8", "é😀\0"),
        (b"caf\xe9", "text/plain; charset=no-such", "café"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b'{"a": 1}', "application/problem+json; charset=hex", '{"a": 1}'),
        (b"<a/>", "application/rss+xml", "<a/>"),
        (b"a,b\n1,2\n", "text/csv", "a,b\n1,2\n"),
        (b"plain", "", "plain"),
        (b"<p>caf\xe9 <i>x</i>", "text/html; charset=windows-1252", "café *x*"),
        ('<meta charset="latin-1"><p>é'.encode(), "text/html; charset=utf-8", "é"),
        (b"", "text/html", ""),
        (b"<div>" * 5_000 + b"deep", "text/html", None),
    ],
)  # fmt: skip
def test_texts_of_many_kinds_are_read(server: Server, work: Work, body: bytes, kind: str, text: str | None) -> None:
    url = server.says("/a", body, kind)
    if text is None:  # nested deeper than the library goes: said, not crashed
        with contextlib.suppress(ToolError):
            fetched(server, work, url)
    else:
        assert fetched(server, work, url)[2] == text


@pytest.mark.parametrize(("body", "kind"), [(b"\x89PNG\0\0", "image/png"), (b"\0\1\2", "application/octet-stream")])
def test_what_is_no_text_is_refused(server: Server, work: Work, body: bytes, kind: str) -> None:
    error = refusal(web_fetch(to(server.host)), work, server.says("/a", body, kind))
    assert error.kind == "unsupported"


def test_a_status_is_a_row_and_no_error(server: Server, work: Work) -> None:
    url = server.says("/gone", "it was here", status=410)
    assert fetched(server, work, url) == (url, 410, "it was here", 3)


@pytest.mark.parametrize(
    "pack", [gzip.compress, zlib.compress, lambda d: zlib.compress(d)[2:-4]], ids=["gzip", "deflate", "raw"]
)
def test_packed_replies_are_unpacked(server: Server, work: Work, pack: Callable[[bytes], bytes]) -> None:
    name = "gzip" if pack is gzip.compress else "deflate"
    url = server.says("/a", pack(b"text " * 1000), Content_Encoding=name)
    assert fetched(server, work, url)[2] == "text " * 1000


def test_two_gzip_members_are_one_text(server: Server, work: Work) -> None:
    url = server.says("/a", gzip.compress(b"one ") + gzip.compress(b"two"), Content_Encoding="gzip")
    assert fetched(server, work, url)[2] == "one two"


@pytest.mark.parametrize("page", [b"<!--" * 200_000, b"<p>x <b>y</b>" * 200_000], ids=["comments", "long"])
def test_a_page_that_is_slow_to_read_ends_in_time(server: Server, work: Work, page: bytes) -> None:
    begun = time.monotonic()
    error = refusal(web_fetch(to(server.host, seconds=0.5)), work, server.says("/a", page, "text/html"))
    assert (error.kind, error.message) == ("timed out", "the reply of 127.0.0.1.html could not be read in time")
    assert time.monotonic() - begun < AT_ONCE_S


def test_a_document_on_the_web_is_read_like_one_in_the_workspace(server: Server, work: Work) -> None:
    from kleene.tools.building import docx_of

    url = server.says("/a.docx", docx_of("# Title\n\nBody"), "application/octet-stream")
    assert fetched(server, work, url)[2] == "# Title\n\nBody"
    error = refusal(web_fetch(to(server.host)), work, server.says("/b", b"%PDF-1.4 broken", "application/pdf"))
    assert error.kind == "unsupported" and "the reply of 127.0.0.1.pdf" in error.message


# Limits


def chunked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def endless(piece: bytes, pause_s: float = 0.0) -> Iterator[bytes]:
    while True:
        yield piece
        time.sleep(pause_s)


@pytest.mark.parametrize("declared", [True, False])
def test_a_huge_body_is_refused(server: Server, work: Work, declared: bool) -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
        + (b"Content-Length: 9999999999\r\n" if declared else b"")
        + b"\r\n"
    )

    def parts() -> Iterator[bytes]:
        yield head
        yield from endless(b"x" * 65536)

    error = refusal(web_fetch(to(server.host, body_bytes=1 << 20)), work, server.raw("/a", parts))
    assert (error.kind, error.message) == ("too large", "the reply has more than 1,048,576 bytes")


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gzip_bomb_is_not_unpacked(server: Server, work: Work, layers: int) -> None:
    bomb = gzip.compress(bytes(8 << 20), 1)
    if layers == 2:
        url = server.says("/a", gzip.compress(bomb), Content_Encoding="gzip, gzip")
        assert refusal(web_fetch(to(server.host)), work, url).kind == "unsupported"
    else:
        url = server.says("/a", bomb, Content_Encoding="gzip")
        assert refusal(web_fetch(to(server.host, unpacked_bytes=1 << 20)), work, url).kind == "too large"


@pytest.mark.parametrize(
    "parts",
    [
        lambda: chunked(endless(b"x", 0.02)),
        lambda: endless(b"X-Header: x\r\n", 0.02),
        lambda: endless(b"", 0.1),
    ],
    ids=["body", "headers", "silence"],
)  # fmt: skip
def test_a_slow_reply_ends_in_time(server: Server, work: Work, parts: Callable[[], Iterator[bytes]]) -> None:
    begun = time.monotonic()

    def whole() -> Iterator[bytes]:
        stop = time.monotonic() + 6
        for part in parts():
            yield part
            if time.monotonic() > stop:
                return

    error = refusal(web_fetch(to(server.host, seconds=0.3)), work, server.raw("/a", whole))
    assert (error.kind, error.message) == ("timed out", "127.0.0.1 did not answer in full within 0.3 s")
    assert time.monotonic() - begun < AT_ONCE_S


def test_a_cancel_ends_a_fetch_at_once(server: Server, work: Work) -> None:
    url = server.raw("/a", lambda: (b"" for _ in iter(lambda: time.sleep(0.05), 1) if time.monotonic() < stop))
    begun = time.monotonic()
    stop = begun + 6
    work = attrs.evolve(work, cancelled=lambda: time.monotonic() - begun > 0.1)
    with pytest.raises(Cancelled):
        use(web_fetch(to(server.host)), work, url)
    assert time.monotonic() - begun < AT_ONCE_S


def test_a_resolver_that_hangs_ends_in_time(work: Work) -> None:
    gate = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        gate.wait(5)
        return ["127.0.0.1"]

    reach = to("example.com", "127.0.0.1", resolve=resolve, seconds=0.2)
    assert refusal(web_fetch(reach), work, "http://example.com/").kind == "timed out"
    gate.set()


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 300_000,
    ],
)
def test_a_broken_server_is_an_error_of_the_network(server: Server, work: Work, reply: bytes) -> None:
    url = server.raw("/a", lambda: iter([reply]))
    assert refusal(web_fetch(to(server.host)), work, url).kind == "io"


def test_nobody_listening_is_an_error_of_the_network(work: Work) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = refusal(web_fetch(to(f"127.0.0.1:{port}")), work, f"http://127.0.0.1:{port}/")
    assert (error.kind, error.message) == ("io", "127.0.0.1: [Errno 111] Connection refused")


# Where it may go


def test_without_a_list_nothing_is_reached(server: Server, work: Work) -> None:
    error = refusal(web_fetch(Reach(HostRules())), work, server.says("/a", "x"))
    assert error.message == f"{server.host} is not on the list of hosts that may be reached"
    assert (error.kind, error.hint) == ("access denied", f"allow it with --allow-host {server.host}")
    assert server.seen == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0.0.0.0",
     "[::]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16",
     "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "[ff02::1]", "[fc00::1]", "[2001:db8::1]"],
)  # fmt: skip
def test_no_private_address_is_reached_by_allowing_every_name(server: Server, work: Work, host: str) -> None:
    port = f":{server.port}"
    for hosts in (
        ("*",),
        (f"*{port}",),
        ("0.0.0.0/0" if "[" not in host else "*",) if host in ("169.254.169.254", "168.63.129.16") else ("*",),
    ):
        assert refusal(web_fetch(to(*hosts)), work, f"http://{host}{port}/").kind == "access denied"
    assert server.seen == []


@pytest.mark.parametrize(
    "url",
    ["http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.1.:{port}/x\\",
     "http://127.0.0.01/", "http://user@127.0.0.1:{port}/", "http://user:pass@127.0.0.1:{port}/", "http://example.com@127.0.0.1:{port}/",
     "http://127.0.0.1:{port}\\@example.com/", "http://127.0.0.1:{port}/\r\nX: y", "http://127.0.0.1:{port}/ x", "file:///etc/passwd",
     "ftp://127.0.0.1/", "gopher://127.0.0.1:{port}/", "data:text/plain,x", "//127.0.0.1:{port}/", "127.0.0.1:{port}", "http:///x", "http://",
     "http://[::1", "http://[fe80::1%25lo]/", "http://%31%32%37.0.0.1:{port}/", "http://①②⑦.0.0.1/", "http://a..b/", "http://127.0.0.1:0/",
     "http://127.0.0.1:99999/", "", "http://exa_mple-.com/", "http://" + "a" * 300 + ".com/"],
)  # fmt: skip
def test_a_url_that_could_be_misread_is_refused(server: Server, work: Work, url: str) -> None:
    error = refusal(web_fetch(to("*", server.host, "0.0.0.0/0")), work, url.format(port=server.port))
    assert error.kind == "invalid arguments", error.message
    assert server.seen == []


def test_a_name_that_stands_for_a_private_address_is_not_reached(server: Server, work: Work) -> None:
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["93.184.215.14", "127.0.0.1"]

    reach = to(f"inside.example.com:{server.port}", resolve=resolve)
    error = refusal(web_fetch(reach), work, f"http://INSIDE.example.com.:{server.port}/")
    assert error.message == "127.0.0.1 (of inside.example.com) is a loopback address, which is not reached"
    assert (error.hint, asked, server.seen) == (
        "if it is meant: --allow-host 127.0.0.1",
        [("inside.example.com", server.port)],
        [],
    )


def test_a_name_is_resolved_once_and_that_address_is_reached(server: Server, work: Work) -> None:
    """The second answer would be another: it is never asked for."""
    url = server.says("/a", "x")
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    reach = to(f"rebind.example.com:{server.port}", server.host, resolve=lambda host, port: next(answers))
    named = url.replace("127.0.0.1", "rebind.example.com")
    assert use(web_fetch(reach), work, named) == [(named, 200, "x", 1)]
    assert server.seen[0][1]["host"] == f"rebind.example.com:{server.port}"
    error = refusal(web_fetch(reach), work, named)
    assert error.message == "169.254.169.254 (of rebind.example.com) is a metadata address, which is not reached"
    assert error.hint is None


@pytest.mark.parametrize(
    ("location", "kind", "said"),
    [
        ("http://169.254.169.254/latest/meta-data/", "access denied", "169.254.169.254 is not on the list"),
        ("http://[fd00:ec2::254]/", "access denied", "fd00:ec2::254 is not on the list"),
        ("http://localhost:{port}/b", "access denied", "localhost:{port} is not on the list"),
        ("http://127.0.0.2:{port}/b", "access denied", "127.0.0.2:{port} is not on the list"),
        ("http://127.0.0.1:1/b", "access denied", "127.0.0.1:1 is not on the list"),
        ("http://2130706433:{port}/b", "invalid arguments", "is no host"),
        ("http://a@127.0.0.1:{port}/b", "invalid arguments", "names a user"),
        ("file:///etc/passwd", "invalid arguments", "no http or https URL"),
        ("//evil.example.com/b", "access denied", "evil.example.com is not on the list"),
        ("\\\\evil.example.com/b", "invalid arguments", "backslash"),
    ],
)
def test_a_redirect_is_asked_of_the_rules_anew(server: Server, work: Work, location: str, kind: str, said: str) -> None:
    server.says("/b", "secret")
    url = server.says("/a", "", status=302, Location=location.format(port=server.port))
    error = refusal(web_fetch(to(server.host)), work, url)
    assert error.kind == kind and said.format(port=server.port) in error.message
    assert [path for path, _, _ in server.seen] == ["/a"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_allowed_redirect_is_followed(server: Server, work: Work, status: int) -> None:
    server.says("/dir/b", "there")
    url = server.says("/dir/a", "", status=status, Location="b#part")
    assert fetched(server, work, url) == (f"{server.url}/dir/b", 200, "there", 2)


def test_redirects_end(server: Server, work: Work) -> None:
    url = server.says("/a", "", status=302, Location="/a")
    error = refusal(web_fetch(to(server.host)), work, url)
    assert error.message == f"{url} redirects more than 5 times" and len(server.seen) == 6


def test_a_proxy_of_the_environment_is_not_used(server: Server, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert fetched(server, work, server.says("/a", "x"))[2] == "x"


# Rules


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        ("example.com", ["http://example.com/", "https://EXAMPLE.com/x"], ["http://a.example.com/", "http://example.com:8080/", "https://example.com:80/", "http://badexample.com/", "http://example.com.evil.com/"]),
        ("*.example.com", ["http://a.example.com/", "http://a.b.example.com/"], ["http://example.com/", "http://aexample.com/"]),
        ("example.com:8080", ["http://example.com:8080/"], ["http://example.com/"]),
        ("*", ["http://anything.org/", "https://1.1.1.1/"], ["http://anything.org:81/", "http://10.0.0.1/"]),
        ("10.0.0.0/8", ["http://10.1.2.3/"], ["http://11.0.0.1/", "http://10.1.2.3:81/"]),
        ("169.254.0.0/16", ["http://169.253.0.1/"][:0], ["http://169.254.169.254/", "http://169.254.1.1/"]),
        ("169.254.169.254", ["http://169.254.169.254/"], ["http://169.254.169.253/"]),
        ("[::1]:8080", ["http://[::1]:8080/"], ["http://[::1]/"]),
        ("localhost:99", ["http://localhost:99/", "http://127.0.0.1:99/", "http://[::1]:99/"], ["http://localhost/", "http://10.0.0.1:99/"]),
        ("bücher.de".encode("idna").decode(), ["http://bücher.de/"], ["http://bucher.de/"]),
    ],
)  # fmt: skip
def test_an_entry_allows_what_it_says(entry: str, allowed: list[str], refused: list[str]) -> None:
    rules = HostRules.of([f" {entry.upper()} "])
    for url in allowed:
        rules.check_url(parse_url(url))
    for url in refused:
        with pytest.raises(ToolError):
            rules.check_url(parse_url(url))


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "http://example.com",
        "example.com/x",
        "a b",
        "10.0.0.1/8",
        "*.",
        "ex*.com",
        "2130706433",
        "[::1",
        "user@host",
        "h:0",
    ],
)
def test_an_entry_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HostRules.of([entry])
    assert caught.value.message == f"{entry!r} names no host"


@settings(max_examples=40)
@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_as_what_carries_it(address: Any) -> None:
    number = int(address)
    carriers = [(0xFFFF << 32) | number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)]
    for carrier in carriers:
        wrapped = type(ip_address("::1"))(carrier)
        assert carried(wrapped) == address
        assert is_public(wrapped) == is_public(address)


@given(st.text(st.sampled_from("htps:/.@[]\\%#?1270a-_x \t:"), max_size=30))
def test_no_text_breaks_the_reading_of_urls(text: str) -> None:
    with contextlib.suppress(ToolError):
        url = parse_url(f"http://{text}")
        assert url.scheme == "http" and not url.userinfo and url.host


@given(st.text())
def test_no_header_breaks_the_reading_of_types(text: str) -> None:
    kind, charset = media_type(text)
    assert kind == kind.lower() and (charset is None or "x".encode(charset) is not None)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for secure.example.com that signs itself, with its key."""
    import subprocess

    path = tmp_path_factory.mktemp("tls") / "both.pem"
    names = ("-subj", "/CN=secure.example.com", "-addext", "subjectAltName=DNS:secure.example.com")
    options = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    try:
        subprocess.run(
            ["openssl", *options, *names, "-keyout", f"{path}.key", "-out", path], check=True, capture_output=True
        )
    except OSError:
        pytest.skip("openssl is not installed")
    path.write_bytes(path.read_bytes() + Path(f"{path}.key").read_bytes())
    return path


@pytest.mark.parametrize("name", ["secure.example.com", "other.example.com"])
def test_the_certificate_is_that_of_the_name_not_of_the_address(certificate: Path, work: Work, name: str) -> None:
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    server.says("/a", "private" * 100_000)
    reach = to(
        *(f"{name}:{server.port}", f"127.0.0.1:{server.port}"),
        resolve=lambda host, port: ["127.0.0.1"],
        context=lambda: ssl.create_default_context(cafile=str(certificate)),
    )
    if name.startswith("secure"):
        assert use(web_fetch(reach), work, f"https://{name}:{server.port}/a")[0][2] == "private" * 100_000
    else:
        error = refusal(web_fetch(reach), work, f"https://{name}:{server.port}/a")
        assert error.kind == "io" and "certificate verify failed" in error.message
    server.close()


def test_a_handshake_that_hangs_ends_in_time(work: Work) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        port = silent.server_address[1]
        begun = time.monotonic()
        error = refusal(web_fetch(to(f"127.0.0.1:{port}", seconds=0.2)), work, f"https://127.0.0.1:{port}/")
        assert error.kind == "timed out" and time.monotonic() - begun < AT_ONCE_S


# Search

PROVIDERS = load_providers()
RESULTS = [{"url": f"https://example.com/{n}", "n": n} for n in range(25)]
REPLIES: dict[str, Any] = {
    "brave": {"web": {"results": [{"title": f"<b>T</b>{r['n']}", "url": r["url"], "description": "a &amp; <strong>b</strong>"} for r in RESULTS]}},
    "tavily": {"results": [{"title": f"T{r['n']}", "url": r["url"], "content": "a & b"} for r in RESULTS]},
    "exa": {"results": [{"title": f"T{r['n']}", "url": r["url"], "highlights": ["a &", "b"]} for r in RESULTS]},
    "linkup": {"results": [{"type": "text", "name": f"T{r['n']}", "url": r["url"], "content": "a & b"} for r in RESULTS]},
}  # fmt: skip
SENT: dict[str, tuple[str, str, Any]] = {
    "brave": ("x-subscription-token", "sk-secret", {"q": ["a b&c=é"], "count": ["3"]}),
    "tavily": ("authorization", "Bearer sk-secret", {"query": "a b&c=é", "max_results": 3}),
    "exa": ("x-api-key", "sk-secret", {"query": "a b&c=é", "numResults": 3, "contents": {"highlights": True}}),
    "linkup": ("authorization", "Bearer sk-secret", {"q": "a b&c=é", "depth": "standard", "outputType": "searchResults", "maxResults": 3}),
}  # fmt: skip


def service(server: Server, name: str) -> Service:
    return Service(name, attrs.evolve(PROVIDERS[name], url=f"{server.url}/search"), "sk-secret")


def test_the_table_names_real_services_over_https() -> None:
    assert list(PROVIDERS) == ["brave", "tavily", "exa", "linkup"]
    assert all(provider.url.startswith("https://") for provider in PROVIDERS.values())
    assert web_search(None).volatility is web_fetch(Reach(HostRules())).volatility is Volatility.VOLATILE


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_service_is_asked_in_its_own_words(server: Server, work: Work, name: str) -> None:
    server.says("/search", json.dumps(REPLIES[name]), "application/json")
    snippet = "a & … b" if name == "exa" else "a & b"
    rows = [(n + 1, f"T{n}", f"https://example.com/{n}", snippet) for n in range(3)]
    assert use(web_search(service(server, name)), work, "a b&c=é", 3) == rows
    path, headers, body = server.seen[0]
    header, value, sent = SENT[name]
    assert headers[header] == value
    assert (json.loads(body) if body else parse_qs(urlsplit(path).query)) == sent
    assert len(use(web_search(service(server, name)), work, "q")) == 10


@pytest.mark.parametrize(
    ("reply", "rows"),
    [
        ({}, []),
        ([], []),
        ({"results": None}, []),
        ({"results": [None, 1, {"title": "no address"}, {"url": " "}, {"url": "u", "title": None, "content": 5}]}, [(1, "", "u", "")]),
        ({"results": [{"url": "u", "title": "x" * 5_000, "content": "y" * 5_000}]}, [(1, "x" * 5_000, "u", "y" * 1_000)]),
    ],
)  # fmt: skip
def test_strange_replies_give_what_is_in_them(server: Server, work: Work, reply: Any, rows: list[Any]) -> None:
    server.says("/search", json.dumps(reply), "application/json")
    assert use(web_search(service(server, "tavily")), work, "q") == rows


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, "tavily refuses the key: your key *** is wrong", "access denied"),
        (429, "tavily gets too many requests: your key *** is wrong", "other"),
        (500, "tavily answers with status 500: your key *** is wrong", "other"),
        (302, "tavily answers with status 302: your key *** is wrong", "other"),
        (200, "tavily did not answer with JSON", "other"),
    ],
)
def test_no_error_shows_the_key(server: Server, work: Work, status: int, said: str, kind: str) -> None:
    server.says("/search", "your key sk-secret is wrong", status=status, Location="http://169.254.169.254/")
    effect = web_search(service(server, "tavily"))
    error = refusal(effect, work, "q")
    assert (error.message, error.kind) == (said, kind)
    chain: BaseException | None = error
    while chain is not None:
        assert "sk-secret" not in repr(chain) + str(chain) + str(getattr(chain, "hint", ""))
        chain = chain.__cause__
    assert "sk-secret" not in repr(effect) + repr(service(server, "tavily"))
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" ",), "the query is empty"),
        (("x" * 401,), "the query has 401 characters; brave takes 400"),
        (("q", 0), "n is 0; it may be 1 to 20"),
        (("q", 21), "n is 21; it may be 1 to 20"),
    ],
)
def test_a_search_that_cannot_be_is_refused(server: Server, work: Work, arguments: tuple[Any, ...], said: str) -> None:
    assert refusal(web_search(service(server, "brave")), work, *arguments).message == said
    assert server.seen == []


def test_a_key_that_no_header_can_hold_is_not_shown(server: Server, work: Work) -> None:
    bad = attrs.evolve(service(server, "brave"), key="sk\r\nX-Other: 1")
    error = refusal(web_search(bad), work, "q")
    assert "sk" not in error.message and server.seen == []


def test_without_a_service_search_says_how_to_get_one(work: Work) -> None:
    error = refusal(web_search(None), work, "q")
    assert (error.kind, error.message) == ("unsupported", "no search service is configured")
    assert error.hint is not None and "KLEENE_WEB_SEARCH_API_KEY" in error.hint


@pytest.mark.parametrize(
    ("name", "key", "environ", "chosen"),
    [
        (None, None, {}, None),
        (None, "k", {}, ("brave", "k")),
        (None, None, {"EXA_API_KEY": "e"}, ("exa", "e")),
        ("tavily", None, {"EXA_API_KEY": "e"}, None),
        ("exa", "k", {"EXA_API_KEY": "e"}, ("exa", "k")),
        ("linkup", None, {"LINKUP_API_KEY": " l\n"}, ("linkup", "l")),
        (None, None, {"BRAVE_API_KEY": ""}, None),
    ],
)
def test_the_service_is_chosen_by_name_or_key(
    name: str | None, key: str | None, environ: dict[str, str], chosen: tuple[str, str] | None
) -> None:
    found = choose(PROVIDERS, name, key, environ)
    assert (None if found is None else (found.name, found.key)) == chosen


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        choose(PROVIDERS, "tavilly", "k", {})
    assert (caught.value.message, caught.value.hint) == ("'tavilly' is no search provider", "did you mean 'tavily'?")


def test_a_dry_run_says_what_would_be_fetched() -> None:
    assert describe(("https://example.com/",)) == "fetch https://example.com/"
    assert web_search(None).describe(("a\nb", 3)) == "search the web for 'a\\\\nb'"
