"""The transcript: what each session was asked, wrote, ran and was told."""

from __future__ import annotations

from kleene.rendering.markup import Markup, tag
from kleene.rendering.report.figures import NOTHING, count, dollars, noun, seconds, tokens
from kleene.rendering.report.parts import badge, block, folded, section, table
from kleene.rendering.report.plans import figures_of, name_of
from kleene.rendering.report.timeline import anchor_of
from kleene.reports.report import Call, Report, Session, Statement, Turn


def transcript(report: Report) -> Markup | None:
    if not report.sessions:
        return None
    called = {s.key for s in report.statements}
    return section("Transcript", "transcript", *(session(s, called, open_=s.parent is None) for s in report.sessions))


def session(found: Session, called: set[str], *, open_: bool) -> Markup:
    first = found.task.split("\n", 1)[0]
    said = [noun(len(found.turns), "turn")]
    said += [noun(found.answers, "call")] if found.answers else []
    said += [f"{tokens(found.tokens)} tokens"] if found.tokens else []
    said += [dollars(found.dollars)] if found.dollars else []
    said += [seconds(found.seconds)] if found.seconds is not None else []
    return folded(
        f"{'· ' * found.depth}{found.role}: {first[:120]} ({', '.join(said)})",
        tag("p", badge(found.outcome, found.forced), " ", tag("span", found.key, class_="dim mono")),
        block(found.task),
        tag("p", found.error, class_="error") if found.error else None,
        *(turn(t, called) for t in found.turns),
        final(found),
        open_=open_,
    )


def turn(found: Turn, called: set[str]) -> Markup:
    inside = []
    if found.reply is None:
        inside.append(tag("p", "the turn did not end", class_="note"))
    else:
        inside.append(folded("reply", block(found.reply)))
    if found.sql:
        inside.append(block(found.sql))
    elif found.reply is not None:
        inside.append(tag("p", "no SQL", class_="note"))
    if found.statements:
        inside.append(statements(found.statements, called, short=found.sql is not None))
    if found.feedback is not None:
        inside.append(folded("what came back", block(found.feedback), open_=len(found.feedback) < 1_500))
    return tag("div", tag("h3", f"Turn {found.number}"), *inside, class_="turn")


def statements(found: tuple[Statement, ...], called: set[str], *, short: bool) -> Markup:
    """A line for each statement; ``short``: its text stands above."""
    rows = []
    for s in found:
        text = " ".join(s.sql.split())
        name = (
            tag("a", name_of(s), href=f"#{anchor_of(s.key)}")
            if s.key in called
            else tag("span", name_of(s), id=anchor_of(s.key))
        )
        error = tag("div", s.error, class_="error") if s.error else None
        what = tag("div", tag("code", text[:80] + "…" if short and len(text) > 80 else text), error)
        rows.append((name, what, ", ".join(figures_of(s))))
    return table(("", "", ""), rows, words=2, class_="statements")


def final(found: Session) -> Markup | None:
    """The rows of the answer."""
    if found.final is None:
        return None
    columns, rows, total = found.final
    shown = [[tag("span", "NULL", class_="null") if cell is None else str(cell) for cell in row] for row in rows]
    note = noun(total, "row") + (f": the first {len(rows)} are shown" if total > len(rows) else "")
    return tag(
        "div",
        tag("h3", "Answer"),
        table(columns, shown, words=len(columns), class_="rows"),
        tag("p", note, class_="note"),
    )


def own(report: Report) -> Markup | None:
    """A person's own statements."""
    if not report.own:
        return None
    called = {s.key for s in report.statements}
    return section("Your statements", "own", statements(report.own, called, short=False))


def calls(found: tuple[Call, ...]) -> Markup | None:
    """Calls that are worth a look."""
    if not found:
        return None
    parts = []
    for c in found:
        bad = c.error is not None or c.kind != "answer"
        said = [c.operator, f"{c.alias} · {c.model}", seconds(c.seconds), f"{count(c.tokens)} tokens"]
        said += [dollars(c.dollars)] if c.dollars else []
        said += [c.kind if c.kind != "answer" else "failed"] if bad else []
        parts.append(
            folded(
                " · ".join(said),
                tag("p", c.error, class_="error") if c.error else None,
                block(c.prompt),
                block(NOTHING if c.reply is None else c.reply),
                class_="bad" if bad else None,
            )
        )
    return section(
        "Calls to look at", "calls", *parts, note="failed or unknown ones first, then the slowest and the dearest"
    )
