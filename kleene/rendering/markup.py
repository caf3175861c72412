"""HTML that cannot be broken by what is put into it: text is escaped unless this module made it.

>>> print(tag("p", "1 < 2", tag("b", "so"), class_="note"))
<p class="note">1 &lt; 2<b>so</b></p>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from kleene.rendering.table import visible

KEPT = re.compile(r"[^\n\t]+")  # between the line ends and tabs of a text, which stay
VOID = frozenset({"br", "meta"})


class Markup(str):
    """Text that is HTML already. Only ``tag``, ``join`` and constants of the program make it."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Text as HTML shows it; what would steer a reader (control characters, turned writing) is written out.

    >>> str(text("<script>\\x1b[0m"))
    '&lt;script&gt;\\\\x1b[0m'
    """
    return Markup(escape(KEPT.sub(lambda run: visible(run[0]), value), quote=True))


def join(parts: Iterable[str | None]) -> Markup:
    """Parts after each other, those that are no markup escaped; None is nothing."""
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts if part is not None))


def tag(element: str, /, *children: str | None, **attributes: str | float | bool | None) -> Markup:
    """An element. An attribute's trailing ``_`` falls away and ``_`` within it is ``-``; None and False leave it out, True has no value."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if value is True else f' {key}="{text(figure(value))}"')
    start = f"<{element}{''.join(written)}>"
    return Markup(start) if element in VOID else Markup(f"{start}{join(children)}</{element}>")


def figure(value: str | float) -> str:
    """A number as attributes have it: two places at most.

    >>> figure(12.0), figure(1 / 3), figure("x")
    ('12', '0.33', 'x')
    """
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
