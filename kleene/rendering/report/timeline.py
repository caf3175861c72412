"""The timeline: for each session a row with its turns, statements, tools and calls on one axis. Drawn as SVG that stretches to the page."""

from __future__ import annotations

from collections.abc import Iterable

from kleene.rendering.markup import Markup, tag
from kleene.rendering.report.figures import count, dollars, noun, seconds
from kleene.rendering.report.parts import section
from kleene.reports.axis import Axis
from kleene.reports.report import Bar, Lane, Report

WIDTH = 1000
HEIGHT = 36
ROWS = {"turn": (2, 8), "statement": (12, 8), "tool": (12, 4), "failed": (12, 8)}  # y and height
CALLS = (34, 13)  # where the columns of calls stand, and how high they are at most
THIN = 1.5  # the narrowest bar
LEGEND = (
    ("turn", "a model writes its turn"),
    ("statement", "a statement"),
    ("tool", "a tool"),
    ("call", "calls under way"),
    ("memo", "answers of the memo"),
    ("failed", "failed"),
)


def timeline(report: Report) -> Markup:
    if not report.lanes:
        return section("Timeline", "timeline", note="nothing ran")
    most = max((max(lane.flight, default=0) for lane in report.lanes if not lane.merged), default=0)
    note = f"{seconds(report.seconds)} in all"
    if report.axis.pauses:
        note += f", {seconds(report.axis.active_s)} without {noun(len(report.axis.pauses), 'pause')}"
    if most:
        note += f"; at most {noun(most, 'call')} under way at once in a row"
    return section(
        "Timeline",
        "timeline",
        tag("div", *(tag("span", tag("i", class_=f"k-{kind}"), text) for kind, text in LEGEND), class_="legend"),
        scale(report.axis),
        *(row(lane, report.axis, most) for lane in report.lanes),
        note=note,
    )


def scale(axis: Axis) -> Markup:
    """Seconds since the start, and the pauses that were left out."""
    pauses = [tag("span", f"⋯ {seconds(s)}", class_="pause", style=f"left:{x * 100:.2f}%") for x, s in axis.pauses]
    ticks = [
        tag("span", seconds(s), style=f"left:{x * 100:.2f}%")
        for x, s in axis.ticks()
        if x < 0.97 and all(abs(x - p) > 0.07 for p, _ in axis.pauses)
    ]
    return tag("div", tag("div"), tag("div", *ticks, *pauses), tag("div"), class_="axis")


def row(lane: Lane, axis: Axis, most: int) -> Markup:
    task = lane.task.split("\n", 1)[0]
    name = tag(
        "div",
        tag("b", lane.name),
        f" {task}" if task else None,
        title=f"{lane.name}: {lane.task}" if task else lane.name,
        style=f"padding-left:{min(lane.depth, 12) * 12}px",
    )
    said = [noun(lane.answers, "call")] if lane.answers else []
    said += [dollars(lane.dollars)] if lane.dollars else []
    if lane.outcome not in (None, "final"):
        said.append(str(lane.outcome).replace("_", " "))
    return tag(
        "div",
        name,
        picture(lane, axis, max(lane.flight, default=0) if lane.merged else most),
        tag("div", " · ".join(said)),
        class_="lane",
    )


def picture(lane: Lane, axis: Axis, most: int) -> Markup:
    return tag(
        "svg",
        rect("span", lane.left, lane.right, 0, HEIGHT),
        *(rect("t-pause", x - 0.0015, x + 0.0015, 0, HEIGHT) for x, _ in axis.pauses),
        *(bar_of(bar) for bar in lane.bars),
        *columns(lane.flight, most, "t-call", "under way"),
        *columns(lane.remembered, 1, "t-memo", "from the memo", edge=True),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{lane.name}: {noun(lane.answers, 'call')}",
    )


def bar_of(bar: Bar) -> Markup:
    y, height = ROWS[bar.kind]
    drawn = rect(f"t-{bar.kind}", bar.left, bar.right, y, height, bar.title)
    return drawn if bar.anchor is None else tag("a", drawn, href=f"#{anchor_of(bar.anchor)}")


def columns(counts: Iterable[int], most: int, class_: str, what: str, *, edge: bool = False) -> Iterable[Markup]:
    """A column for each bin with something in it, those of one height that stand side by side as one. ``edge``: a line along the lower edge."""
    counts = list(counts)
    foot, height = CALLS
    start = 0
    while start < len(counts):
        end = start
        while end < len(counts) and counts[end] == counts[start]:
            end += 1
        if counts[start] and most:
            high = 2.0 if edge else max(1.0, height * counts[start] / most)
            top = HEIGHT - 2.0 if edge else foot - high
            title = f"{count(counts[start])} {what}"
            yield rect(class_, start / len(counts), end / len(counts), top, high, title)
        start = end


def rect(class_: str, left: float, right: float, y: float, height: float, title: str | None = None) -> Markup:
    """A rectangle; left and right are shares of the axis."""
    x, width = left * WIDTH, max(THIN, (right - left) * WIDTH)
    # A child <title> is what browsers show where the pointer is, without a script.
    named = None if title is None else tag("title", title)
    return tag("rect", named, class_=class_, x=min(x, WIDTH - width), y=y, width=width, height=height)


def anchor_of(statement: str) -> str:
    return f"s-{statement}"
