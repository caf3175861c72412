"""What a bad answer of a provider means: statuses, error bodies and transport errors as ``ProviderError``.

A key never gets into a message: it is struck out wherever a server echoes it.
"""

from __future__ import annotations

import email.utils
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

import attrs
import httpx

from kleene.udfs.jsontext import clean
from kleene.udfs.protocols import ProviderError

_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "model_not_found": 404,
    "timeout_error": 504,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "tokens": 429,
    "requests": 429,
    "invalid_request_error": 400,
    "exceed_context_size_error": 400,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|length|size)|prompt is too long|input is too long|too many (?:input )?tokens|"
    r"exceeds? the (?:available )?context|string_above_max_length|reduce the length of the (?:messages|input)",
    re.I,
)
_QUOTA = re.compile(
    r"insufficient_quota|billing_hard_limit|exceeded your current quota|credit balance is too low|out of credits", re.I
)
PROXY_HINT = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG")
"""What OpenSSL says, by its version, of bytes that are HTTP."""
_HINTS = {
    "auth": "check the key (kleene setup, or the environment) and that it may use this model",
    "quota": "the account has no credit or quota left: raise it with the provider, or use another model",
    "not_found": "check the model's name and the base_url",
    "context_overflow": "shorten the prompt: fewer rows or columns in it, substr(text, 1, n), or one call per part and a call over the answers",
}


