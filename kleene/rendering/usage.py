"""What calls have used, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kleene.planner.specs import Usage


def thousands(count: int) -> str:
    """
    >>> thousands(999), thousands(34_100), thousands(2_500_000)
    ('999', '34.1k', '2.5M')
    """
    if count < 1_000:
        return str(count)
    return f"{count / 1e3:.1f}k" if count < 1e6 else f"{count / 1e6:.1f}M"


def usage_line(usage: Usage) -> str:
    """One line about what was used; empty where no call was made or remembered.

    >>> from kleene.planner.specs import Usage
    >>> usage_line(Usage(requests=3, memo_hits=1, input_tokens=1200, output_tokens=34, dollars=0.0123, seconds=1.44))
    '3 requests · 1 from the memo · 1.2k tokens · $0.0123 · 1.4 s'
    """
    if not usage.requests and not usage.memo_hits:
        return ""
    parts = [f"{usage.requests:,} request{'' if usage.requests == 1 else 's'}"]
    if usage.memo_hits:
        parts.append(f"{usage.memo_hits:,} from the memo")
    if usage.unknown:
        parts.append(f"{usage.unknown:,} unknown")
    if usage.tokens:
        parts.append(f"{thousands(usage.tokens)} tokens")
    if usage.dollars:
        parts.append(f"${usage.dollars:.4f}")
    if usage.unpriced:
        parts.append(f"{usage.unpriced:,} unpriced")
    parts.append(f"{usage.seconds:.1f} s")
    return " · ".join(parts)
