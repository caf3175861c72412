"""kleene.models.shards: what is sent, what is said of headers, and when a connection is kept."""

from __future__ import annotations

import httpx
import pytest

from kleene.models.shards import Target, headers_of


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
