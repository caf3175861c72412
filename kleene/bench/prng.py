"""SplitMix64: random numbers that are the same in every version of Python, so that a task is the same text everywhere.

The generator of G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014): a counter that grows by the
odd constant 0x9E3779B97F4A7C15, mixed by two rounds of shift and multiply. Enough for choosing words; not for secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


class Rng:
    """A stream of numbers that the seed alone decides.

    >>> rng = Rng(1234567)
    >>> rng.next64(), rng.next64()
    (6457827717110365317, 3203168211198807973)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    @classmethod
    def of(cls, *parts: object) -> Rng:
        """A stream of its own for these texts and numbers: the first 8 bytes of the SHA-256 of their ``repr`` are the seed."""
        digest = hashlib.sha256("\0".join(map(repr, parts)).encode()).digest()
        return cls(int.from_bytes(digest[:8], "big"))

    def next64(self) -> int:
        """A number of 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound`` - 1, each as likely: what would favour the low ones is drawn again."""
        fair = (1 << 64) - (1 << 64) % bound
        while (found := self.next64()) >= fair:
            pass
        return found % bound

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        """True in this share of draws (53 bits of each)."""
        return (self.next64() >> 11) * 2.0**-53 < share

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` of the items, none twice, in the order drawn."""
        return self.shuffled(items)[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a new order (Fisher and Yates)."""
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            other = self.below(last + 1)
            found[last], found[other] = found[other], found[last]
        return found
