"""What calls of one template were seen to do, in this statement or in earlier ones."""

from __future__ import annotations

import attrs

ENOUGH = 24  # answers from which a pass rate stands in for a sample: a standard error of at most 0.1


@attrs.frozen
class Learned:
    """Of ``answers`` to one template the share ``rate`` was TRUE (None: they are no truths), and a reply had ``tokens`` on average (None: not
    reported)."""

    answers: int
    rate: float | None = None
    tokens: float | None = None

    def passing(self, truth: bool) -> float | None:
        """The share of arguments for which a call is TRUE, or its negation: (k + 1/2) / (n + 1), as none of a few is not never.

        >>> Learned(99, 1 / 3).passing(True), Learned(99, 1 / 3).passing(False), Learned(99).passing(True)
        (0.335, 0.665, None)
        """
        if self.rate is None:
            return None
        share = (self.answers * self.rate + 0.5) / (self.answers + 1)
        return share if truth else 1 - share


__all__ = ["ENOUGH", "Learned"]
