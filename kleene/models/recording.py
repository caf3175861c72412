"""The recording's format: one JSON-lines file, a header and then one line a request.

    {"kleene_recording": 1, "version": "0.1.0", "date": "2026-11-30", "about": {...}, "routes": {"worker": {...}}}
    {"key": "5f2c...", "nth": 0, "alias": "worker", "messages": [["user", "Is apple red?"]], "schema": {...}, "reply": {"text": "true", ...}}
    {"key": "root/2", "nth": 0, "base": "root/1", "messages": [["assistant", "..."], ["user", "..."]], "reply": {...}}

A statement's call is keyed by a digest of what can change its reply, a session's turn by its path. ``nth`` counts requests of one key (a call
that failed and was sent again, a VOLATILE function). A turn writes only the messages that the turn before (``base``) did not have. No key and
no URL with a password is ever in a request, so none is in a recording.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

import attrs

from kleene.planner.errors import ConfigError
from kleene.planner.specs import price_from
from kleene.udfs.protocols import Message, ProviderError, Reply, Request, Route, ToolResult, ToolSpec, ToolUse

FORMAT = 1


def fingerprint(request: Request, route: Route) -> str:
    """SHA-256 (hex) over who answers and everything of the request that can change the reply."""
    options = request.options
    who = [route.provider, route.endpoint, route.model]
    asked = [options.max_tokens, options.effort, options.temperature, options.seed]
    body: list[Any] = [*who, request.system, [[m.role, m.text] for m in request.messages], request.schema, asked]
    if request.wants != "text":
        body.append(request.wants)
    if request.tools:
        body += [attrs.astuple(t) for t in request.tools]
    body += [m.more for m in request.messages if m.more]
    return hashlib.sha256(json.dumps(body, ensure_ascii=True).encode()).hexdigest()


def key_of(request: Request, route: Route) -> str:
    """The key under which a request is found again."""
    return request.path if request.path is not None else fingerprint(request, route)


def previous(path: str) -> str | None:
    """The path of the turn before: ``root/2`` for ``root/3``; None for a first turn and for paths that end in no number.

    >>> previous("root/3"), previous("root/1"), previous("root")
    ('root/2', None, None)
    """
    session, _, turn = path.rpartition("/")
    return f"{session}/{int(turn) - 1}" if turn.isdigit() and int(turn) > 1 else None


def route_to_json(route: Route) -> dict[str, Any]:
    """A route without its alias and how quick it is; what is None or False is left out, and one text at a time for vectors."""
    fields = {k: v for k, v in attrs.asdict(route).items() if k not in ("alias", "instant") and v not in (None, False)}
    if route.embed_batch == 1:
        del fields["embed_batch"]
    if route.price is not None:
        fields["price"] = {k: v for k, v in attrs.asdict(route.price).items() if v not in (None, "")}
    return fields


def route_from_json(alias: str, value: dict[str, Any]) -> Route:
    fields = dict(value)
    if "price" in fields:
        fields["price"] = price_from(fields["price"])
    return Route(alias=alias, **fields)


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply without the fields that have their default."""
    defaults = {a.name: a.default for a in attrs.fields(Reply)}
    fields = {k: v for k, v in attrs.asdict(reply, recurse=False).items() if k == "text" or v != defaults[k]}
    return fields if not reply.uses else {**fields, "uses": [attrs.astuple(u) for u in reply.uses]}


def error_to_json(error: ProviderError) -> dict[str, Any]:
    """A failure. How long to wait is not kept: a replay does not wait."""
    fields = {"kind": error.kind, "message": error.message, "retryable": error.retryable, "sent": error.sent}
    return {**fields, "billed": error.billed, **({"hint": error.hint} if error.hint else {})}


def error_from_json(value: dict[str, Any]) -> ProviderError:
    fields = dict(value)
    return ProviderError(fields.pop("kind"), fields.pop("message"), **fields)


def request_to_json(request: Request, base: Request | None) -> dict[str, Any]:
    """The parts of a request that its key stands for. With ``base`` (the turn before) only the messages that follow its own."""
    shared = base is not None and request.messages[: len(base.messages)] == base.messages
    skip = len(base.messages) if shared and base is not None else 0
    made: dict[str, Any] = {"alias": request.alias}
    if shared and base is not None and base.path is not None:
        made["base"] = base.path
    if request.system and not (shared and base is not None and base.system == request.system):
        made["system"] = request.system
    if request.tools and not (shared and base is not None and base.tools == request.tools):
        made["tools"] = [attrs.astuple(t) for t in request.tools]
    made["messages"] = [_message_to_json(m) for m in request.messages[skip:]]
    if request.schema is not None:
        made["schema"] = request.schema
    if request.wants != "text":
        made["wants"] = request.wants
    made["options"] = {
        k: v for k, v in attrs.asdict(request.options).items() if v is not None and k not in ("timeout", "cache_prefix")
    }
    return made


def _message_to_json(message: Message) -> list[Any]:
    """Role and text, and where there are some the uses and results as a third item."""
    more: dict[str, Any] = {}
    if message.uses:
        more["uses"] = [attrs.astuple(u) for u in message.uses]
    if message.results:
        more["results"] = [attrs.astuple(r) for r in message.results]
    return [message.role, message.text, *([more] if more else [])]


