"""Generators of tasks: (dial, seed) to a text and its truth, the same bytes in every version of Python.

Each module has one function of its own name. ``dial`` from 0 to 1 makes the task longer and harder; the truth is computed from what was drawn,
never read back from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kleene.bench.generators.contracts import contracts
from kleene.bench.generators.corpus import corpus
from kleene.bench.generators.example import Example
from kleene.bench.generators.graph import graph
from kleene.bench.generators.logbook import logbook
from kleene.bench.generators.memo import memo
from kleene.bench.generators.puzzle import puzzle
from kleene.bench.generators.repo import repo
from kleene.bench.generators.sat3 import sat3
from kleene.bench.generators.statements import statements
from kleene.bench.prng import Rng

Generator = Callable[[float, Rng], Example]
GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "contracts": contracts,
        "corpus": corpus,
        "graph": graph,
        "logbook": logbook,
        "memo": memo,
        "puzzle": puzzle,
        "repo": repo,
        "sat3": sat3,
        "statements": statements,
    }
)


def generate(name: str, dial: float, seed: int) -> Example:
    """The task of a generator. The same arguments give the same bytes; another seed or dial gives a stream of its own."""
    dial = float(dial)
    return GENERATORS[name](dial, Rng.of(name, dial, seed))