@attrs.frozen
class Origin:
    """Who answered: for messages. ``secrets`` are struck out of every text."""

    provider: str
    model: str
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)

    def scrub(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= 6:  # a stand-in such as "x" is no secret, and would tear words apart
                text = text.replace(secret, "***")
        return text


def from_status(origin: Origin, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """The error for an HTTP status of 300 or more."""
    return _error(origin, status, headers, _facts(origin.scrub(body.decode("utf-8", "replace"))))


def from_body(origin: Origin, headers: Mapping[str, str], value: Any) -> ProviderError | None:
    """The error in a reply of status 200 (or an event of a stream) that holds one instead of an answer, else None."""
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        return None
    return _error(origin, None, headers, _facts_of(value))


def malformed(origin: Origin, what: str) -> ProviderError:
    """The error for a reply of status 200 that is no answer. Asking again can help; it may have been billed."""
    return ProviderError(
        "malformed",
        f"{origin.provider} ({origin.model}) sent a reply that cannot be read: {origin.scrub(what)}",
        retryable=True,
    )


def timed_out(origin: Origin, seconds: float, *, sent: bool) -> ProviderError:
    """The error for a reply that is not whole in time; where nothing was sent, there was not even a connection."""
    who = f"{origin.provider} ({origin.model})"
    message = f"{who} did not answer within {seconds:g} s" if sent else f"{who}: no connection within {seconds:g} s"
    return ProviderError("timeout", message, retryable=True, sent=sent, hint="SET timeout = seconds allows more")


def no_authorities(origin: Origin, error: Exception) -> ProviderError:
    """The error where certificates cannot be verified, because the file of those who sign them cannot be read."""
    text = f"{origin.provider} ({origin.model}): no certificate authorities: {origin.scrub(_one_line(str(error)))}"
    hint = "SSL_CERT_FILE must name a file of certificates (PEM), SSL_CERT_DIR a folder of them"
    return ProviderError("network", text, sent=False, hint=hint)


def no_proxy(origin: Origin, error: Exception) -> ProviderError:
    """The error where the environment names a proxy that cannot be used."""
    text = f"{origin.provider} ({origin.model}): the proxy cannot be used: {origin.scrub(_one_line(str(error)))}"
    return ProviderError("network", text, sent=False, hint=PROXY_HINT)


def from_transport(origin: Origin, error: httpx.HTTPError) -> ProviderError:
    """The error for a request that got no answer: no name, no connection, no valid certificate, a connection lost on the way."""
    who = f"{origin.provider} ({origin.model})"
    causes = _causes(error)
    text = next((words for cause in causes if (words := _one_line(origin.scrub(str(cause))))), type(error).__name__)
    if any(isinstance(c, ssl.SSLCertVerificationError) for c in causes) or "CERTIFICATE_VERIFY_FAILED" in text:
        hint = "set SSL_CERT_FILE to the certificate authority's file, or correct the base_url"
        return ProviderError(
            "network", f"{who}: the server's certificate does not verify: {text}", sent=False, hint=hint
        )
    if any(isinstance(c, ssl.SSLError) and c.reason in _NO_TLS for c in causes):
        hint = "write http:// in the base_url if the server has no encryption"
        return ProviderError("network", f"{who}: the server does not speak TLS: {text}", sent=False, hint=hint)
    if (
        any(isinstance(c, socket.gaierror) for c in causes)
        or "Name or service not known" in text
        or "nodename nor servname" in text
    ):
        again = any(isinstance(c, socket.gaierror) and c.errno == socket.EAI_AGAIN for c in causes)
        hint = "check the base_url and the network"
        return ProviderError(
            "network", f"{who}: the server's name is not known: {text}", retryable=again, sent=False, hint=hint
        )
    if isinstance(error, httpx.ProxyError):
        text = f"{who}: the proxy refused the connection: {text}"
        return ProviderError("network", text, sent=False, hint=PROXY_HINT)
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        return ProviderError("bad_request", f"{who}: the request cannot be sent: {text}", sent=False)
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return ProviderError("timeout", f"{who}: no connection within the time limit", retryable=True, sent=False)
    if isinstance(error, httpx.ConnectError):
        return ProviderError(
            "network", f"{who}: no connection: {text}", retryable=True, sent=False, hint="check that the server runs"
        )
    if isinstance(error, httpx.TimeoutException):
        return ProviderError("timeout", f"{who}: the connection went silent", retryable=True)
    if isinstance(error, httpx.DecodingError):
        return ProviderError("malformed", f"{who}: the reply's compression is broken: {text}", retryable=True)
    return ProviderError("network", f"{who}: the connection was lost: {text}", retryable=True)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds a server asks to wait: Retry-After as seconds or as a date, retry-after-ms. A date counts from the server's own clock."""
    if (ms := _float(headers.get("retry-after-ms"))) is not None:
        return max(0.0, ms / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    if (seconds := _float(text)) is not None:
        return max(0.0, seconds)
    until, served = _date(text), _date(headers.get("date", ""))
    if until is None:
        return None
    start = served if served is not None else (time.time() if now is None else now)
    return max(0.0, until - start)


def _error(origin: Origin, status: int | None, headers: Mapping[str, str], facts: _Facts) -> ProviderError:
    if status is None:
        status = facts.status or _STATUS_OF_TYPE.get(facts.code) or _STATUS_OF_TYPE.get(facts.type) or 500
        heading = f"answered with an error ({facts.type or facts.code or status})"
    else:
        heading = f"answered {status}"
    kind, retryable = _kind(status, f"{facts.code} {facts.type} {facts.message}")
    request_id = headers.get("request-id") or headers.get("x-request-id")
    message = f"{origin.provider} ({origin.model}) {heading}"
    message += f": {facts.message}" if facts.message else ""
    message += f" (request {request_id})" if request_id else ""
    wait = retry_after(headers) if retryable else None
    billed = status in (408, 504)
    hint = _HINTS.get(kind)
    return ProviderError(kind, origin.scrub(message), retryable=retryable, retry_after=wait, billed=billed, hint=hint)


def _kind(status: int, text: str) -> tuple[str, bool]:
    if status in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return "context_overflow", False
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(text)):
        return "quota", False
    if status == 429:
        return "rate_limited", True
    if status in (401, 403):
        return "auth", False
    if status == 404:
        return "not_found", False
    if status == 413:
        return "context_overflow", False
    if status in (408, 504):
        return "timeout", True
    if status in (503, 529):
        return "overloaded", True
    if status >= 500:
        return "other", status != 501
    return ("other", True) if status in (409, 425) else ("bad_request" if status >= 400 else "other", False)


@attrs.frozen
class _Facts:
    message: str = ""
    type: str = ""
    code: str = ""
    status: int | None = None


def _facts(text: str) -> _Facts:
    try:
        return _facts_of(json.loads(text))
    except (ValueError, RecursionError):
        return _Facts(_one_line(_without_tags(text)))


def _without_tags(text: str) -> str:
    """The words of a page. One pass: a pattern that looks for the end of each tag takes seconds for a page of 64 KB that never ends one."""
    before, *pieces = text.split("<")
    words, hidden = [before], ""
    for piece in pieces:
        tag, end, after = piece.partition(">")
        is_tag = bool(end) and (tag[:1].isalpha() or tag[:1] in ("/", "!", "?"))
        name = tag.split(maxsplit=1)[0].lower() if is_tag else ""
        if hidden:
            hidden = "" if name == f"/{hidden}" else hidden
        elif name in ("script", "style", "head"):
            hidden = name
        if not hidden:
            words.append(after if is_tag else f"<{piece}")
    return " ".join(words)


def _facts_of(value: Any) -> _Facts:
    if not isinstance(value, dict):
        return _Facts(_one_line(json.dumps(value)))
    error = value.get("error") or value
    if isinstance(error, str):
        return _Facts(_one_line(error))
    if not isinstance(error, dict):
        return _Facts(_one_line(json.dumps(error)))
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    code = error.get("code")
    status = code if isinstance(code, int) and 300 <= code < 600 else None
    return _Facts(
        _one_line(message if isinstance(message, str) else json.dumps(message)),
        error["type"] if isinstance(error.get("type"), str) else "",
        str(code) if isinstance(code, str | int) else "",
        status,
    )


def _one_line(text: str, limit: int = 300) -> str:
    line = " ".join(clean(text).split())  # JSON can hold halves of characters, which no file and no terminal takes
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in found:
        found.append(at)
        at = at.__cause__ or at.__context__
    return found


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is None or 0 <= value < 1e9 else None


def _date(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
