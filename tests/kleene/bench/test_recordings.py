"""The recordings that come with the packs are replayed, with no key, to what was recorded; what differs is named."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest

import kleene
from kleene.bench.attempt import Options
from kleene.bench.pack import read_pack
from kleene.bench.recordings import RESULTS, Recordings, new_recording, note
from kleene.bench.results import ResultsFile, Row, read_rows
from kleene.bench.runner import Choice, Done, run_pack
from kleene.models.recording import read_recording
from tests.kleene.bench.test_packs import PACKS
from tests.kleene.bench.test_running import ROW, bench
from tests.kleene.tools.work import needs_sandbox

FOLDERS = sorted(f.parent.relative_to(PACKS) for f in PACKS.glob(f"*/replay/*/{RESULTS}"))
LONG = "logbook-hard/replay/relational"  # 735 calls


def replayed(folder: Path, tmp: Path, choice: Choice) -> tuple[Done, list[Row]]:
    pack, mode = read_pack(PACKS / folder.parts[0]), folder.name

    def open_engine(**given: Any) -> Any:
        return kleene.connect(**given)

    results = ResultsFile(tmp / "r.csv", pack=pack.name, digest=pack.digest[:16], mode=mode, resume=False)
    options = Options(mode, open_engine, replay=Recordings(PACKS / folder))
    try:
        done = run_pack(pack, choice, options, results, jobs=2, on_row=lambda _: None)
    finally:
        results.close()
    return done, list(read_rows(tmp / "r.csv"))


def check(folder: Path, tmp: Path, choice: Choice, *, strict: bool) -> int:
    """Replay, compare every field, and say how many attempts there were. Not ``strict``: what sessions are told first may have been reworded."""
    done, rows = replayed(folder, tmp, choice)
    recorded = {(r.task, r.repeat): r for r in read_rows(PACKS / folder / RESULTS)}
    drifts = [d for d in done.drifts if strict or "the system text" not in d.said]
    assert drifts == [], "scripts/record_packs.py again records the requests of today"
    assert done.ran == len(rows) > 0
    for row in rows:
        then = recorded[row.task, row.repeat]
        assert attrs.evolve(row, seconds=then.seconds, digest=then.digest) == then
        assert row.solved and (row.did and row.answer)
    return len(rows)


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@needs_sandbox
@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize(
    "folder", [f for f in FOLDERS if str(f) != LONG], ids=lambda f: str(f).replace("/replay/", "-")
)
def test_the_first_recorded_task_is_replayed(folder: Path, tmp_path: Path) -> None:
    assert check(folder, tmp_path, Choice(limit=1), strict=False) == 1


@pytest.mark.slow  # all of them; the test above is this one for a task each
@needs_sandbox
@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: str(f).replace("/replay/", "-"))
def test_what_was_recorded_is_replayed(folder: Path, tmp_path: Path) -> None:
    assert check(folder, tmp_path, Choice(), strict=True) == len(list(read_rows(PACKS / folder / RESULTS)))


def test_every_pack_has_recordings_and_they_say_who_answered_and_when() -> None:
    missing = {p.parent.name for p in PACKS.glob("*/pack.toml")} - {f.parts[0] for f in FOLDERS}
    assert missing == set()
    files = list(PACKS.glob("*/replay/*/*.jsonl.gz"))
    assert sum(f.stat().st_size for f in files) < 500_000
    for file in files:
        about = read_recording(str(file)).header["about"]
        assert about["recorded"] >= "2026-11-30"
        assert about["replies"] in ("by rule", "by a large language model through an OpenAI-compatible endpoint")


def test_a_drift_names_the_first_request_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PACKS / "finance-synthetic" / "replay" / "plain", tmp_path / "said")
    file = tmp_path / "said" / "statement-02.1.jsonl"
    text = gzip.decompress((tmp_path / "said" / "statement-02.1.jsonl.gz").read_bytes()).decode()
    (tmp_path / "said" / "statement-02.1.jsonl.gz").unlink()
    file.write_text(text.replace("Elsewick Foods. What", "Elsewick Fish. What"))
    pack = str(PACKS / "finance-synthetic")
    run = ("run", pack, "--mode", "plain", "--replay", str(tmp_path / "said"))
    done = bench(tmp_path, *run, "--results", "r.csv", monkeypatch=monkeypatch)
    said = (
        f"turn plain/1 differs from the recording {file}: message 1 (user), line 1: "
        "recorded '...tement of Elsewick Fish. What was Intere...', now '...tement of Elsewick Foods. What was Inter...'"
    )
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        "2 attempts, 18 have no recording: python -m kleene bench report r.csv",
        f"drift: statement-02 is not as recorded: {said}",
    ]
    strict = bench(tmp_path, *run, "--replay-strict", "--results", "s.csv", monkeypatch=monkeypatch)
    assert strict.code == 1
    assert f"error: task statement-02: not one reply came from the model: {said}" in strict.err
    assert "hint: the prompt, the data or the model changed since: record again with --record FILE" in strict.err


def test_a_call_that_was_not_recorded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PACKS / "finance-synthetic" / "replay" / "relational"
    said = tmp_path / "said"
    said.mkdir()
    shutil.copy(folder / RESULTS, said)
    lines = gzip.decompress((folder / "statement-02.1.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)
    (said / "statement-02.1.jsonl").write_text("".join(lines[:-1]))
    run = ("run", str(PACKS / "finance-synthetic"), "--mode", "relational", "--replay", str(said), "--results", "r.csv")
    done = bench(tmp_path, *run, monkeypatch=monkeypatch)
    assert done.code == 1
    drift = done.err.splitlines()[-1]
    assert drift.startswith("drift: statement-02 is not as recorded: solved was True and is False (figure(")
    assert "has no reply for this call: \"Below is a table of a company's figures." in drift


def test_results_that_differ_are_named_by_their_first_field(tmp_path: Path) -> None:
    note(tmp_path, ROW)
    note(tmp_path, attrs.evolve(ROW, calls=3, seconds=9.0))  # recorded again: it counts
    recordings = Recordings(tmp_path)
    assert recordings.drift(attrs.evolve(ROW, calls=3, seconds=0.1, digest="other")) is None
    assert str(recordings.drift(ROW)) == "t is not as recorded: calls was 3 and is 2"
    assert str(recordings.drift(attrs.evolve(ROW, repeat=2, calls=3, answer="x"))) == "None"
    assert recordings.path("t", 1) is None
    (tmp_path / "t.1.jsonl.gz").write_bytes(gzip.compress(json.dumps({"kleene_recording": 1}).encode()))
    assert recordings.path("t", 1) == tmp_path / "t.1.jsonl.gz"
    assert new_recording(tmp_path, "t", 1) == tmp_path / "t.1.jsonl" and recordings.path("t", 1) is None


def test_a_pack_without_recordings_there_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "said").mkdir()
    done = bench(tmp_path, "run", str(PACKS / "terminal"), "--replay", "said", monkeypatch=monkeypatch)
    assert done.code == 2
    assert done.err.endswith("error: said has a recording of no task of terminal\nhint: --record FOLDER makes them\n")
