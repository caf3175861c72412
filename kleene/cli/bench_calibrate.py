"""``bench calibrate``: ask the judge about answers whose worth is known."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kleene.cli.exits import misconfigured
from kleene.cli.relation import relation
from kleene.rendering.table import visible

if TYPE_CHECKING:
    from kleene.bench.calibration import Judgement
    from kleene.cli.invocation import Invocation

SOLVER = "root"


def calibrate(inv: Invocation) -> int:
    """The judge of --model judge=..., which is not the model that solves: a line an answer on stderr, the agreement on stdout."""
    from kleene.bench.calibration import calibration, judge_known, read_known
    from kleene.bench.judging import ALIAS, judge_of
    from kleene.bench.pack import read_pack
    from kleene.cli.bench_opening import opener

    args = inv.args
    with misconfigured():
        pack = read_pack(args.pack)
        known = read_known(pack, Path(args.known) if args.known else None)
    with tempfile.TemporaryDirectory(prefix="kleene-bench-") as folder:
        with opener(inv)(store=Path(folder) / "run.duckdb") as engine:
            with misconfigured():
                judge = judge_of(engine, SOLVER, needed=True)
            assert judge is not None
            name = engine.services.handler.route(ALIAS).model
            judged = judge_known(pack, known, judge, on_judged=lambda j: inv.terminal.say(visible(line_of(j))))
            usage = engine.usage
    found = calibration(pack.name, name, judged)
    inv.write(relation(type(found), [found], calls=usage.requests, dollars=usage.dollars))
    return 0


def line_of(judged: Judgement) -> str:
    word = "ok" if judged.agrees else "NO"
    known = judged.known
    worth = "good" if known.good else f"bad ({known.why})" if known.why else "bad"
    said = "" if judged.agrees else f": {judged.said}"
    return f"{word} {known.task} · {worth} · {'passed' if judged.passed else 'failed'}{said}"
