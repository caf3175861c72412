"""Engines for tests: a model that answers by rule and counts, at its own side, what it was asked."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb

import kleene


class CountingModel:
    """``asked`` counts prompts (the first line: what follows is the engine's instruction). The default rule: an even checksum is true."""

    def __init__(self, rule: Callable[[str], Any] | None = None):
        self.asked: collections.Counter[str] = collections.Counter()
        self.requests: list[Any] = []
        self._rule = rule or even

    def __call__(self, request: Any) -> Any:
        prompt = request.messages[0].text.split("\n\n", 1)[0]
        self.asked[prompt] += 1
        self.requests.append(request)
        return self._rule(prompt)

    @property
    def calls(self) -> int:
        return sum(self.asked.values())

    def take(self) -> int:
        """The calls since the last take."""
        calls = self.calls
        self.asked.clear()
        self.requests.clear()
        return calls


def even(prompt: str) -> str:
    return "true" if sum(map(ord, prompt)) % 2 == 0 else "false"


@contextmanager
def engine(
    model: CountingModel | None = None, con: duckdb.DuckDBPyConnection | None = None, **options: Any
) -> Iterator[tuple[kleene.Engine, CountingModel]]:
    """An engine on an in-memory database (or ``con``) with a store in memory (or ``store=``)."""
    model = model or CountingModel()
    options.setdefault("store", ":memory:")
    options.setdefault("fresh", con is None)
    con = con if con is not None else duckdb.connect()
    k = kleene.attach(con, models=kleene.FunctionModel(model, "function"), **options)
    # What is said and done must not depend on how busy the machine is.
    k.state.settings = k.state.settings.set("materialise_ms", 600_000).set("measure_ms", 60_000)
    try:
        yield k, model
    finally:
        k.close()
