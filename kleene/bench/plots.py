"""Results as pictures: SVG by matplotlib (extra ``kleene[plots]``), the same bytes for the same results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from kleene.bench.report import Line, summarise
from kleene.bench.results import Row
from kleene.bench.series import Step, curve
from kleene.planner.errors import ConfigError
from kleene.rendering.table import visible

INSTALL = "pip install 'kleene[plots]'"
SIZE = (7.0, 4.4)  # inches, without the legend
LINE = 0.19  # inches of a legend's line
WORDS = 50  # characters of a legend's line that leave room for another beside it
# Told apart without colours too (https://jfly.uni-koeln.de/color/, the palette of Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "kleene",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "text.parse_math": False,  # a model may be called a$b
}


@attrs.frozen
class Given:
    """What is drawn: the attempts, and as the steps of each pack, mode and model."""

    rows: Sequence[Row]
    steps: Mapping[tuple[str, ...], Sequence[Step]]

    @staticmethod
    def of(rows: Sequence[Row]) -> Given:
        steps: dict[tuple[str, ...], list[Step]] = {}
        for step in curve(rows):
            steps.setdefault((step.pack, step.mode, step.model), []).append(step)
        return Given(rows, steps)


def plot(rows: Iterable[Row], folder: Path, format_: str = "svg") -> list[Path]:
    """Draw every picture into the folder; their files. Raises ``ConfigError`` where matplotlib is not installed or a file cannot be written."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots are drawn by matplotlib, which is not installed", hint=INSTALL) from None
    given = Given.of(list(rows))
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in PLOTS.items():
            with matplotlib.rc_context(STYLE):
                figure = Figure(figsize=SIZE)
                FigureCanvasAgg(figure)
                axes = figure.add_subplot()
                why = draw(axes, given)
                if why:
                    axes.set_axis_off()
                    axes.text(0.5, 0.5, why, ha="center", va="center", wrap=True, transform=axes.transAxes)
                elif axes.get_legend_handles_labels()[1]:
                    _legend(figure, *axes.get_legend_handles_labels())
                file = folder / f"{name}.{format_}"
                metadata = {"Date": None} if format_ == "svg" else None
                figure.savefig(file, format=format_, dpi=110, metadata=metadata, bbox_inches="tight")
                files.append(file)
    except OSError as error:
        raise ConfigError(f"the plots cannot be written to {folder}: {error.strerror}") from None
    return files


