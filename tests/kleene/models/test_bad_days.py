"""What providers do on a bad day, each from a server that does it: the error's kind, whether to ask again, and that no key is in it."""

from __future__ import annotations

import email.utils
import gzip
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kleene.models import OpenAI
from kleene.models.failures import Origin, from_status, retry_after
from kleene.planner.errors import ConfigError, NoModel
from kleene.udfs.protocols import ProviderError
from tests.fake_server import FakeServer, Raw, Say, chat, failure, write
from tests.kleene.models.wires import BOOL, WIRES, ask, fail, provider, run, send

KEY = "sk-test-0123456789abcdef"
JSON = {"content-type": "application/json"}
TLS = Path(__file__).parents[2] / "fixtures" / "tls"
every_wire = pytest.mark.parametrize("wire", sorted(WIRES))


def outcome(rule: Any, wire: str = "openai", **options: Any) -> Any:
    with FakeServer(rule if callable(rule) else lambda _: rule) as server:
        return fail(provider(wire, server.url), ask(**options))


@every_wire
@pytest.mark.parametrize(
    ("raw", "kind", "retryable", "message"),
    [
        (failure(401, "Incorrect API key: " + KEY), "auth", False, "answered 401: Incorrect API key: ***"),
        (failure(403, "expired"), "auth", False, "answered 403: expired"),
        (
            failure(404, "model fake-1 does not exist", "not_found_error"),
            "not_found",
            False,
            "answered 404: model fake-1 does not exist",
        ),
        (failure(400, "bad field"), "bad_request", False, "answered 400: bad field"),
        (failure(402, "pay"), "quota", False, "answered 402: pay"),
        (failure(429, "slow down"), "rate_limited", True, "answered 429: slow down"),
        (
            failure(429, "You exceeded your current quota", code="insufficient_quota"),
            "quota",
            False,
            "answered 429: You exceeded your current quota",
        ),
        (
            failure(400, "Your credit balance is too low"),
            "quota",
            False,
            "answered 400: Your credit balance is too low",
        ),
        (failure(500, "boom"), "other", True, "answered 500: boom"),
        (failure(529, "overloaded", "overloaded_error"), "overloaded", True, "answered 529: overloaded"),
        (
            Raw(
                b"<html><head><title>x</title></head><body><h1>503 Service</h1> down</body></html>",
                503,
                {"content-type": "text/html"},
            ),
            "overloaded",
            True,
            "answered 503: 503 Service down",
        ),
        (Raw(b"", 502), "other", True, "answered 502"),
        (Raw(b"", 504), "timeout", True, "answered 504"),
        (Raw(b"\xff\xfe\x00", 500), "other", True, "answered 500: \ufffd\ufffd\x00"),
        (Raw(b"", 301, {"location": "http://elsewhere"}), "other", False, "answered 301"),
    ],
    ids=lambda v: f"{v.status}" if isinstance(v, Raw) else "",
)
def test_a_status_is_an_error_by_name(wire: str, raw: Raw, kind: str, retryable: bool, message: str) -> None:
    error = outcome(raw, wire)
    assert (error.kind, error.retryable, error.sent) == (kind, retryable, True)
    assert error.message == f"{wire} (fake-1) {message}"


@every_wire
@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum", None),
        (400, "This model's maximum context length is 8192 tokens, you asked for 9000", "context_length_exceeded"),
        (400, "the request exceeds the available context size (512 tokens)", None),
        (413, "too large", None),
    ],
)
def test_a_context_overflow_names_the_tokens_and_what_to_shorten(
    wire: str, status: int, message: str, code: str | None
) -> None:
    error = outcome(failure(status, message, code=code), wire)
    assert (error.kind, error.retryable, error.billed) == ("context_overflow", False, False)
    assert message in error.message
    assert (
        error.hint
        == "shorten the prompt: fewer rows or columns in it, substr(text, 1, n), or one call per part and a call over the answers"
    )


