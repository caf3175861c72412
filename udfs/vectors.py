"""Many texts' vectors in one request: how they are asked and read back. No I/O.

A request for vectors has one message a text. The reply to several has a line for each, in their order: a JSON array, or null where the provider
gave none, or more than one, so that no text is ever given another's vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kleene.udfs.protocols import Message, Reply, Request
from kleene.udfs.work import Lane

MOST_CHARACTERS = 200_000
"""Of all texts of a request. OpenAI takes at most 300,000 tokens (https://platform.openai.com/docs/api-reference/embeddings/create)."""


def vectors_request(lane: Lane, texts: Sequence[str]) -> Request:
    """One request for the vectors of several texts."""
    return Request(
        lane.spec.alias,
        tuple(Message("user", text) for text in texts),
        None,
        None,
        lane.options,
        lane.route.model,
        wants="embedding",
    )


def placed(entries: Iterable[Any], count: int) -> list[Any]:
    """What a provider listed for ``count`` texts, by each text's place, None where it cannot be told.

    An entry is ``{"index": i, "embedding": vector}``. Without any index the order is that of the texts, if the number is.

    >>> placed([{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}], 3)
    [[1], [2], None]
    >>> placed([{"embedding": [1]}, {"embedding": [2]}], 2), placed([{"embedding": [1]}], 2)
    ([[1], [2]], [None, None])
    """
    listed = [e for e in entries if isinstance(e, dict)]
    if not any("index" in e for e in listed):
        return [e.get("embedding") for e in listed] if len(listed) == count else [None] * count
    found: dict[int, list[Any]] = {}
    for entry in listed:
        index = entry.get("index")
        if type(index) is int and 0 <= index < count:
            found.setdefault(index, []).append(entry.get("embedding"))
    return [found[i][0] if len(found.get(i, ())) == 1 else None for i in range(count)]


def vector_texts(reply: Reply, count: int) -> list[str | None]:
    """The texts that the replies to each text alone would have had; None where there is no vector.

    >>> vector_texts(Reply("[1]\\nnull\\n[2]"), 3), vector_texts(Reply("[1]"), 2)
    (['[1]', None, '[2]'], [None, None])
    """
    lines = reply.text.split("\n")
    if len(lines) != count:
        return [None] * count
    return [None if line == "null" else line for line in lines]
