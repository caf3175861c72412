"""Functions that a model may call, told in words: for models and servers without tool calling."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from kleene.udfs.protocols import Message, Reply, Request, ToolUse

HOW = """\
You can call functions. To call some, end your reply with a JSON array in a fence, with one object for each call:
```json
[{"name": "FUNCTION", "arguments": {...}}]
```
All of them are made at once, and you are told what each gave. The functions, with the JSON schema of their arguments:"""
FENCE = "```"


def in_words(request: Request) -> Request:
    """The request without tools: they stand in its system text, and earlier calls and what they gave in its messages."""
    lines = [f"- {t.name}: {t.description}\n  {t.parameters}" for t in request.tools]
    told = "\n".join([HOW, *lines])
    system = f"{request.system}\n\n{told}" if request.system else told
    names: dict[str, str] = {}
    messages = []
    for message in request.messages:
        names |= {u.id: u.name for u in message.uses}
        messages.append(Message(message.role, "\n\n".join(_parts(message, names))))
    return attrs.evolve(request, system=system, messages=tuple(messages), tools=())


def _parts(message: Message, names: dict[str, str]) -> Iterator[str]:
    for result in message.results:
        yield f"{names.get(result.id, 'the call')} gave:\n{result.text}"
    if message.text or not (message.uses or message.results):
        yield message.text
    if message.uses:
        calls = [{"name": u.name, "arguments": _value(u.arguments)} for u in message.uses]
        yield f"{FENCE}json\n{json.dumps(calls, ensure_ascii=False)}\n{FENCE}"


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def read_uses(reply: Reply) -> Reply:
    """The reply with the calls that its text asks for, which are taken out of it. Text that asks for none stays as it is.

    >>> found = read_uses(Reply('Let me look.\\n```json\\n[{"name": "grep", "arguments": {"pattern": "x"}}]\\n```'))
    >>> found.text, found.uses
    ('Let me look.', (ToolUse(id='call_0', name='grep', arguments='{"pattern": "x"}'),))
    """
    decoder = json.JSONDecoder()
    text = reply.text
    for at, letter in enumerate(text):
        if letter not in "[{":
            continue
        try:
            value, _ = decoder.raw_decode(text, at)
        except ValueError:
            continue
        except RecursionError:  # brackets without end are no call
            return reply
        calls = value if isinstance(value, list) else [value]
        if calls and all(_is_call(c) for c in calls):
            before = text[:at].rstrip()
            before = before.removesuffix("json").rstrip().removesuffix(FENCE).rstrip()
            return attrs.evolve(reply, text=before, uses=tuple(_use(n, c) for n, c in enumerate(calls)))
    return reply


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and "arguments" in value


def _use(number: int, call: dict[str, Any]) -> ToolUse:
    arguments = call["arguments"]
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolUse(f"call_{number}", call["name"], text)
