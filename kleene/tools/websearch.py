"""``CALL web_search(q [, n])``: one of several search services, each a table of ``providers.toml``.

The key goes into one header of one request to one host, and nowhere else: redirects are not followed, and whatever an error quotes is searched
for it first.
"""

from __future__ import annotations

import html
import json
import re
import time
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

import attrs
import cattrs
import httpx

from kleene.planner.errors import ConfigError, ToolError, did_you_mean
from kleene.planner.specs import Param, Volatility
from kleene.tools.base import Row, Tool, Work
from kleene.tools.effects import Effect, shortened
from kleene.tools.hosts import HostRules, host_of, port_of
from kleene.tools.webclient import Clock, Reach, Reply, Request, send

DEFAULT_COUNT = 10
MOST = 20
SNIPPET = 1_000
REPLY_BYTES = 4 << 20
SECONDS = 30.0
COLUMNS = (Param("rank", "INTEGER"), Param("title", "VARCHAR"), Param("url", "VARCHAR"), Param("snippet", "VARCHAR"))


@attrs.frozen
class Provider:
    """A row of ``providers.toml``, which says what the fields mean."""

    url: str
    method: str
    key_header: str
    key_format: str
    variable: str
    most: int
    characters: int
    request: dict[str, Any]
    results: str
    title: list[str]
    link: list[str]
    snippet: list[str]


@attrs.frozen
class Service:
    """A provider and the key to it. The key does not show in ``repr``."""

    name: str
    provider: Provider
    key: str = attrs.field(repr=False)


def load_providers() -> dict[str, Provider]:
    """Reads the file that comes with Kleene."""
    text = resources.files("kleene.tools").joinpath("providers.toml").read_text(encoding="utf-8")
    return cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text), dict[str, Provider])


def choose(
    providers: Mapping[str, Provider], name: str | None, key: str | None, environ: Mapping[str, str]
) -> Service | None:
    """The service to ask: by name with its key, or the first whose own variable (``BRAVE_API_KEY``, ...) is set; a key without a name is Brave's.

    None where there is no key. Raises ``ConfigError`` for a name that is unknown.
    """
    if name is not None and name not in providers:
        near = did_you_mean(name, providers)
        raise ConfigError(
            f"{name!r} is no search provider",
            hint=f"did you mean {near!r}?" if near else f"known are {', '.join(providers)}",
        )
    if name is None and key:
        name = next(iter(providers))
    for known in [name] if name is not None else providers:
        found = key or environ.get(providers[known].variable)
        if found:
            return Service(known, providers[known], found.strip())
    return None


def web_search(service: Service | None, reach: Reach | None = None) -> Effect:
    """The tool over a service; without one every use is refused. ``reach``: limits and name resolution; of its rules none is used, for the only
    host that is reached is the service's own."""

    def run(work: Work, arguments: tuple[Any, ...]) -> Iterable[Row]:
        query, count = arguments
        if service is None:
            raise ToolError("no search service is configured", kind="unsupported", hint=HINT)
        yield from _search(service, reach or Reach(HostRules()), work, query, DEFAULT_COUNT if count is None else count)

    params = (Param("q", "VARCHAR"), Param("n", "INTEGER"))
    description = "asks a web search service; 10 results unless n says otherwise"
    return Effect(Tool("web_search", params, 1, COLUMNS, run, Volatility.VOLATILE, description), describe)


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
