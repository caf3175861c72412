"""Many finished calls as the trace keeps them: columns of its table, and lines of the event file, without a dict for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

import attrs
import pyarrow as pa

from kleene.store.eventfile import ENCODER
from kleene.udfs.events import CallsFinished
from kleene.udfs.memo import text_array
from kleene.udfs.text import clean, digest_of

ARROW = {
    "VARCHAR": pa.large_string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}
VARYING = {
    "at": "finished",
    "site": "sites",
    "started_at": "started",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "dollars": "dollars",
}


@attrs.frozen(eq=False)
class CallColumns:
    """A ``CallsFinished`` with its calls named and its prompts hashed. ``common`` is what all of its calls have, as a ``CallFinished`` has it."""

    event: CallsFinished
    calls: list[str]
    digests: list[str]
    prompts: list[str]
    replies: list[str]
    common: Mapping[str, Any]

    @classmethod
    def of(cls, event: CallsFinished, *, trace_text: bool = True) -> CallColumns:
        """``trace_text`` False: digests stand for prompts and replies."""
        digests = event.digests()
        prompts, replies = [clean(p) for p in event.prompts], [clean(r) for r in event.replies]
        if not trace_text:
            prompts = ["sha256:" + d for d in digests]
            replies = ["sha256:" + digest_of(r) for r in replies]
        first = attrs.asdict(next(event.one_by_one()))
        own = {"call", "digest", "prompt", "reply", *VARYING}
        common = {name: value for name, value in first.items() if name not in own and value is not None}
        return cls(event, event.calls(), digests, prompts, replies, common)

    def __len__(self) -> int:
        return len(self.calls)

    def table(self, columns: Mapping[str, str], types: Mapping[str, str]) -> pa.Table:
        """The rows as Arrow. ``columns``: event field → column of the table; ``types``: column → DuckDB type."""
        varying: dict[str, Any] = {name: getattr(self.event, column) for name, column in VARYING.items()}
        varying |= {"call": self.calls, "digest": self.digests, "prompt": self.prompts, "reply": self.replies}
        found = {}
        for field, column in columns.items():
            kind = ARROW[types[column]]
            values = varying.get(field)
            if values is None:
                found[column] = pa.repeat(pa.scalar(self.common.get(field), kind), len(self))
            elif types[column] == "TIMESTAMP":
                found[column] = pa.array([int(v * 1e6) for v in values], kind)
            else:
                found[column] = text_array(values) if types[column] == "VARCHAR" else pa.array(values, kind)
        return pa.table(found)

    def lines(self) -> Iterator[bytes]:
        """The event file's lines, as ``eventfile.line`` writes those of single calls but for the order of their keys."""
        event, text = self.event, encode_basestring
        head = ENCODER.encode({"event": "CallFinished", **self.common})[:-1]
        sites = {site: json.dumps(site, ensure_ascii=False) for site in set(event.sites)}
        columns = (
            event.finished,
            self.calls,
            event.sites,
            self.digests,
            event.started,
            event.input_tokens,
            event.output_tokens,
            event.dollars,
            self.prompts,
            self.replies,
        )
        return (
            f'{head},"at":{at!r},"call":{text(call)},"site":{sites[site]},"digest":"{digest}","started_at":{started!r},"input_tokens":{asked},'
            f'"output_tokens":{said},"dollars":{dollars!r},"prompt":{text(prompt)},"reply":{text(reply)}}}\n'.encode()
            for at, call, site, digest, started, asked, said, dollars, prompt, reply in zip(*columns, strict=True)
        )

    def forms(self) -> list[dict[str, Any]]:
        """The calls one by one, as ``Forms`` gives events."""
        varying = {name: getattr(self.event, column) for name, column in VARYING.items()}
        varying |= {"call": self.calls, "digest": self.digests, "prompt": self.prompts, "reply": self.replies}
        return [
            {"event": "CallFinished", **self.common, **dict(zip(varying, values, strict=True))}
            for values in zip(*varying.values(), strict=True)
        ]
