"""``CALL web_search(q [, n])``: one of several search services, each a table of ``providers.toml``.

The key goes into one header of one request to one host, and nowhere else: redirects are not followed, and whatever an error quotes is searched
for it first.
"""

from __future__ import annotations

import html
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import httpx

from kleene.config import Access
from kleene.planner.errors import ToolError
from kleene.tools.base import Row, Work
from kleene.tools.effects import shortened
from kleene.tools.hosts import HostRules, host_of, port_of
from kleene.tools.providers import Service, choose, load_providers
from kleene.tools.webclient import Clock, Reach, Reply, Request, send

DEFAULT_COUNT = 10
MOST = 20
SNIPPET = 1_000
REPLY_BYTES = 4 << 20
SECONDS = 30.0


def run(access: Access, work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    """Asks the service that the configuration or the environment has a key for."""
    service = choose(load_providers(), access.provider, access.api_key, os.environ)
    return run_with(service, Reach(HostRules()), work, arguments)


def run_with(service: Service | None, reach: Reach, work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
    """``reach``: limits and name resolution; of its rules none is used, for the only host that is reached is the service's own."""
    query, count = arguments
    if service is None:
        raise ToolError("no search service is configured", kind="unsupported", hint=HINT)
    return _search(service, reach, work, query, DEFAULT_COUNT if count is None else count)


HINT = (
    "set KLEENE_WEB_SEARCH_PROVIDER (brave, tavily, exa or linkup) and KLEENE_WEB_SEARCH_API_KEY, "
    "or [web_search] provider and api_key in the user's config.toml"
)


def describe(arguments: tuple[Any, ...]) -> str:
    """
    >>> describe(("trees in Paris", 5))
    "search the web for 'trees in Paris'"
    """
    return f"search the web for {shortened(str(arguments[0] if arguments else None))!r}"


def _search(service: Service, reach: Reach, work: Work, query: str, count: int) -> Iterable[Row]:
    provider = service.provider
    if not query.strip() or len(query) > provider.characters:
        what = (
            f"has {len(query):,} characters; {service.name} takes {provider.characters:,}"
            if query.strip()
            else "is empty"
        )
        raise ToolError(f"the query {what}", kind="invalid arguments")
    if not 1 <= count <= MOST:
        raise ToolError(f"n is {count}; it may be 1 to {MOST}", kind="invalid arguments")
    request = request_for(service, query, min(count, provider.most))
    rules = HostRules.of(_entries_for(request.url))
    limits = attrs.evolve(
        reach, rules=rules, body_bytes=REPLY_BYTES, unpacked_bytes=REPLY_BYTES, seconds=min(reach.seconds, SECONDS)
    )
    try:
        reply = send(request, limits, Clock(min(work.deadline, time.monotonic() + limits.seconds), work.cancelled))
    except ToolError as error:
        raise ToolError(f"{service.name}: {error.message}".replace(service.key, "***"), kind=error.kind) from None
    if reply.status != 200:
        raise _failed(service, reply)
    yield from rows_of(service, reply.body, count)


def request_for(service: Service, query: str, count: int) -> Request:
    provider = service.provider
    filled = _fill(provider.request, {"{query}": query, "{count}": count})
    headers = {provider.key_header: provider.key_format.format(key=service.key), "Accept": "application/json"}
    url = httpx.URL(provider.url)
    if provider.method == "GET":
        return Request("GET", url.copy_merge_params({k: str(v) for k, v in filled.items()}), headers)
    body = json.dumps(filled).encode()
    return Request("POST", url, {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}, body)


def rows_of(service: Service, body: bytes, count: int) -> Iterable[Row]:
    """The results of a reply, at most ``count``; those without an address are left out. Markup in titles and snippets is taken off."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ToolError(f"{service.name} did not answer with JSON", kind="other") from None
    for part in service.provider.results.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    rank = 0
    for result in found if isinstance(found, list) else ():
        url = _field(result, service.provider.link)
        if url and rank < count:
            rank += 1
            yield (
                rank,
                _plain(_field(result, service.provider.title)),
                url,
                _plain(_field(result, service.provider.snippet))[:SNIPPET],
            )


def _entries_for(url: httpx.URL) -> list[str]:
    """The provider's own host, and its address where it is one (a server of one's own, a test's)."""
    host = host_of(url)
    return [f"[{host}]:{port_of(url)}" if ":" in host else f"{host}:{port_of(url)}"]


def _fill(value: Any, holes: Mapping[str, object]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(item, holes) for key, item in value.items()}
    return holes.get(value, value) if isinstance(value, str) else value


def _field(result: Any, names: list[str]) -> str:
    for name in names:
        value = result.get(name) if isinstance(result, dict) else None
        if isinstance(value, list):
            value = " … ".join(item for item in value if isinstance(item, str))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"</?[a-zA-Z][^<>]*>", "", text)).split())


def _failed(service: Service, reply: Reply) -> ToolError:
    said = shortened(reply.body[:2_000].decode("utf-8", "replace"), 200).replace(service.key, "***")
    what = {401: "refuses the key", 403: "refuses the key", 402: "asks for money", 429: "gets too many requests"}.get(
        reply.status, f"answers with status {reply.status}"
    )
    hints = {
        401: f"check KLEENE_WEB_SEARCH_API_KEY or {service.provider.variable}",
        403: f"check KLEENE_WEB_SEARCH_API_KEY or {service.provider.variable}",
        429: "wait, then ask again",
    }
    kind = "access denied" if reply.status in (401, 402, 403) else "other"
    return ToolError(f"{service.name} {what}{f': {said}' if said else ''}", kind=kind, hint=hints.get(reply.status))
