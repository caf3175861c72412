"""kleene.models.shards: what is said of a connection's failures and of its headers."""

from __future__ import annotations

import httpcore
import httpx
import pytest

from kleene.models.shards import FAILURES, Target, as_httpx, headers_of

NAMES = sorted(n for n, kind in vars(httpcore).items() if isinstance(kind, type) and issubclass(kind, FAILURES))


@pytest.mark.parametrize("name", NAMES)
def test_every_failure_of_httpcore_has_its_like_in_httpx(name: str) -> None:
    found = as_httpx(getattr(httpcore, name)("lost"))
    assert (type(found).__name__, str(found)) == (name, "lost")
    assert isinstance(found, httpx.HTTPError)


def test_headers_that_come_twice_are_joined() -> None:
    raw = [(b"Content-Type", b"text/html"), (b"X-A", b"1"), (b"x-a", "é".encode("latin-1"))]
    assert headers_of(raw) == {"content-type": "text/html", "x-a": "1, é"}


def test_a_target_is_written_as_the_url_says() -> None:
    target = Target(httpx.URL("http://user:secret@Bücher.example:8080/v1/chat?a=ü"), httpx.Headers({"accept": "*/*"}))
    assert target.raw == [(b"host", b"xn--bcher-kva.example:8080"), (b"accept", b"*/*")]
    assert (target.core.host, target.core.port, target.core.target) == (
        b"xn--bcher-kva.example",
        8080,
        b"/v1/chat?a=%C3%BC",
    )