@every_wire
def test_a_reply_of_status_200_that_holds_an_error_is_that_error(wire: str) -> None:
    error = outcome(failure(200, "Overloaded", "overloaded_error"), wire)
    assert (error.kind, error.retryable, error.message) == (
        "overloaded",
        True,
        f"{wire} (fake-1) answered with an error (overloaded_error): Overloaded",
    )


@every_wire
def test_an_error_in_the_stream_drops_the_text_that_came_before(wire: str) -> None:
    from tests.fake_server import sse

    def rule(a: Any) -> Raw:
        begin = write(a, Say("partial text here")).body
        data = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return Raw(
            begin[: len(begin) // 3].rsplit(b"\n\n", 1)[0] + b"\n\n" + sse([("error", data)]),
            200,
            {"content-type": "text/event-stream"},
        )

    with FakeServer(rule) as server:
        error = fail(provider(wire, server.url), None, lambda _: None)
    assert (error.kind, error.retryable, error.billed) == ("overloaded", True, True)


@every_wire
def test_the_first_event_may_be_an_error(wire: str) -> None:
    body = b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"later"}}\n\n'
    with FakeServer(lambda _: Raw(body, 200, {"content-type": "text/event-stream", "retry-after": "2"})) as server:
        error = fail(provider(wire, server.url), None, lambda _: None)
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limited", True, 2.0)


@every_wire
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'"text"',
        b"null",
        b'{"choices": []}',
        b'{"content": null, "output": null}',
        b"[" * 100_000,
    ],
    ids=["empty", "prose", "array", "object", "string", "null", "no choices", "null content", "deep"],
)
def test_a_reply_that_is_no_answer_is_malformed(wire: str, body: bytes) -> None:
    error = outcome(Raw(body, 200, JSON), wire)
    assert (error.kind, error.retryable, error.billed) == ("malformed", True, True)
    assert error.message.startswith(f"{wire} (fake-1) sent a reply that cannot be read: ")


@every_wire
@pytest.mark.parametrize(
    "raw",
    [Raw(b'{"choices": [{"mes', cut=8, length=500), Raw(b"{}" * 50, cut=10, length=100, reset=True)],
    ids=["closed", "reset"],
)
def test_a_reply_cut_off_by_the_network_is_to_be_asked_again(wire: str, raw: Raw) -> None:
    error = outcome(raw, wire)
    assert (error.kind, error.retryable, error.sent, error.billed) == ("network", True, True, True)


@every_wire
def test_a_stream_cut_anywhere_is_whole_or_says_that_it_is_not(wire: str) -> None:
    """To HTTP the response is whole: nothing but the stream itself says where it should end."""
    body, cut = b"", 0

    def rule(a: Any) -> Raw:
        nonlocal body
        body = write(a, Say("caf\u00e9 {}", pieces=2)).body
        return Raw(body[:cut], 200, {"content-type": "text/event-stream"})

    with FakeServer(rule) as server:
        model = provider(wire, server.url)

        async def work() -> list[str]:
            nonlocal cut
            found: list[str] = []
            while cut <= len(body):
                try:
                    found.append((await model.send(ask(), lambda _: None)).text)
                except ProviderError as error:
                    assert (error.kind, error.retryable, error.billed) == ("network", True, True), error.message
                    assert error.message == f"{wire} (fake-1): the stream ended before the reply was complete"
                    found.append("")
                cut += 1 if cut > len(body) - 40 else 7
            await model.aclose()
            return found

        found = run(work)
    assert set(found) == {"", "caf\u00e9 {}"}
    assert found == sorted(found)


def test_a_connection_closed_without_an_answer_is_to_be_asked_again() -> None:
    error = outcome(Raw(silent=True))
    assert (error.kind, error.retryable) == ("network", True)


