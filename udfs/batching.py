"""Many prompts in one request (``BATCH n``, ``BATCH AUTO``, ``SET batch``; vectors always): how they are packed, asked and read back. No I/O.

Each prompt of a batch has a number, and its answer comes back under that number; what is missing, repeated, invented or invalid is no
answer, and is asked again by who called. An answer is kept as the reply that its prompt alone would have had, so that batched and single
calls serve each other from the memo. The text that all prompts begin with, and that all end with, stands first and once, where a provider's
prefix cache finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from kleene.planner.specs import Usage
from kleene.udfs.answers import Answered, dump_schema
from kleene.udfs.ducktypes import closed
from kleene.udfs.jsontext import Json, JsonProblem, Number, dump, parse
from kleene.udfs.protocols import Message, Reply, Request
from kleene.udfs.vectors import MOST_CHARACTERS, vector_texts, vectors_request
from kleene.udfs.work import Lane, Work

AUTO_ITEMS = 16
AUTO_CHARACTERS = 12_000
WINDOW_SHARE = 0.5  # of a model's context that a batch's prompts may fill
MAX_REPLY_TOKENS = 16_384
SHORTEST_SHARED = 24  # a common beginning shorter than this is repeated in each item
SENTENCE = re.compile(r"(?<=[.:;?!>)\]])[ ]|\n")  # the blank after the end of one, or a line's end
BLANK = re.compile(r"[ ]")
OPEN, CLOSE = "<item n=", "</item>"

HEAD = "Below are separate prompts, each with a number. Answer each one by itself, as if it were the only one."
SHARED = "Every prompt begins with this text, and goes on in its item:"
ENDING = "and ends with this text, which follows its item:"
ENDING_ALONE = "Every prompt begins in its item, and ends with this text, which follows the item:"
TAIL = 'Reply with JSON only: {"items": [{"n": 1, "answer": ...}, ...]}, one entry for each number, in the same order.'


@attrs.frozen
class ReadItem:
    """An answer of a batch: its place from 0, what it is, and the text that a reply to this prompt alone would have had."""

    index: int
    answer: Answered
    text: str


def packs(works: Sequence[Work]) -> Iterator[list[Work]]:
    """Works in packs of one lane, as large as its function, its setting and its model's context allow; order is kept."""
    pack: list[Work] = []
    characters = 0
    for work in works:
        size = len(work.prompt)
        if pack and (work.lane is not pack[0].lane or not _fits(work.lane, len(pack), characters + size)):
            yield pack
            pack, characters = [], 0
        pack.append(work)
        characters += size
    if pack:
        yield pack


def _fits(lane: Lane, items: int, characters: int) -> bool:
    batch = lane.batch
    if batch == 1:
        return False
    if lane.makes_vectors:
        return items < int(batch) and characters <= MOST_CHARACTERS
    limit = lane.route.context_window
    if limit is not None and characters / lane.characters_per_token > limit * WINDOW_SHARE:
        return False
    if batch == "auto":
        return items < AUTO_ITEMS and characters <= AUTO_CHARACTERS
    return items < int(batch)


def stands_among_others(lane: Lane, prompt: str) -> bool:
    """Whether a prompt may be asked with others. A blank text is no input to some embeddings models: they refuse all that is asked with it."""
    return bool(prompt.strip()) if lane.makes_vectors else may_be_batched(prompt)


def may_be_batched(prompt: str) -> bool:
    """Whether a prompt can be an item: it holds nothing that looks like the bounds of one."""
    return OPEN not in prompt and CLOSE not in prompt


def batch_request(lane: Lane, prompts: Sequence[str]) -> Request:
    """One request for several prompts.

    >>> print(batch_text(["Is it red? apple", "Is it red? sky"]).splitlines()[2])
    <item n="1">
    """
    if lane.makes_vectors:
        return vectors_request(lane, prompts)
    tokens = min(lane.spec.max_tokens * len(prompts), max(lane.spec.max_tokens, MAX_REPLY_TOKENS))
    return Request(
        lane.spec.alias,
        (Message("user", batch_text(prompts)),),
        lane.spec.system,
        batch_schema(lane),
        attrs.evolve(lane.options, max_tokens=tokens),
        lane.route.model,
    )


def batch_text(prompts: Sequence[str]) -> str:
    shared = shared_beginning(prompts)
    own = [prompt[len(shared) :] for prompt in prompts]
    ending = shared_ending(own)
    parts = [HEAD]
    if shared:
        parts.append(f"{SHARED}\n{shared}")
    if ending:
        parts.append(f"{ENDING if shared else ENDING_ALONE}\n{ending}")
    parts += [f'{OPEN}"{n}">\n{text[: len(text) - len(ending)]}\n{CLOSE}' for n, text in enumerate(own, 1)]
    parts.append(TAIL)
    return "\n\n".join(parts)


