"""What an endpoint turned out to lack, learned from its refusals, so that the next request goes without it."""

from __future__ import annotations

import re

import attrs

from kleene.udfs.jsontext import JsonProblem, parse
from kleene.udfs.protocols import Reply, Request

STRUCTURED = ("schema", "tool", "text")
_TOOLS = re.compile(r"tool", re.I)
_SCHEMA = re.compile(
    r"response_format|json_schema|output_config|output_format|structured|text\.format|guided|grammar", re.I
)
_EFFORT = re.compile(r"reasoning|effort|thinking|output_config", re.I)
_MAX_TOKENS = re.compile(r"max_completion_tokens|max_tokens", re.I)
_TEMPERATURE = re.compile(r"temperature", re.I)
_ITEM = re.compile(r"type of 'item'", re.I)
_CACHE = re.compile(r"cache_control|ephemeral", re.I)
_SEED = re.compile(r"\bseed\b", re.I)


@attrs.define(eq=False)
class Degrade:
    """``structured`` is how a schema is asked for: natively, as one forced tool, or in words (the reader validates in any case). ``tools``: whether
    functions that the model may call are told natively; else in words."""

    structured: str = "schema"
    tools: bool = True
    effort: bool = True
    seed: bool = True
    temperature: bool = True
    cache: bool = True
    swap_max_tokens: bool = False
    typed_items: bool = False
    _ignored: int = attrs.field(default=0, init=False)

    def learn(self, refusal: str, request: Request) -> bool:
        """Take a 400's text in. True: something was given up, so that asking again can help. Gives each thing up once."""
        options = request.options
        schema = request.schema is not None
        if schema and self.structured == "schema" and _SCHEMA.search(refusal):
            self.structured = "tool"
        elif schema and self.structured == "tool" and _TOOLS.search(refusal):
            self.structured = "text"
        elif request.tools and self.tools and _TOOLS.search(refusal):
            self.tools = False
        elif options.effort is not None and self.effort and _EFFORT.search(refusal):
            self.effort = False
        elif options.temperature is not None and self.temperature and _TEMPERATURE.search(refusal):
            self.temperature = False
        elif options.seed is not None and self.seed and _SEED.search(refusal):
            self.seed = False
        elif options.cache_prefix and self.cache and _CACHE.search(refusal):
            self.cache = False
        elif (
            not self.swap_max_tokens
            and _MAX_TOKENS.search(refusal)
            and re.search(r"unsupported|not supported|use '", refusal, re.I)
        ):
            self.swap_max_tokens = True
        elif not self.typed_items and _ITEM.search(refusal) and any(m.role == "assistant" for m in request.messages):
            self.typed_items = True
        else:
            return False
        return True

    def saw(self, reply: Reply) -> None:
        """Take in a reply to a request with a schema. A server that decodes by the schema never begins or ends in something that is no JSON:
        one that does so twice in a row ignores how it was asked, and is asked in the next way."""
        if reply.stop not in ("end", "length") or not reply.text.strip() or self.structured == "text":
            return
        if _is_json(reply.text, cut=reply.stop == "length"):
            self._ignored = 0
        else:
            self._ignored += 1
        if self._ignored >= 2:
            self._ignored = 0
            self.structured = STRUCTURED[STRUCTURED.index(self.structured) + 1]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is done without, in words."""
        found = []
        if self.structured != "schema":
            found.append(
                "no JSON schema: "
                + ("one forced tool instead" if self.structured == "tool" else "asked for in words, validated")
            )
        if not self.tools:
            found.append("no tool calling: in words")
        if not self.effort:
            found.append("no reasoning effort")
        if not self.seed:
            found.append("no seed")
        if not self.temperature:
            found.append("no temperature")
        if not self.cache:
            found.append("no prompt cache")
        return tuple(found)


def _is_json(text: str, *, cut: bool) -> bool:
    if cut:
        return text.lstrip()[:1] in ("{", "[", '"')
    try:
        parse(text)
    except JsonProblem:
        return False
    return True
