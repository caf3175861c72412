"""``CALL web_fetch(url)``: a page of an allowed host as text; HTML as Markdown, documents as ``read`` shows them."""

from __future__ import annotations

import codecs
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import httpx

from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.chunking import tokens
from kleene.tools.documents import Source
from kleene.tools.effects import shortened
from kleene.tools.hosts import HostRules, parse_url
from kleene.tools.reading_documents import readers_of
from kleene.tools.texts import decode, is_binary
from kleene.tools.webclient import Clock, Reach, Reply, Request, send

ACCEPT = "text/html,application/xhtml+xml,text/plain,text/markdown;q=0.9,*/*;q=0.5"
EXTENSIONS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "message/rfc822": ".eml",
    "text/csv": ".csv",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
}
_TEXT = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|toml|javascript|x-sh|x-ndjson|sql)")
_OPAQUE = ("", "application/octet-stream", "binary/octet-stream", "application/download")


def run(hosts: tuple[str, ...], work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    """``url`` is the address that answered, after redirects; ``status`` is that of HTTP, and a page that says 404 is a row like any other.
    ``hosts`` may be reached."""
    return run_within(Reach(HostRules.of(hosts)), work, arguments)


def run_within(reach: Reach, work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    deadline = min(work.deadline, time.monotonic() + reach.seconds)
    reply = fetch(arguments[0], reach, work)
    text = text_in(reply, work, deadline)
    yield (str(reply.url), reply.status, text, tokens(text))


def describe(arguments: tuple[Any, ...]) -> str:
    """
    >>> describe(("https://example.com/a",))
    'fetch https://example.com/a'
    """
    return f"fetch {shortened(str(arguments[0] if arguments else None), 200)}"


def fetch(text: str, reach: Reach, work: Work) -> Reply:
    """Fetches a URL and follows redirects; every hop is asked of the rules anew. Raises ``ToolError``, ``Cancelled``."""
    clock = Clock(min(work.deadline, time.monotonic() + reach.seconds), work.cancelled)
    url = parse_url(text)
    for hop in range(reach.redirects + 1):
        try:
            reply = send(Request("GET", url, {"Accept": ACCEPT}), reach, clock)
        except ToolError as error:
            if not hop:
                raise
            raise ToolError(
                f"{shortened(text, 100)} leads elsewhere: {error.message}", kind=error.kind, hint=error.hint
            ) from error
        if reply.location is None:
            return reply
        url = _next(url, reply.location)
    raise ToolError(f"{shortened(text, 100)} redirects more than {reach.redirects} times", kind="other")


def _next(url: httpx.URL, location: str) -> httpx.URL:
    try:
        return parse_url(str(url.join(location)))
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise ToolError(f"{url.host} redirects to {location[:100]!r}, which is no URL", kind="other") from None


def text_in(reply: Reply, work: Work, deadline: float) -> str:
    """The text of a reply, read until ``deadline``. Raises ``ToolError`` (unsupported) for what is none: pictures, archives, programs."""
    kind, charset = media_type(reply.headers.get("content-type", ""))
    data, suffix = reply.body, EXTENSIONS.get(kind)
    if suffix is None and _TEXT.fullmatch(kind):
        suffix = ".txt"
    if suffix is None and kind in _OPAQUE:
        suffix = PurePosixPath(reply.url.path).suffix or ".txt"
    if suffix is None:
        raise ToolError(f"{reply.url.host} answers with {kind}, which is no text", kind="unsupported")
    if charset is not None and (suffix in (".html", ".csv", ".txt")):
        # With a mark, so that nobody reads another encoding out of the page itself.
        data = codecs.BOM_UTF8 + data.decode(charset, "replace").encode("utf-8", "replace")
    if (suffix == ".txt" and not is_binary(data)) or not data:
        return decode(data)
    with tempfile.TemporaryFile() as file, readers_of(work) as readers:
        file.write(data)
        file.flush()
        source = Source(f"the reply of {reply.url.host}{suffix}", file, work.check)
        return readers.text(source, seconds=max(0.0, deadline - time.monotonic()))


def media_type(header: str) -> tuple[str, str | None]:
    """The media type in small letters, and the encoding where it names one that Python knows for text.

    >>> media_type('Text/HTML; charset="ISO-8859-1"'), media_type("text/plain; charset=zip"), media_type("")
    (('text/html', 'iso8859-1'), ('text/plain', None), ('', None))
    """
    kind, _, rest = header.partition(";")
    found = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", rest)
    try:
        codec = codecs.lookup(found[1]) if found else None
        name = codec.name if codec is not None and "".encode(codec.name) is not None else None
    except (LookupError, ValueError):
        name = None
    return kind.strip().lower(), name
