"""The demo: the recorded run over a real book replays offline, the same each time, with all SQL run for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kleene.cli.doubles import invoke

ROOT = Path(__file__).parent.parent
TASK = ROOT / "tasks" / "war-and-peace"


def replay(folder: Path) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The final rows and every statement of the run, with its calls."""

    def kleene(*arguments: str) -> str:
        done = invoke("--store", str(folder / "run.duckdb"), *arguments, real=True)
        assert done.code == 0, done.err
        return done.out

    (folder / "empty").mkdir()  # as it was recorded: a session of an empty workspace is told of no file tools
    recording = str(TASK / "recording.jsonl")
    answer = kleene(
        "run",
        f"@{TASK / 'task.md'}",
        "--context",
        "tasks/war-and-peace/war-and-peace.txt",  # as it was recorded: the path is part of what the model is told
        "--replay",
        recording,
        "--replay-strict",
        "--workspace",
        str(folder / "empty"),
        "--format",
        "jsonl",
    )
    traced = kleene(
        "trace", "SELECT sql, rows, calls, error FROM trace_statements ORDER BY started_at", "--format", "jsonl"
    )
    return [json.loads(line) for line in answer.splitlines()], [json.loads(line) for line in traced.splitlines()]


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return [replay(tmp_path_factory.mktemp("replay")) for _ in range(2)]


def test_a_replay_gives_the_same_answer_sql_and_calls_twice(twice):
    assert twice[0] == twice[1]


def test_the_answer_names_what_the_book_tells(twice):
    answer, statements = twice[0]
    people = " ".join(str(next(iter(row.values()))) for row in answer)
    for name in ("Andrew", "Balash", "Lavr", "Alexander"):
        assert name in people
    assert sum(int(str(s["calls"])) for s in statements) > 0, "the run asked no model row by row"


def test_every_quotation_stands_in_the_book(twice):
    book = " ".join((TASK / "war-and-peace.txt").read_text().split())
    quoted = [str(list(row.values())[-1]) for row in twice[0][0]]
    found = [q for q in quoted if " ".join(q.strip('“”"').split()) in book]
    assert len(found) >= 6


def test_the_recording_says_where_it_comes_from_and_that_the_book_does_not_fit():
    about = json.loads((TASK / "recording.jsonl").read_text().splitlines()[0])["about"]
    assert about["replies"] == "by a large language model through an OpenAI-compatible endpoint"
    assert len((TASK / "war-and-peace.txt").read_text()) / 4.2 > about["window_tokens"]
