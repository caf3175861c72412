"""What all parts of a page are made of: sections, tables, folded texts, bars in cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kleene.rendering.markup import Markup, join, tag

Cell = str | None


def section(title: str, anchor: str, *children: Markup | None, note: str | None = None) -> Markup:
    said = tag("p", note, class_="note") if note else None
    return tag("section", tag("h2", title), said, *children, id=anchor)


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, words: int = 1, class_: str | None = None) -> Markup:
    """A table whose first ``words`` columns are text and the others numbers; it scrolls by itself where it is too wide."""
    sides = ["l" if i < words else "r" for i in range(len(head))]
    heads = join(tag("th", name, class_=side, scope="col") for name, side in zip(head, sides, strict=True))
    body = join(
        tag("tr", *(tag("td", cell, class_=side) for cell, side in zip(row, sides, strict=True))) for row in rows
    )
    named = tag("thead", tag("tr", heads)) if any(head) else None
    return tag("div", tag("table", named, tag("tbody", body), class_=class_), class_="wide")


def folded(
    summary: str, *children: Markup | None, open_: bool = False, class_: str | None = None, anchor: str | None = None
) -> Markup:
    """Parts that a reader opens; print shows them all. A link to the anchor opens it in most browsers."""
    return tag("details", tag("summary", summary), *children, open_=open_, class_=class_, id=anchor)


def block(text: str) -> Markup:
    """A text as it is, in a box."""
    return tag("pre", text)


def meter(share: float | None, text: str) -> Markup:
    """A number over a bar of its share of the greatest."""
    width = max(0.0, min(1.0, share or 0.0)) * 100
    return tag(
        "span",
        tag("i", style=f"width:{width:.1f}%"),
        tag("b", text),
        class_="meter",
    )


def tiles(pairs: Iterable[tuple[str, str, str | None]]) -> Markup:
    """Figures in a row: name, figure and what is said below it."""
    return tag(
        "div",
        *(
            tag("div", tag("span", name), tag("strong", figure), tag("small", below) if below else None)
            for name, figure, below in pairs
        ),
        class_="tiles",
    )


def badge(outcome: str | None, forced: bool = False) -> Markup:
    word = outcome or "no end"
    class_ = {"final": "good", None: "off"}.get(outcome, "bad")
    return tag("span", word.replace("_", " ") + (", forced" if forced else ""), class_=f"badge {class_}")
