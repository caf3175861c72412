"""A run's report as one page."""

from __future__ import annotations

from kleene.rendering.markup import Markup, tag
from kleene.rendering.report.costs import costs, tools
from kleene.rendering.report.figures import count, dollars, moment, noun, percent, seconds, tokens
from kleene.rendering.report.parts import badge, block, folded, tiles
from kleene.rendering.report.plans import plans
from kleene.rendering.report.style import page
from kleene.rendering.report.timeline import timeline
from kleene.rendering.report.transcript import calls, final, own, transcript
from kleene.reports.report import Report

TITLE = 160


def report_page(report: Report) -> str:
    """The whole file. Equal reports give equal text."""
    parts = {
        "Timeline": timeline(report),
        "Cost": costs(report.costs),
        "Plans": plans(report),
        "Tools": tools(report.tools),
        "Your statements": own(report),
        "Transcript": transcript(report),
        "Calls to look at": calls(report.calls),
    }
    shown = {name: part for name, part in parts.items() if part is not None}
    first = report.task.strip().split("\n", 1)[0]
    title = first[:TITLE] + ("…" if len(first) > TITLE else "") if first else f"Statements of {report.key}"
    return page(f"{title[:80]} · Kleene", *head(report, title), navigation(shown), *shown.values(), foot(report))


def head(report: Report, title: str) -> list[Markup | None]:
    total = report.costs.total
    root = next((s for s in report.sessions if s.key == report.key), None)
    figures = [
        ("time", seconds(report.seconds), f"{seconds(report.axis.active_s)} active" if report.axis.pauses else None),
        ("sessions", count(report.sessions_in_all), noun(report.turns, "turn") if report.sessions_in_all else None),
        ("statements", count(report.statements_in_all), None),
        ("answers", count(total.answers), noun(total.requests, "request")),
        ("memo share", percent(total.memo_share), f"{count(total.memo_hits)} answers" if total.memo_hits else None),
        ("tokens", tokens(total.tokens), None),
        ("dollars", dollars(total.dollars), None if total.dollars is not None or not total.answers else "no price"),
    ]
    troubles = [f"{count(total.unknown)} unknown"] if total.unknown else []
    troubles += [f"{count(total.failed)} failed"] if total.failed else []
    if troubles:
        figures.append(("not answered", count(total.unknown + total.failed), ", ".join(troubles)))
    whole = report.task.strip()
    return [
        tag("h1", title),
        tag(
            "p",
            badge(report.outcome, root.forced if root else False) if report.sessions else None,
            f" {moment(report.started_at)} · " if report.sessions else f"{moment(report.started_at)} · ",
            tag("span", report.key, class_="mono"),
            class_="dim",
        ),
        folded("the whole task", block(whole)) if whole not in ("", title) else None,
        tag("p", report.error, class_="error") if report.error else None,
        *(
            tag("p", f"out of {s.dimension}: {count(s.used)} of {count(s.allowed)} used", class_="error")
            for s in report.stops
        ),
        *(tag("p", note, class_="note") for note in report.notes),
        tiles(figures),
        final(root) if root is not None else None,
    ]


def navigation(parts: dict[str, Markup]) -> Markup:
    ids = {name: part.partition('id="')[2].partition('"')[0] for name, part in parts.items()}
    return tag("nav", *(tag("a", name, href=f"#{anchor}") for name, anchor in ids.items()))


def foot(report: Report) -> Markup | None:
    if not report.left_out:
        return None
    return tag(
        "p",
        "Left out: " + "; ".join(report.left_out) + ". python -m kleene trace has all of it.",
        class_="note",
    )