def test_a_keep_alive_connection_closed_between_requests_is_replaced_unnoticed() -> None:
    with FakeServer(lambda a: Raw(json.dumps(chat(a, Say("ok"))).encode(), 200, JSON, close=True)) as server:
        model = provider("openai", server.url)

        async def work() -> list[str]:
            said = []
            for _ in range(3):
                said.append((await model.send(ask())).text)
                time.sleep(0.05)
            await model.aclose()
            return said

        assert run(work) == ["ok"] * 3
        assert (server.count, server.connections) == (3, 3)


def test_what_the_server_read_is_not_sent_again_unasked() -> None:
    """On a new connection and on a kept one: it may have been worked on, and the books know of one request."""
    with FakeServer(lambda a: Raw(silent=True) if a.number in (0, 2) else "ok") as server:
        model = provider("openai", server.url)

        async def work() -> list[str]:
            said = []
            for _ in range(4):
                try:
                    said.append((await model.send(ask())).text)
                except ProviderError as error:
                    assert (error.retryable, error.sent, error.billed) == (True, True, True)
                    said.append(error.kind)
            await model.aclose()
            return said

        assert run(work) == ["network", "ok", "network", "ok"]
        assert server.count == 4


def test_a_gzip_reply_is_read_and_one_cut_short_is_an_error() -> None:
    def rule(a: Any) -> Raw:
        body = gzip.compress(json.dumps(chat(a, Say("ok " * 200))).encode())
        return Raw(body if a.number == 0 else body[: len(body) // 2], 200, {**JSON, "content-encoding": "gzip"})

    with FakeServer(rule) as server:
        assert send(provider("openai", server.url), ask()).text.startswith("ok")
        error = fail(provider("openai", server.url))
    assert (error.kind, error.retryable) == ("malformed", True)


def test_a_body_that_is_not_gzip_at_all_is_malformed() -> None:
    error = outcome(Raw(b"plain", 200, {"content-encoding": "gzip"}))
    assert (error.kind, error.retryable) == ("malformed", True)
    assert error.message.startswith("openai (fake-1) sent a reply that cannot be read: its compression is broken (")


def test_a_reply_of_50_mb_is_read_and_one_above_the_limit_is_refused() -> None:
    with FakeServer(lambda a: "x" * 50_000_000) as server:
        model = provider("openai", server.url)
        assert len(send(model, ask()).text) == 50_000_000
        model.connection.max_reply_bytes = 2**20
        error = fail(model)
    assert (error.kind, error.retryable) == ("malformed", False)
    assert error.message == "openai (fake-1) sent a reply that cannot be read: it is larger than 1 MiB"


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    def rule(a: Any) -> Raw:
        return Raw(json.dumps(chat(a, Say("caf#"))).encode().replace(b"#", b"\xe9"), 200, JSON)

    with FakeServer(rule) as server:
        assert send(provider("openai", server.url), ask()).text == "caf\ufffd"


def test_content_as_parts_and_null_content_are_read() -> None:
    def rule(a: Any) -> Raw:
        whole = chat(a, Say("x"))
        whole["choices"][0]["message"]["content"] = (
            [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}] if a.number == 0 else None
        )
        return Raw(json.dumps(whole).encode(), 200, JSON)

    with FakeServer(rule) as server:
        assert [send(provider("openai", server.url), ask()).text for _ in range(2)] == ["one two", ""]


def test_a_server_without_encryption_is_not_asked_again_for_it() -> None:
    """It answers the first bytes of TLS with words."""

    def speak() -> None:
        with listener.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        speaker = threading.Thread(target=speak)
        speaker.start()
        error = fail(provider("openai", f"https://127.0.0.1:{listener.getsockname()[1]}"))
        speaker.join(5)
    assert (error.kind, error.retryable, error.sent) == ("network", False, False)
    assert error.message.startswith("openai (fake-1): the server does not speak TLS: ")
    assert error.hint == "write http:// in the base_url if the server has no encryption"


@every_wire
def test_a_server_that_never_answers_runs_into_the_time_limit(wire: str) -> None:
    start = time.monotonic()
    error = outcome(lambda _: Say("ok", delay=0.5), wire, timeout=0.1)
    assert time.monotonic() - start < 3
    assert (error.kind, error.retryable, error.billed) == ("timeout", True, True)
    assert error.message == f"{wire} (fake-1) did not answer within 0.1 s"


def test_a_server_that_is_not_there_was_not_sent_to() -> None:
    with FakeServer(lambda _: "ok") as server:
        url = server.url
    error = fail(provider("openai", url))
    assert (error.kind, error.retryable, error.sent, error.billed) == ("network", True, False, False)
    assert error.hint == "check that the server runs"


def test_a_name_that_does_not_resolve_was_not_sent_to() -> None:
    error = fail(provider("openai", "http://no-such-host.invalid"))
    assert (error.kind, error.sent, error.hint) == ("network", False, "check the base_url and the network")
    assert error.message.startswith("openai (fake-1): the server's name is not known: ")


def test_a_certificate_that_does_not_verify_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    with FakeServer(lambda _: "ok", tls=context) as server:
        model = provider("openai", server.url)
        error = fail(model)
        assert (error.kind, error.retryable, error.sent) == ("network", False, False)
        assert error.message.startswith("openai (fake-1): the server's certificate does not verify: [SSL: ")
        assert "self-signed certificate" in error.message
        assert error.hint == "set SSL_CERT_FILE to the certificate authority's file, or correct the base_url"
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
        assert send(model, ask()).text == "ok"
        assert send(provider("openai", server.url.replace("https", "HTTPS")), ask()).text == "ok"


def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer(lambda _: "by proxy") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert send(provider("openai", "http://model.invalid"), ask()).text == "by proxy"
        assert proxy.asks[0].path == "http://model.invalid/v1/chat/completions"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with FakeServer(lambda _: "direct") as server:
            assert send(provider("openai", server.url), ask()).text == "direct"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:10 +99999999999999999999"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:10 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 10.0),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:10 GMT"}, 0.0),
        ({}, None),
    ],
    ids=["seconds", "fraction", "negative", "words", "endless", "odd zone", "ms", "date", "past", "none"],
)
def test_the_wait_is_read_as_seconds_or_as_a_date_of_the_servers_clock(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_a_date_without_the_servers_clock_counts_from_ours() -> None:
    now = 1_790_000_000.0
    assert retry_after({"retry-after": email.utils.formatdate(now + 20, usegmt=True)}, now) == 20.0


def test_a_429_carries_the_wait_and_the_request_id() -> None:
    error = outcome(failure(429, "slow", headers={"retry-after": "3", "x-request-id": "req_9"}))
    assert (error.retry_after, error.billed, error.message) == (
        3.0,
        False,
        "openai (fake-1) answered 429: slow (request req_9)",
    )


@pytest.mark.parametrize("wire", sorted(WIRES))
@pytest.mark.parametrize("key", ["sk-a\nb", "sk a", "sk-\u00e9", "sk-a\x00"], ids=["newline", "blank", "letter", "nul"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(wire: str, key: str) -> None:
    with pytest.raises(ConfigError) as error:
        provider(wire, "http://127.0.0.1:1", api_key=key)
    assert key not in error.value.render()
    assert "holds a character that no key has" in error.value.message


def test_a_key_with_a_line_break_at_its_end_is_trimmed() -> None:
    with FakeServer(lambda _: "ok") as server:
        send(provider("openai", server.url, api_key="sk-abc\n"), ask())
    assert server.asks[0].headers["authorization"] == "Bearer sk-abc"


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://x/v1", "http://", "http://h:99999", "http://h:0", "http://a..b/v1", "https://.x", f"http://{'a' * 64}.com"],
)  # fmt: skip
def test_a_url_that_is_none_is_refused(url: str) -> None:
    if not url:
        with pytest.raises(NoModel):
            OpenAI("m", base_url="https://api.openai.com/v1", api_key="")
        return
    with pytest.raises(ConfigError, match=r"the base_url is .*, not a URL"):
        OpenAI("m", base_url=url, api_key="k")


def test_a_password_in_the_url_is_not_in_the_endpoint() -> None:
    model = OpenAI("m", base_url="http://user:secret@127.0.0.1:1/v1?key=abc", api_key="k")
    assert model.endpoint == "http://127.0.0.1:1/v1"
    assert "secret" not in repr(model)


def test_no_key_is_in_any_repr() -> None:
    for wire in WIRES:
        model = provider(wire, "http://127.0.0.1:1")
        assert KEY not in f"{model!r} {model.connection!r} {model.connection.origin!r} {model.capabilities!r}"


@pytest.mark.parametrize("before", range(260, 310, 7))
def test_a_key_across_the_end_of_a_message_does_not_show_in_part(before: int) -> None:
    error = outcome(failure(500, "x" * before + " " + KEY + " was sent"))
    assert "sk-" not in error.message
    body = json.dumps({"choices": "x" * (before - 200) + KEY}).encode()
    assert "sk-t" not in outcome(Raw(body, 200, JSON)).message
    assert "sk-t" not in outcome(Raw(b"x" * (before - 240) + KEY.encode(), 200, JSON)).message


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b"<script>a<b</script><p>sorry, <b>down</b>", "sorry, down"),
        (b"<!DOCTYPE html><HEAD><title>x</title></HEAD >y<Style >z</STYLE><br/>w", "y w"),
        (b"1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        (b"<" * 60_000, "< " * 148 + "<..."),
        (b"<head><script" * 5_000, ""),
        (b"[" * 60_000, "[" * 297 + "..."),
        (b'{"error": {"message": "first"}}' + b" " * 100_000, "first"),
        (b"sorry" + b" " * 100_000, "sorry"),
    ],
    ids=["script", "head", "no tags", "no ends", "no end", "deep json", "long json", "long"],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_words_of_an_error_page_are_told(page: bytes, words: str, packed: bool) -> None:
    packing = {"content-encoding": "gzip"} if packed else {}
    error = outcome(Raw(gzip.compress(page) if packed else page, 500, packing))
    assert error.message == "openai (fake-1) answered 500" + (f": {words}" if words else "")


def test_a_500_echoing_the_key_does_not_show_it() -> None:
    error = from_status(Origin("openai", "m", (KEY,)), 500, {}, f"request with {KEY} failed".encode())
    assert error.message == "openai (m) answered 500: request with *** failed"


def test_max_tokens_is_swapped_once_when_a_server_wants_the_other_name() -> None:
    def rule(a: Any) -> Any:
        if "max_tokens" in a.body:
            return failure(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            )
        return "ok"

    with FakeServer(rule) as server:
        model = provider("openai", server.url)
        error = fail(model)
        assert (error.kind, error.retryable) == ("bad_request", True)
        assert send(model, ask()).text == "ok"


def test_effort_temperature_and_seed_are_left_out_once_a_server_refuses_them() -> None:
    def rule(a: Any) -> Any:
        for name in ("reasoning_effort", "temperature", "seed"):
            if name in a.body:
                return failure(400, f"{name} is not supported")
        return "ok"

    with FakeServer(rule) as server:
        model = provider("openai", server.url)
        request = ask(effort="low", temperature=0.5, seed=1)
        assert [fail(model, request).retryable for _ in range(3)] == [True] * 3
        assert send(model, request).text == "ok"
        assert model.degrade.notes == ("no reasoning effort", "no seed", "no temperature")


def test_a_refusal_to_do_without_is_not_retried_for_ever() -> None:
    with FakeServer(
        lambda _: failure(400, "response_format, tools, seed, max_tokens not supported, reasoning")
    ) as server:
        model = provider("openai", server.url)
        kinds = [fail(model, ask(schema=BOOL, effort="low", seed=1)).retryable for _ in range(8)]
    assert kinds == [True] * 5 + [False] * 3
