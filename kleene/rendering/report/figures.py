"""Numbers as people read them. None is a dash: it is not known."""

from __future__ import annotations

import math
import time

NOTHING = "–"


def count(value: float | None) -> str:
    """
    >>> count(1234), count(3.5), count(None)
    ('1,234', '3.5', '–')
    """
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:,.1f}"


def dollars(value: float | None) -> str:
    """
    >>> [dollars(v) for v in (0.0000871, 0.0001234, 0.0123, 1234.5, 0, None)]
    ['$0.000087', '$0.00012', '$0.0123', '$1,234.50', '$0', '–']
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "$0"
    if value >= 0.01:
        return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"
    return f"${value:.{min(12, 1 - math.floor(math.log10(value)))}f}" if value > 0 else f"-{dollars(-value)}"


def percent(value: float | None) -> str:
    """
    >>> percent(0.5), percent(0.0004), percent(None)
    ('50%', '<1%', '–')
    """
    if value is None:
        return NOTHING
    return "<1%" if 0 < value < 0.005 else f"{value:.0%}"


def seconds(value: float | None) -> str:
    """
    >>> [seconds(v) for v in (0, 0.0123, 3.21, 75, 120, 7300, 200_000, None)]
    ['0 s', '12 ms', '3.2 s', '1 min 15 s', '2 min', '2 h 1 min', '2 d 7 h', '–']
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 else f"{value * 1000:.1f} ms"
    if value < 60:
        return f"{value:.1f} s"
    whole = round(value)
    for unit, size, lower, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            big, rest = divmod(whole, size)
            return f"{big} {unit} {rest // part} {lower}" if rest // part else f"{big} {unit}"
    return f"{whole} s"


def moment(value: float) -> str:
    """
    >>> moment(1_000_000.5)
    '1970-01-12 13:46:40 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(value))


def noun(value: int, one: str, many: str | None = None) -> str:
    """
    >>> noun(1, "call"), noun(2000, "call"), noun(2, "reply", "replies")
    ('1 call', '2,000 calls', '2 replies')
    """
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def tokens(value: float | None) -> str:
    """
    >>> tokens(950), tokens(34_100), tokens(None)
    ('950', '34.1k', '–')
    """
    from kleene.rendering.usage import thousands

    return NOTHING if value is None else thousands(round(value))
