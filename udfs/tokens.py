"""How many characters of a prompt make a token, learned per model from what its provider reported.

Only estimates are made of it: what a budget reserves is a bound in bytes, which no tokenizer exceeds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import attrs

CHARACTERS_PER_TOKEN = 4.0  # where nothing is known
FRAMING_CHARACTERS = 80  # what a request adds to its texts, in characters
PRIOR_TOKENS = 100.0  # so many tokens have to say otherwise before half of the first guess is gone
MEMORY_TOKENS = 200_000.0  # older requests count half as much after so many tokens
LEAST, MOST = 0.5, 16.0


@attrs.frozen
class TokenRatio:
    """What is known of one model: ``tokens`` were reported for ``characters``."""

    model: str
    characters: float
    tokens: float

    @property
    def characters_per_token(self) -> float:
        """The ratio, between 0.5 and 16: 4 at first, then what was seen.

        >>> TokenRatio("m", 0, 0).characters_per_token, TokenRatio("m", 30_000, 9_900).characters_per_token
        (4.0, 3.04)
        """
        seen = (CHARACTERS_PER_TOKEN * PRIOR_TOKENS + self.characters) / (PRIOR_TOKENS + self.tokens)
        return min(max(seen, LEAST), MOST)


class TokenRatios:
    """The ratios of all models. Its methods are quick and may be called from any thread."""

    def __init__(self, known: Iterable[TokenRatio] = ()) -> None:
        self._lock = threading.Lock()
        self._seen = {ratio.model: ratio for ratio in known}
        self._changed: set[str] = set()

    def of(self, model: str) -> float:
        """Characters a token of this model."""
        with self._lock:
            found = self._seen.get(model)
        return CHARACTERS_PER_TOKEN if found is None else found.characters_per_token

    def learn(self, model: str, characters: int, tokens: int) -> None:
        """Take in one request: what was sent and what the provider counted. A count of 0 says nothing."""
        if tokens <= 0:
            return
        with self._lock:
            old = self._seen.get(model) or TokenRatio(model, 0.0, 0.0)
            share = 0.5 if old.tokens > MEMORY_TOKENS else 1.0
            self._seen[model] = TokenRatio(
                model, old.characters * share + characters + FRAMING_CHARACTERS, old.tokens * share + tokens
            )
            self._changed.add(model)

    def recall(self, known: Iterable[TokenRatio]) -> None:
        """Take over what an earlier process learned, where this one has not learned yet."""
        with self._lock:
            for ratio in known:
                self._seen.setdefault(ratio.model, ratio)

    def changed(self) -> tuple[TokenRatio, ...]:
        """What was learned since the last call, to be kept."""
        with self._lock:
            names, self._changed = sorted(self._changed), set()
            return tuple(self._seen[name] for name in names)