def shared_ending(prompts: Sequence[str]) -> str:
    """The text that all prompts end with, from where a sentence or a line ends; empty where it is short.

    >>> shared_ending(["a. Thank you. Is this a complaint? Answer kindly.", "b. Thank you. Is this a complaint? Answer kindly."])
    ' Thank you. Is this a complaint? Answer kindly.'
    """
    common = common_beginning([prompt[::-1] for prompt in prompts])[::-1]
    found = SENTENCE.search(common) or BLANK.search(common)
    return common[found.start() :] if found and len(common) - found.start() >= SHORTEST_SHARED else ""


def shared_beginning(prompts: Sequence[str]) -> str:
    """The text that all prompts begin with, up to where a sentence or a line ends; empty where it is short. What the items happen to begin
    with stays theirs.

    >>> shared_beginning(["Is this a complaint? Letter: Dear Ann", "Is this a complaint? Letter: Dear Bo"])
    'Is this a complaint? Letter: '
    """
    common = common_beginning(prompts)
    found = [m.end() for m in SENTENCE.finditer(common)] or [m.end() for m in BLANK.finditer(common)]
    return common[: found[-1]] if found and found[-1] >= SHORTEST_SHARED else ""


def common_beginning(prompts: Sequence[str]) -> str:
    """What all begin with, and after which each has something left."""
    first, last = min(prompts), max(prompts)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    common = first[:length]
    return common[:-1] if common in prompts else common


def batch_schema(lane: Lane) -> str:
    entry = closed({"n": {"type": "integer"}, "answer": _inner_schema(lane)})
    return dump_schema(closed({"items": {"type": "array", "items": entry}}))


def _inner_schema(lane: Lane) -> Any:
    schema = lane.reader.schema
    if schema is None:
        return {"type": "string"}
    whole = json.loads(schema)
    wrapper = _wrapper(lane)
    return whole if wrapper is None else whole["properties"][wrapper]


def _wrapper(lane: Lane) -> str | None:
    """The key in which a single reply carries its value: none for text and for JSON, which are the value."""
    kind = lane.spec.answer.kind
    return None if kind in ("text", "json") else "items" if kind == "list" else "answer"


def read_batch(lane: Lane, reply: Reply, count: int) -> list[ReadItem]:
    """The answers that can be told for certain, in the order of their numbers. A reply that was cut gives those before the cut."""
    if lane.makes_vectors:
        return list(_read_vectors(lane, reply, count))
    if reply.stop == "refusal":
        return []
    found: dict[int, list[Json]] = {}
    for number, value in _entries(reply):
        if 1 <= number <= count:
            found.setdefault(number, []).append(value)
    items = []
    for number in sorted(found):
        values = found[number]
        text = _text_of(lane, values[0]) if len(values) == 1 else None
        if text is None:
            continue
        answer = lane.reader.read(Reply(text))
        if isinstance(answer, Answered):
            items.append(ReadItem(number - 1, answer, text))
    return items


def _read_vectors(lane: Lane, reply: Reply, count: int) -> Iterator[ReadItem]:
    for index, text in enumerate(vector_texts(reply, count)):
        answer = None if text is None else lane.reader.read(Reply(text))
        if isinstance(answer, Answered):
            assert text is not None
            yield ReadItem(index, answer, text)


def _entries(reply: Reply) -> Iterator[tuple[int, Json]]:
    for entry in _listed(reply):
        if isinstance(entry, dict) and set(entry) == {"n", "answer"}:
            number = entry["n"]
            whole = number.integer() if isinstance(number, Number) else None
            if whole is not None:
                yield whole, entry["answer"]


def _listed(reply: Reply) -> list[Json]:
    text = reply.text
    if reply.stop == "length":
        text = text[: text.rfind("}") + 1] + "]}"
    try:
        value = parse(text)
    except JsonProblem:
        return []
    if isinstance(value, dict) and list(value) == ["items"]:
        value = value["items"]
    return value if isinstance(value, list) else []


def _text_of(lane: Lane, value: Json) -> str | None:
    if lane.spec.answer.kind == "text":
        return value if isinstance(value, str) else None
    wrapper = _wrapper(lane)
    return dump(value if wrapper is None else {wrapper: value})


def share_of(usage: Usage, index: int, count: int) -> Usage:
    """One item's share of a request's usage. All shares together are the whole, but for the requests, which are not shared."""

    def part(total: int) -> int:
        return total // count + (index < total % count)

    return Usage(
        input_tokens=part(usage.input_tokens),
        output_tokens=part(usage.output_tokens),
        dollars=usage.dollars / count,
    )