def _message_from_json(value: list[Any]) -> Message:
    role, text, *rest = value
    more = rest[0] if rest else {}
    uses = tuple(ToolUse(*u) for u in more.get("uses", ()))
    return Message(role, text, uses, tuple(ToolResult(*r) for r in more.get("results", ())))


def _reply_from_json(value: dict[str, Any]) -> Reply:
    fields = dict(value)
    uses = tuple(ToolUse(*u) for u in fields.pop("uses", ()))
    return Reply(**fields, uses=uses)


def dump_line(value: dict[str, Any]) -> str:
    """One line of the file: no newline in it, no lone surrogate, the same bytes for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode("utf-8", "replace").decode() + "\n"


@attrs.frozen
class Entry:
    """One request of a recording: ``system`` and ``messages`` are whole again, ``reply`` is a ``Reply`` or the failure's fields."""

    key: str
    nth: int
    alias: str
    system: str | None
    messages: tuple[Message, ...]
    schema: str | None
    reply: Reply | dict[str, Any]
    tools: tuple[ToolSpec, ...] = ()


@attrs.frozen
class Recording:
    """A recording as it was read."""

    header: dict[str, Any]
    routes: dict[str, Route]
    entries: dict[str, list[Entry]]


def is_packed(path: str | Path) -> bool:
    """Whether a recording of this name is packed by gzip."""
    return str(path).endswith(".gz")


def open_recording(path: Path) -> IO[str]:
    """A new recording to be written line by line. Raises OSError."""
    if is_packed(path):
        return cast("IO[str]", gzip.open(path, "wt", encoding="utf-8", newline="\n"))
    return open(path, "w", encoding="utf-8", newline="\n")


def write_recording(path: Path, lines: Iterable[str], *, packed: bool) -> None:
    """Write a whole recording; the same lines give the same bytes. Raises OSError."""
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if packed else data)


def _text_of(path: str) -> str:
    """A recording's text, as much as there is of one that was cut off."""
    data = Path(path).read_bytes()
    if is_packed(path):
        packed, data = data, b""
        while packed:
            unpacker = zlib.decompressobj(wbits=31)
            data += unpacker.decompress(packed)
            packed = unpacker.unused_data
    return codecs.getincrementaldecoder("utf-8")().decode(data)


def read_recording(path: str) -> Recording:
    """Read a recording. A last line that was cut off (the recorder was killed) is dropped. Raises ``ConfigError``."""
    try:
        lines = _text_of(path).split("\n")
    except (OSError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the recording {path}: {error}", hint="make it with --record FILE") from None
    parsed = [
        _parsed(path, number, line, last=number == len(lines)) for number, line in enumerate(lines, 1) if line.strip()
    ]
    values = [value for value in parsed if value is not None]
    if not values or values[0].get("kleene_recording") != FORMAT:
        raise ConfigError(f"{path} is not a recording of this version of Kleene", hint="make it with --record FILE")
    header = values[0]
    routes = {alias: route_from_json(alias, r) for alias, r in header.get("routes", {}).items()}
    entries: dict[str, list[Entry]] = {}
    lines_of_calls = []
    for value in values[1:]:
        if "route" in value:
            routes[value["alias"]] = route_from_json(value["alias"], value["route"])
        else:
            lines_of_calls.append(value)
    for value in sorted(lines_of_calls, key=_order):
        base = entries[value["base"]][-1] if value.get("base") in entries else None
        entries.setdefault(value["key"], []).append(_entry(value, base))
    return Recording(header, routes, entries)


def sort_lines(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of calls in an order that does not depend on who finished first."""
    return sorted(values, key=_order)


def _order(value: dict[str, Any]) -> tuple[Any, ...]:
    session, _, turn = value["key"].rpartition("/")
    return (session, int(turn) if session and turn.isdigit() else 0, value["key"], value["nth"])


def _entry(value: dict[str, Any], base: Entry | None) -> Entry:
    messages = tuple(_message_from_json(m) for m in value["messages"])
    system = value.get("system")
    tools = tuple(ToolSpec(*t) for t in value.get("tools", ()))
    if base is not None:
        messages = base.messages + messages
        system = system or base.system
        tools = tools or base.tools
    reply = _reply_from_json(value["reply"]) if "reply" in value else value["error"]
    return Entry(value["key"], value["nth"], value["alias"], system, messages, value.get("schema"), reply, tools)


def _parsed(path: str, number: int, line: str, *, last: bool) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        if last:
            return None
        raise ConfigError(f"{path}, line {number}: not JSON", hint="the file was edited or cut; record again") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}, line {number}: not an object", hint="the file was edited; record again")
    if number > 1 and not _is_line(value):
        raise ConfigError(f"{path}, line {number}: not a recorded request", hint="the file was edited; record again")
    return value


def _is_line(value: dict[str, Any]) -> bool:
    """Whether a line has what is read from it: a model's, or a request's with its reply or failure."""
    if "route" in value:
        return isinstance(value.get("alias"), str) and isinstance(value["route"], dict)
    said = value.get("reply", value.get("error"))
    fields = (("key", str), ("nth", int), ("alias", str), ("messages", list))
    return isinstance(said, dict) and all(isinstance(value.get(name), kind) for name, kind in fields)
