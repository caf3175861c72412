#!/usr/bin/env python3
"""Makes the recordings that come with the packs: ``tasks/packs/PACK/replay/MODE/``.

    record_packs.py rules                     the reference statements, answered by rule (tests/kleene/bench/reader.py)
    record_packs.py model PACK MODE N URL     the first N tasks, by the model behind an OpenAI-compatible endpoint; --judge URL: judged by another
    record_packs.py again [FOLDER...]         what is recorded, with its replies, as the requests are now: after a prompt or a pack has changed

Recordings are packed with gzip, their bytes decided by what is in them. ``again`` says which results are others than before.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import kleene  # noqa: E402
from kleene.bench.attempt import Options  # noqa: E402
from kleene.bench.pack import read_pack  # noqa: E402
from kleene.bench.recordings import RESULTS, Recordings  # noqa: E402
from kleene.bench.results import ResultsFile  # noqa: E402
from kleene.bench.runner import Choice, run_pack  # noqa: E402
from kleene.config import Config  # noqa: E402
from kleene.models import FunctionModel, OpenAI, build_handler  # noqa: E402
from kleene.models.recording import read_recording  # noqa: E402
from kleene.models.replay import Recorder, Replay  # noqa: E402
from kleene.planner.specs import Price  # noqa: E402

PACKS = ROOT / "tasks" / "packs"
RULES = {"finance-synthetic": 5, "legal-synthetic": 5, "oolong-like": 3, "logbook-hard": 1, "terminal": 6}
"""Tasks of each pack whose reference statement is recorded."""

WINDOW = 32_000
PRICE = Price(3.0, 15.0)
"""Dollars a million tokens, in and out: what a middling model cost in November 2026, so that there are dollars to compare."""

BY_MODEL = {
    "replies": "by a large language model through an OpenAI-compatible endpoint",
    "calls_of_statements": "by rule",
    "window_tokens": WINDOW,
    "price_usd_per_mtok": [3.0, 15.0],
}
Make = Callable[[Path], Any]


def run(name: str, mode: str, choice: Choice, make: Make, *, replay: Recordings | None = None) -> None:
    """Run tasks with the handler that ``make`` gives for a recording's path, and put what was recorded in place."""
    pack, kept = read_pack(PACKS / name), PACKS / name / "replay" / mode

    def open_engine(record: Path, replay: Path | None = None, **given: Any) -> Any:
        engine = kleene.connect(models=make(record), **given)
        engine.sql("SET timeout = 5000")
        return engine

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        made.mkdir()
        results = ResultsFile(Path(folder) / "r.csv", pack=name, digest=pack.digest[:16], mode=mode, resume=False)
        options = Options(mode, open_engine, record=made, replay=replay)
        done = run_pack(
            pack, choice, options, results, on_row=lambda row: print(row.task, row.solved, row.detail, row.calls)
        )
        results.close()
        for drift in done.drifts:
            print(f"{name}, {mode}: {drift}")
        for file in made.glob("*.jsonl"):
            (made / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
            file.unlink()
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(exist_ok=True)
        shutil.copytree(made, kept)


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def rules() -> None:
    from tests.kleene.bench.reader import answer

    for name, count in RULES.items():
        about = {"replies": "by rule", "recorded": today()}
        model = FunctionModel(answer, name="rules", price=PRICE)
        run(name, "relational", Choice(limit=count), recorder(model, about))


def recorder(model: Any, about: Mapping[str, Any]) -> Make:
    return lambda path: build_handler(model, Config(), record=path, about=about)


def by_model(name: str, mode: str, count: int, url: str, judge: str | None) -> None:
    about = {**BY_MODEL, "recorded": today()}
    if judge:
        about = {**about, "judged": "by another that saw the judge's requests alone"}

    def model(name: str, url: str) -> OpenAI:
        return OpenAI(name, base_url=url, api_key="none", context_window=WINDOW, price=PRICE)

    def make(path: Path) -> Any:
        solver = model("large-language-model", url)
        models = (
            {"root": solver, "worker": solver, "judge": model("judging-language-model", judge)} if judge else solver
        )
        return build_handler(models, Config(), record=path, about=about)

    run(name, mode, Choice(limit=count), make)


def again(folder: Path) -> None:
    """The same replies to the requests of today. An attempt's own recording is found by the name of the new one."""
    old = Recordings(folder)

    def make(path: Path) -> Any:
        task, _, repeat = path.name.removesuffix(".jsonl").rpartition(".")
        file = old.path(task, int(repeat))
        assert file is not None
        about = read_recording(str(file)).header.get("about", {})
        return Recorder(Replay(file), path, about)

    name = folder.parent.parent.name
    run(name, folder.name, Choice(repeats=max((r for _, r in old.rows), default=1)), make, replay=old)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("rules")
    one = actions.add_parser("model")
    one.add_argument("pack")
    one.add_argument("mode", choices=("frozen", "plain"))
    one.add_argument("count", type=int)
    one.add_argument("url")
    one.add_argument("--judge", metavar="URL")
    actions.add_parser("again").add_argument("folders", nargs="*", type=Path)
    args = parser.parse_args()
    if args.action == "rules":
        rules()
    elif args.action == "model":
        by_model(args.pack, args.mode, args.count, args.url, args.judge)
    else:
        for folder in args.folders or sorted(f.parent for f in PACKS.glob(f"*/replay/*/{RESULTS}")):
            again(folder.resolve())


if __name__ == "__main__":
    main()