def _legend(figure: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Below the axes, whose height it does not take."""
    columns = 2 if max(map(len, labels)) <= WORDS else 1
    figure.set_figheight(SIZE[1] + LINE * -(-len(labels) // columns))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _logarithmic(axes: Any, which: str, least: float | None = None) -> None:
    """A logarithmic x or y axis with its numbers in plain figures (by default they are formulas, which are not read); below the power of ten under ``least``
    it is linear, down to 0."""
    from matplotlib.ticker import FuncFormatter, LogFormatter

    axis, set_scale = (axes.xaxis, axes.set_xscale) if which == "x" else (axes.yaxis, axes.set_yscale)
    if least is None:
        set_scale("log")
        axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
    else:
        threshold = 10.0 ** math.floor(math.log10(least))
        set_scale("symlog", linthresh=threshold, linscale=0.8)
        axis.set_view_interval(-threshold / 4, 1.3 * axis.get_view_interval()[1], ignore=True)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _styles(keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """A colour for each mode and model, and a mark for each pack (of the first field, where there is nothing else), by their places in the order
    of names."""
    known = sorted(set(keys))
    colours = {name: n for n, name in enumerate(sorted({key[1:] or key for key in known}))}
    marks = {name: n for n, name in enumerate(sorted({key[0] for key in known}))}
    return {
        key: {
            "color": COLOURS[colours[key[1:] or key] % len(COLOURS)],
            "marker": MARKS[marks[key[0]] % len(MARKS)],
            "label": visible(" · ".join(filter(None, key))),
        }
        for key in known
    }


WIDE = 20.0
"""From such a factor between the most and the least dollars on, their axis is logarithmic."""


def _dollars(axes: Any, values: Sequence[float]) -> None:
    some = [value for value in values if value > 0]
    if some and max(some) / min(some) > WIDE:
        _logarithmic(axes, "x", None if len(some) == len(values) else min(some))
    else:
        axes.set_xlim(left=0)


def _pareto(axes: Any, given: Given) -> str:
    """Pass rate against dollars a task, with the front of those that nothing beats in both."""
    lines = [line for line in summarise(given.rows) if line.pass_rate is not None]
    if not lines:
        return "no attempt was decided"
    styles = _styles((line.pack, line.mode, line.model) for line in lines)
    for line in lines:
        assert line.pass_rate is not None and line.low is not None and line.high is not None
        x, y = line.dollars / line.attempts, line.pass_rate
        bounds = [[max(0.0, y - line.low)], [max(0.0, line.high - y)]]
        axes.errorbar(x, y, yerr=bounds, linestyle="", capsize=2, **styles[line.pack, line.mode, line.model])
    for pack in sorted({line.pack for line in lines}):
        front = front_of([line for line in lines if line.pack == pack])
        axes.plot([x for x, _ in front], [y for _, y in front], color="0.6", linewidth=0.8, zorder=0)
    axes.set(xlabel="dollars a task", ylabel="pass rate (Wilson, 95 %)", ylim=(-0.03, 1.03), title="Pass rate and cost")
    _dollars(axes, [line.dollars / line.attempts for line in lines])
    return ""


def front_of(lines: Iterable[Line]) -> list[tuple[float, float]]:
    """The (dollars a task, pass rate) that no other has for fewer dollars at the same or a better rate, cheapest first."""
    points = sorted(
        {(line.dollars / line.attempts, line.pass_rate or 0.0) for line in lines}, key=lambda p: (p[0], -p[1])
    )
    front: list[tuple[float, float]] = []
    for point in points:
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front


def _learning_curve(axes: Any, given: Given) -> str:
    groups = {k: [s for s in steps if s.rate is not None] for k, steps in given.steps.items()}
    groups = {k: steps for k, steps in groups.items() if steps}
    if not groups:
        return "no attempt was decided"
    styles = _styles(groups)
    for key, steps in groups.items():
        axes.plot([s.attempt for s in steps], [s.rate for s in steps], markersize=3, linewidth=1, **styles[key])
    axes.xaxis.get_major_locator().set_params(integer=True)
    title = "Pass rate of the last five attempts, in the order they were made"
    axes.set(xlabel="attempt", ylabel="pass rate", ylim=(-0.03, 1.03), title=title)
    return ""


def _cost_parity(axes: Any, given: Given) -> str:
    """What so many dollars have solved."""
    groups = {k: steps for k, steps in given.steps.items() if steps[-1].dollars_so_far > 0}
    if not groups:
        return "nothing cost a dollar: the models had no price"
    styles = _styles(groups)
    for key, steps in groups.items():
        x = [steps[0].dollars_so_far, *(s.dollars_so_far for s in steps)]
        y = [0, *(s.solved_so_far for s in steps)]
        axes.plot(x, y, markersize=3, linewidth=1, drawstyle="steps-post", **styles[key])
    axes.set(xlabel="dollars so far", ylabel="tasks solved so far", title="Tasks solved for so many dollars")
    _dollars(axes, [s.dollars_so_far for steps in groups.values() for s in steps])
    axes.set_ylim(bottom=0)
    return ""


def _calls_vs_difficulty(axes: Any, given: Given) -> str:
    rows = given.rows
    if not rows:
        return "there are no attempts"
    styles = _styles((r.mode, r.model) for r in rows)
    for (mode, model), style in styles.items():
        mine = [r for r in rows if (r.mode, r.model) == (mode, model)]
        axes.plot(
            [r.difficulty for r in mine],
            [max(1, r.calls) for r in mine],
            linestyle="",
            alpha=0.7,
            markersize=4,
            **style,
        )
    _logarithmic(axes, "y")
    axes.set(xlabel="difficulty", ylabel="calls (0 is drawn at 1)", title="Calls against difficulty")
    return ""


def _estimate_accuracy(axes: Any, given: Given) -> str:
    said = "calls, as EXPLAIN said"
    return _against(axes, given.rows, lambda r: r.est_calls, said, "Estimates (on the line: exact)")


def _plan_space(axes: Any, given: Given) -> str:
    said = "calls of the text as it stands, every rule off, as EXPLAIN said"
    return _against(axes, given.rows, lambda r: r.bare_calls, said, "What planning saves (below the line)")


def _against(axes: Any, rows: Sequence[Row], said: Callable[[Row], int | None], xlabel: str, title: str) -> str:
    """The calls made over those that were said, a mark a pack; 0 is drawn at 1."""
    known = [(r, max(1, count)) for r in rows if (count := said(r)) is not None]
    if not known:
        return "no attempt has an estimate: the mode relational asks EXPLAIN for one"
    for (pack,), style in _styles((r.pack,) for r, _ in known).items():
        mine = [(count, max(1, r.calls)) for r, count in known if r.pack == pack]
        axes.plot(*zip(*mine, strict=True), linestyle="", alpha=0.7, **style)
    top = max(max(count, r.calls) for r, count in known) * 1.3
    axes.plot([1, top], [1, top], color="0.5", linewidth=0.8, zorder=0)
    _logarithmic(axes, "x")
    _logarithmic(axes, "y")
    axes.set(xlabel=xlabel, ylabel="calls made", title=title)
    return ""


PLOTS: dict[str, Callable[[Any, Given], str]] = {
    "pareto": _pareto,
    "learning_curve": _learning_curve,
    "cost_parity": _cost_parity,
    "calls_vs_difficulty": _calls_vs_difficulty,
    "estimate_accuracy": _estimate_accuracy,
    "plan_space": _plan_space,
}
"""Each draws on axes, or says why there is nothing to draw."""
