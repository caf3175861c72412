"""``bench calibrate``: ask the judge about answers whose worth is known."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from kleene.cli.exits import misconfigured
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
    from kleene.result import Result

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
    fields = attrs.fields(type(found))
    kinds = {"str": "VARCHAR", "int": "BIGINT"}
    columns = (*(f.name for f in fields), "calls", "dollars")
    types = (*(kinds.get(str(f.type), "DOUBLE") for f in fields), "BIGINT", "DOUBLE")
    inv.write(Result(columns, types, rows=[(*attrs.astuple(found), usage.requests, usage.dollars)]))
    return 0


def line_of(judged: Judgement) -> str:
    word = "ok" if judged.agrees else "NO"
    known = judged.known
    worth = "good" if known.good else f"bad ({known.why})" if known.why else "bad"
    said = "" if judged.agrees else f": {judged.said}"
    return f"{word} {known.task} · {worth} · {'passed' if judged.passed else 'failed'}{said}"
