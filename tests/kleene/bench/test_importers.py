"""Other benches' files become packs: what they say is in the tasks, and what is wrong with them is named with file and row."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kleene
from kleene.bench.attempt import attempt, set_up
from kleene.bench.importers import FORMATS, import_pack
from kleene.bench.importers.lab import lab_results
from kleene.bench.importers.rows import records_of
from kleene.bench.importers.target import slug
from kleene.bench.oracles import Place, decide
from kleene.bench.oracles.answer import Answer
from kleene.bench.outputs import deliverables
from kleene.bench.pack import Pack, Ready, read_pack
from kleene.bench.results import read_rows
from kleene.bench.verify import Exact, Judge, Number, Oolong, Redline
from kleene.cli import bench_import
from kleene.planner.errors import ConfigError
from kleene.tools.sandbox import Sandbox
from tests.kleene.bench import layouts
from tests.kleene.bench.test_packs import PACKS
from tests.kleene.bench.test_running import bench, options
from tests.kleene.cli.doubles import invoke
from tests.kleene.tools.work import needs_sandbox


def imported(format_: str, path: Path, folder: Path, **more: Any) -> Pack:
    count = import_pack(format_, path, folder / "pack", **more)
    pack = read_pack(folder / "pack")
    assert len(pack.tasks) == count
    return pack


def readies(pack: Pack) -> list[Ready]:
    return [pack.ready(task) for task in pack.tasks]


def split(folder: Path) -> Path:
    """Questions and windows in files of their own."""
    rows = layouts.oolong_rows()
    names = ("context_window_id", "context_len", "dataset", "context_window_text")
    layouts.json_lines(folder / "contexts.jsonl", [{n: rows[0][n] for n in names}])
    layouts.json_lines(folder / "questions.jsonl", [{k: v for k, v in r.items() if k != names[3]} for r in rows])
    return folder


OOLONG: dict[str, Callable[[Path], Path]] = {
    "parquet": lambda folder: layouts.parquet(folder / "rows.parquet", layouts.oolong_rows()),
    "json": lambda folder: _json(folder / "rows.json", layouts.oolong_rows()),
    "lines": lambda folder: layouts.json_lines(folder / "rows.jsonl", layouts.oolong_rows()),
    "lines-named-json": lambda folder: layouts.json_lines(folder / "rows.json", layouts.oolong_rows()),
    "folder": lambda folder: layouts.parquet(folder / "rows.parquet", layouts.oolong_rows()).parent,
    "apart": split,
}


def _json(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text(json.dumps(rows))
    return file


@pytest.mark.parametrize("layout", OOLONG)
def test_oolong_is_the_same_in_every_layout(layout: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pack = imported("oolong", OOLONG[layout](tmp_path / "in"), tmp_path)
    found = readies(pack)
    assert [r.verify for r in found] == [
        Oolong("number", ("3",)), Oolong("number", ("1",)), Oolong("label", ("place",)), Oolong("label", ("date",)),
        Oolong("comparison", ("less common than",)), Oolong("id", ("12",)), Oolong("date", ("2024-03-01",)),
        Oolong("date", ("2024-04-05",)), Oolong("label", ("April 2024", "May 2024")),
    ]  # fmt: skip
    assert (found[0].id, found[0].kind) == ("q1", "oolong_counting")
    assert found[0].task == (
        "In the above data, how many data points should be classified as label 'place'?\nThe data are the lines of the context; "
        "their labels must be understood. Answer one row with the number alone."
    )
    assert {r.context for r in found} == {"\n\n".join(layouts.WINDOW.splitlines())}
    assert [f.name for f in (tmp_path / "pack" / "contexts").iterdir()] == ["made_up-1024-4.txt"]
    assert "never read" not in "".join(f.read_text() for f in (tmp_path / "pack").rglob("*.*"))


def labelled(request: Any) -> str:
    first = re.search(r"Instance: (\w+)", request.prompt)
    assert first, request.prompt
    return {"Where": "place", "Who": "person", "When": "date"}[first[1]]


def test_oolongs_questions_have_references_that_answer_them(tmp_path: Path) -> None:
    found = readies(imported("oolong", OOLONG["lines"](tmp_path), tmp_path))
    assert [r.id for r in found if r.sql is None] == ["q9"]
    with kleene.connect(models=kleene.FunctionModel(labelled), store=":memory:") as engine:
        lines = list(enumerate((found[0].context or "").split("\n\n"), 1))
        engine.con.execute("CREATE TABLE ctx (ordinal INTEGER, text VARCHAR)")
        engine.con.executemany("INSERT INTO ctx VALUES (?, ?)", lines)
        for ready in found[:8]:
            result = engine.sql(str(ready.sql))
            answer = Answer(tuple(result.columns), tuple(result.rows))
            assert decide(ready.verify, ready.task, answer, Place(tmp_path)).solved, (ready.task, answer)
            engine.sql("DROP FUNCTION IF EXISTS label_of")
        assert engine.usage.requests == 6, "an instance was asked about twice, or the preamble was"


def test_rows_are_taken_by_their_fields_and_groups_without_them_skipped(tmp_path: Path) -> None:
    rows = layouts.oolong_rows()
    file = layouts.parquet(tmp_path / "rows.parquet", rows)
    pack = imported("oolong", file, tmp_path, where={"task_group": "timeline", "context_len": "1024"}, limit=2)
    assert [task.id for task in pack.tasks] == ["q7", "q8"]
    # What is wrong in a row that is not wanted is nobody's concern; one that is wanted keeps its number.
    rows[0]["answer"] = rows[7]["answer"] = "nonsense"
    layouts.parquet(file, rows)
    with pytest.raises(ConfigError, match=r"rows\.parquet, row 8: answer is 'nonsense', not a list"):
        import_pack("oolong", file, tmp_path / "other", where={"task_group": "timeline"})


@needs_sandbox
def test_harvey_lab_has_documents_criteria_and_deliverables(tmp_path: Path) -> None:
    pack = imported("harvey-lab", layouts.lab(tmp_path / "lab"), tmp_path)
    one, two, scenario, fee = readies(pack)
    assert [r.id for r in (one, two, scenario, fee)] == ["desk.001", "desk.002", "leases.end.scenario-01", "leases.fee"]
    assert fee.verify == Judge(
        "PASS if every one of these criteria is met, else FAIL.\nC-001 (in memo.docx) Fee: PASS if the fee is 5. FAIL otherwise."
    )
    assert two.verify == Judge("PASS if every one of these criteria is met, else FAIL.\nC-1: PASS if short.")
    assert (fee.kind, scenario.kind) == ("lab_review", "lab_task")
    assert "(memo.docx, list.xlsx)" in scenario.task and "(as the instructions name them)" in two.task
    # What several tasks share lies there once, and each finds it in its workspace.
    assert one.setup == two.setup != fee.setup
    assert len(list((tmp_path / "pack" / "documents").iterdir())) == 3
    for ready in (one, scenario, fee):
        workspace = tmp_path / f"w-{ready.id}"
        workspace.mkdir()
        set_up(ready, workspace, Sandbox())
        assert [f.read_text() for f in workspace.rglob("*.txt")] == ["The fee is 5."]


def test_what_harvey_labs_evaluator_wrote_becomes_results(tmp_path: Path) -> None:
    layouts.lab_run(tmp_path / "r", "1", passed=1, clean=False)
    layouts.lab_run(tmp_path / "r", "2", passed=2)
    done = invoke(
        "bench", "import", "harvey-lab-results", str(tmp_path / "r"), "--out", str(tmp_path / "lab.csv"), real=True
    )
    assert (done.code, done.err) == (0, f"2 runs: python -m kleene bench report {tmp_path / 'lab.csv'}\n")
    one, two = read_rows(tmp_path / "lab.csv")
    assert (one.task, one.repeat, one.solved, one.score, one.outcome) == ("leases.fee", 1, False, 0.5, "unfinished")
    assert (one.detail, two.detail) == ("1/2; 1 errors of the judge", "2/2")
    assert (two.repeat, two.solved, two.calls, two.tokens, two.seconds) == (2, True, 3, 120, 1.5)


# The names that LAB's harness writes (hshadab/harvey-lab-drafting, runs/runE_r1, commit 3b0680a).
CONFIG = {"model", "task", "run_id", "max_turns", "temperature", "skills", "started_at"}
METRICS = {
    "turn_count", "input_tokens", "output_tokens", "wall_clock_seconds", "finished_cleanly", "documents_read", "documents_read_list",
    "documents_skipped", "documents_skipped_list", "total_documents", "bash_commands", "files_written", "files_edited", "glob_searches",
    "grep_searches", "completed_at",
}  # fmt: skip
TURNS = (
    """Reading.\n```sql\nSELECT length(text) FROM read('documents/more/it''s a lease.txt');\nSELECT path FROM files('documents/*')\n```""",
    """```sql\nFINAL FROM (VALUES ('memo.docx', '# Fee' || chr(10) || 'It is 5.'), ('notes/a.md', 'one ü'), ('notes/a.md', 'two'), ('../out.pdf', 'p'),
    (NULL, 'x'), ('none.txt', NULL)) AS t("File", "Text")\n```""",
)


names = st.text("a./\\ \n", max_size=5) | st.sampled_from(
    ["a.md", "a", "a/b", "A.MD", "é.pdf", "x" * 300, "/etc/passwd"]
)


@given(st.lists(st.tuples(st.none() | names, st.none() | st.text("ab", max_size=2)), max_size=5))
def test_every_text_of_an_answer_is_a_file_of_its_own_name(rows: list[tuple[str | None, str | None]]) -> None:
    made = dict(deliverables(Answer(("file", "text"), tuple(rows))))
    paths = [PurePosixPath(name) for name in made]
    assert all(not p.is_absolute() and p.parts and ".." not in p.parts for p in paths)
    assert not {str(parent) for p in paths for parent in p.parents} & set(made), "no file is another's folder"
    written = "".join(body.decode().replace("\n\n", "") for body in made.values())
    assert sorted(written) == sorted("".join(text for name, text in rows if name is not None and text is not None))


def test_no_answer_has_no_files() -> None:
    assert list(deliverables(None)) == list(deliverables(Answer(("a",), ((1,), (None,))))) == []


@needs_sandbox
def test_attempts_are_laid_out_for_harvey_labs_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docx")
    imported("harvey-lab", layouts.lab(tmp_path / "lab"), tmp_path)
    (tmp_path / "m.py").write_text(
        f"turns = {TURNS!r}\ndef solve(request):\n    return turns[len(request.messages) // 2]\n"
    )
    run = (
        "run",
        "pack",
        "--sample",
        "1",
        "--seed",
        "1",
        "--model-script",
        "m.py:solve",
        "--outputs",
        "out",
        "--results",
        "r.csv",
    )
    done = bench(tmp_path, *run, monkeypatch=monkeypatch)
    assert done.code == 0
    assert done.err.endswith("python -m kleene bench import harvey-lab-results out --out lab.csv\n")
    assert {(row.solved, row.detail) for row in read_rows(tmp_path / "r.csv")} == {(None, "LAB's evaluator decides")}
    (place,) = (tmp_path / "out" / "leases" / "end" / "scenario-01" / "kleene-frozen").iterdir()
    config, metrics = (json.loads((place / name).read_text()) for name in ("config.json", "metrics.json"))
    assert (set(config), config["task"], config["run_id"]) == (CONFIG, "leases/end/scenario-01", place.name)
    assert (set(metrics), metrics["turn_count"], metrics["finished_cleanly"]) == (METRICS, 2, True)
    assert (metrics["documents_read_list"], metrics["documents_skipped"]) == (["more/it's a lease.txt"], 0)
    lines = [json.loads(line) for line in (place / "transcript.jsonl").read_text().splitlines()]
    assert [(line["turn"], line["role"]) for line in lines] == [
        (n, who) for n in (1, 2) for who in ("assistant", "tool")
    ]
    wrote = {
        p.relative_to(place / "output").as_posix(): p.read_bytes() for p in place.glob("output/**/*") if p.is_file()
    }
    assert wrote.pop("memo.docx").startswith(b"PK")
    assert wrote == {"notes/a.md": "one ü\n\ntwo".encode(), "out.pdf.md": b"p"}
    # What LAB's evaluator then says of a run comes back as results.
    scores = {"all_pass": True, "n_criteria": 1, "n_passed": 1, "judge_error_count": 0, "summary": "1/1"}
    (place / "scores.json").write_text(json.dumps(scores))
    (row,) = lab_results(tmp_path / "out")
    assert (row.task, row.model, row.solved, row.calls) == ("leases.end.scenario-01", "m.solve", True, 2)
    refused = bench(
        tmp_path, "run", str(PACKS / "terminal"), "--outputs", "out", "--results", "s.csv", monkeypatch=monkeypatch
    )
    assert (refused.code, "error: terminal has no lab.jsonl, which says what LAB calls its tasks" in refused.err) == (
        2,
        True,
    )


def test_redlines_keep_the_clause_and_its_redraft(tmp_path: Path) -> None:
    rows = [layouts.redline_row(), layouts.redline_row(metadata=None, output="Redlined Clause:\nNew.")]
    first, second = readies(imported("redlining", layouts.parquet(tmp_path / "r.parquet", rows), tmp_path))
    assert first.verify == Redline("The vendor's fee is due {at once}.", "The vendor's fee is due within thirty days.")
    assert (first.id, first.kind, second.kind) == ("redline-00001", "redline_liability", "redline_clause")
    assert second.verify == Redline("The vendor's fee is due {at once}.", "New.")
    made = attempt(first, 1, tmp_path, options(kleene.FunctionModel(lambda r: "It is due within thirty days.")))
    assert (made.verdict.solved, made.usage.requests) == (True, 1), made.verdict.detail


def test_financebench_has_numbers_and_what_a_judge_must_read(tmp_path: Path) -> None:
    rows = [
        layouts.finance_row(),
        layouts.finance_row(financebench_id="made 2", answer="Yes, by half.", justification="8 is half of 16."),
        layouts.finance_row(financebench_id="made_3", answer="(35.1%)."),
    ]
    del rows[1]["evidence"][0]["doc_name"]
    rows[1]["evidence"][0]["evidence_doc_name"] = "OTHER"  # as upstream's README calls it
    first, second, third = readies(imported("financebench", layouts.json_lines(tmp_path / "f.jsonl", rows), tmp_path))
    assert first.context == "MILL_2020_10K, page 1\n\nSales were 8.70.\n\nMILL_2020_10K, page 4\n\npart"
    assert (first.verify, third.verify) == (Number(8.7, 0.087), Number(-35.1, 0.351))
    assert isinstance(second.verify, Judge) and second.verify.reference == "Yes, by half.\nBecause: 8 is half of 16."
    assert (second.id, second.kind) == ("made-2", "financebench_metrics-generated")
    assert "in percent" in third.task and "in percent" not in first.task
    made = attempt(
        first, 1, tmp_path, options(kleene.FunctionModel(lambda r: str("Sales were 8.70.\nMILL" in r.prompt and 8.7)))
    )
    assert (made.verdict.solved, made.usage.requests) == (True, 1), made.verdict.detail


def test_finqa_asks_for_the_unit_of_the_programs_result(tmp_path: Path) -> None:
    qa = layouts.finqa_row()["qa"]
    rows = [
        layouts.finqa_row(id=f"p-{n}", qa=qa | more)
        for n, more in enumerate([{}, {"exe_ans": 25.1}, {"answer": ""}, {"exe_ans": "no"}, {"exe_ans": 1000}])
    ]
    found = readies(imported("finqa", _json(tmp_path / "dev.json", rows), tmp_path))
    assert [r.verify for r in found] == [
        Number(0.25, 0.00025), Number(25.1, 0.0251), Number(0.25, 0.00025), Exact((("no",),)), Number(1000.0, 1.0)
    ]  # fmt: skip
    asked = [r.task.splitlines()[1].partition(". The context")[0] for r in found]
    assert asked[0] == "Answer one number, as a share of 1 (0.25 for 25 %)"
    assert asked[1:4] == ["Answer one number, in percent", "Answer one number", "Answer yes or no"]
    table = "|  | 2019 | 2020 |\n| --- | --- | --- |\n| sales / net | 80 | 100 |"
    assert {r.context for r in found} == {f"sales rose.\n\n{table}\n\nthe mill's fiscal year ends in june."}


CUAD: dict[str, Callable[[Path], Path]] = {
    "labels": layouts.cuad_labels,
    "table": layouts.cuad_table,
    "squad": lambda folder: layouts.cuad_squad(folder / "CUAD_v1.json"),
}


@pytest.mark.parametrize("layout", CUAD)
def test_cuad_is_the_same_in_every_layout(layout: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pack = imported("cuad", CUAD[layout](tmp_path / "in"), tmp_path)
    found = readies(pack)
    assert [(r.id, r.verify) for r in found] == [
        ("mill.Governing-Law", Exact((("yes",),))), ("mill.At-Will", Exact((("yes",),))), ("mill.Rofr-Rofo", Exact((("no",),)))
    ]  # fmt: skip
    assert {r.context for r in found} == {layouts.CONTRACT}
    assert ("Whose {law} governs?" in found[0].task) == (layout != "table")


def test_cuads_reference_asks_until_a_passage_shows_the_clause(tmp_path: Path) -> None:
    pack = imported("cuad", layouts.cuad_labels(tmp_path), tmp_path, where={"category": "Governing Law"})
    model = kleene.FunctionModel(lambda r: str("Passage: 1. The law" in r.prompt).lower())
    made = attempt(pack.ready(pack.tasks[0]), 1, tmp_path, options(model))
    assert (made.verdict.solved, made.usage.requests) == (True, 1), made.verdict.detail


# What is wrong: a format, how its rows differ from good ones, and what is said.

BASES: dict[str, Callable[[], dict[str, Any]]] = {
    "oolong": lambda: layouts.oolong_rows()[0],
    "redlining": layouts.redline_row,
    "financebench": layouts.finance_row,
    "finqa": layouts.finqa_row,
}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("oolong", {"id": "x"}, "id is a text, not a whole number"),
    ("oolong", {"answer": "[]"}, "answer is '[]', not a list of texts, numbers or dates"),
    ("oolong", {"answer": "__import__('os')"}, "answer is \"__import__('os')\", not a list of texts, numbers or dates"),
    ("oolong", {"answer": "['abc']"}, "answer has 'abc', which is no number"),
    ("oolong", {"answer": "[datetime.date(2023, 2, 29)]", "answer_type": "ANSWER_TYPE.DATE"}, "answer has '2023-02-29', which is no date"),
    ("oolong", {"question": " "}, "question is empty, a text is needed"),
    ("oolong", {"context_window_text": "other"}, "the text named made_up-1024-4 is another one than before"),
    ("redlining", {"output": "New clause."}, "output has no text behind 'Redlined Clause:'"),
    ("redlining", {"input": 3}, "input is a number, not a text"),
    ("redlining", {"metadata": []}, "metadata is a list, not an object"),
    ("financebench", {"answer": None}, "answer is empty, a text is needed"),
    ("financebench", {"evidence": []}, "evidence is empty, at least one page is needed"),
    ("financebench", {"evidence": ["x"]}, "evidence[1] is a text, not an object"),
    ("financebench", {"evidence": [{"doc_name": "d"}]}, "evidence[1]: evidence_page_num is missing, not a whole number"),
    ("finqa", {"qa": None}, "qa is missing, not an object"),
    ("finqa", {"qa": {"question": "?", "exe_ans": float("nan")}}, "qa: exe_ans is out of range, not a number"),
    ("finqa", {"qa": {"question": "?", "exe_ans": True}}, "qa: exe_ans is true or false, not a number"),
    ("finqa", {"table": [[1]]}, "table is no list of rows of texts"),
    ("finqa", {"pre_text": "x"}, "pre_text is no list of texts"),
]  # fmt: skip


@pytest.mark.parametrize(("format_", "more", "message"), WRONG)
def test_a_row_that_is_wrong_is_named(format_: str, more: dict[str, Any], message: str, tmp_path: Path) -> None:
    base = BASES[format_]
    file = layouts.json_lines(
        tmp_path / "rows.jsonl", [base(), base() | ({"id": 2} if format_ == "oolong" else {}) | more]
    )
    with pytest.raises(ConfigError) as caught:
        import_pack(format_, file, tmp_path / "pack")
    place, _, said = caught.value.message.partition(", row 2")
    assert (place, said.lstrip(":, ")) == (str(file), message)
    assert os.listdir(tmp_path) == ["rows.jsonl"], "something was left"


def damaged(folder: Path, name: str, old: str, new: str) -> Path:
    file = folder / name
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")
    return folder


@pytest.mark.parametrize(
    ("make", "format_", "message"),
    [
        (lambda f: damaged(layouts.cuad_labels(f), "labels.jsonl", '"start": 7', '"start": 8'), "cuad", "labels.jsonl, row 1, spans[1]: its text does not stand at 8 of the contract"),
        (lambda f: damaged(layouts.cuad_labels(f), "labels.jsonl", '"present": true', '"present": false'), "cuad", "labels.jsonl, row 1: present is false and there are 1 spans"),
        (lambda f: damaged(layouts.cuad_labels(f), "labels.jsonl", "mill", "gone"), "cuad", "labels.jsonl, row 1: there is no text gone.txt"),
        (lambda f: damaged(layouts.cuad_labels(f), "labels.jsonl", '{"contract_id"', '{"contract_id'), "cuad", "labels.jsonl, row 1: it is not JSON"),
        (lambda f: damaged(layouts.cuad_table(f), "master_clauses.csv", "['law of Norway']", "law of Norway"), "cuad", "master_clauses.csv, row 1: Governing Law is no list of clauses"),
        (lambda f: damaged(layouts.cuad_table(f), "master_clauses.csv", ",[],No", ",[]"), "cuad", "master_clauses.csv, row 1: it has not as many cells as the header"),
        (lambda f: damaged(layouts.lab(f), "tasks/leases/fee/task.json", '"id"', '"name"'), "harvey-lab", "tasks/leases/fee/task.json, criteria[1]: id is missing, a text is needed"),
        (lambda f: damaged(layouts.lab(f), "tasks/leases/fee/task.json", '["memo.docx"]', '["note.docx"]'), "harvey-lab", "criteria[1]: deliverables name note.docx, which the task has not"),
        (lambda f: damaged(layouts.lab(f), "tasks/desk/001/task.json", "../../files", "../files"), "harvey-lab", "tasks/desk/001/task.json: docs_dir names ../files, which is no folder"),
        (lambda f: damaged(layouts.lab(f), "tasks/desk/001/task.json", "{", "["), "harvey-lab", "tasks/desk/001/task.json is not JSON"),
        (lambda f: f, "harvey-lab", "has no task.json in any folder"),
        (lambda f: f, "oolong", "has no file that ends in .json, .jsonl, .parquet, .csv"),
        (lambda f: f, "cuad", "has none of labels.jsonl and master_clauses.csv"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_named(
    make: Callable[[Path], Path], format_: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ConfigError, match=re.escape(message)):
        import_pack(format_, make(tmp_path / "in"), tmp_path / "pack")
    assert os.listdir(tmp_path) == ["in"], "something was left"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.parquet", b"PAR1 no", "is no Parquet file that can be read"),
        ("x.jsonl", b"[1]\n", "row 1: it is a list, not an object"),
        ("x.json", b"{", "is not JSON"),
        ("x.jsonl", b'{"a": "\xff"}', "is no text in UTF-8"),
        ("x.jsonl", b"\n\n", "has no task"),
    ],
)
def test_a_file_of_another_kind(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        import_pack("finqa", tmp_path / name, tmp_path / "pack")


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    file = layouts.json_lines(tmp_path / "rows.jsonl", [layouts.finqa_row()])
    imported("finqa", file, tmp_path)
    with pytest.raises(ConfigError, match="pack is there already"):
        import_pack("finqa", file, tmp_path / "pack")
    with pytest.raises(ConfigError, match=r"there is no .*gone"):
        import_pack("finqa", tmp_path / "gone", tmp_path / "other")
    with pytest.raises(ConfigError, match="row 1: there is no field colour"):
        import_pack("finqa", file, tmp_path / "other", where={"colour": "red"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (("scores.json", '"n_passed": 1', '"n_passed": 2'), "all_pass is False, n_passed 2, n_criteria 2: they do not agree"),
        (("metrics.json", "1.5", '"soon"'), "wall_clock_seconds is a text, not a number"),
        (("config.json", '"model"', '"name"'), "model is missing, a text is needed"),
    ],
)  # fmt: skip
def test_results_of_a_run_must_agree(damage: tuple[str, str, str], message: str, tmp_path: Path) -> None:
    damaged(layouts.lab_run(tmp_path, "1", passed=1), *damage)
    with pytest.raises(ConfigError, match=message):
        list(lab_results(tmp_path))


def test_the_command_imports_and_says_what_to_do_next(tmp_path: Path) -> None:
    file, out = layouts.json_lines(tmp_path / "rows.jsonl", layouts.oolong_rows()), tmp_path / "pack"
    argv = ("bench", "import", "oolong", str(file), "--out", str(out), "--where", "task_group=counting", "--limit", "3")
    done = invoke(*argv, real=True)
    assert (done.code, done.out, done.err) == (0, "", f"3 tasks: python -m kleene bench run {out}\n")
    assert len(read_pack(out).tasks) == 3
    wrong = invoke(*argv[:-4], "--where", "x", real=True)
    assert (wrong.code, wrong.err) == (
        2,
        "error: --where x: FIELD=VALUE is needed\nhint: as in --where dataset=trec_coarse\n",
    )


def test_the_command_names_every_format() -> None:
    assert set(bench_import.FORMATS) == {*FORMATS, bench_import.RESULTS}


# The published samples, where somebody has them: KLEENE_BENCH_SAMPLES names a folder with one folder a bench.

SAMPLES = Path(os.environ.get("KLEENE_BENCH_SAMPLES", "nowhere"))
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="KLEENE_BENCH_SAMPLES names no folder")


@needs_samples
def test_the_layout_is_that_of_a_published_run() -> None:
    (run,) = (file.parent for file in (SAMPLES / "harvey-lab" / "example-results").rglob("scores.json"))
    assert set(json.loads((run / "config.json").read_text())) == CONFIG
    assert set(json.loads((run / "metrics.json").read_text())) == METRICS
    (row,) = lab_results(run)
    assert (row.task, row.solved, row.score) == ("corporate-ma.extract-supply-agreement-key-terms", False, 0.3)


@needs_samples
@pytest.mark.parametrize(
    ("format_", "path", "tasks", "kinds"),
    [
        ("oolong", "oolong", 19, {"number": 9, "label": 4, "comparison": 3, "id": 2, "date": 1}),
        ("harvey-lab", "harvey-lab", 4, {"Judge": 4}),
        ("redlining", "redlining/alpaca_shape.jsonl", 5, {"Redline": 5}),
        ("financebench", "financebench/financebench_shape30.jsonl", 30, {"Number": 30}),
        ("finqa", "finqa/dev100.jsonl", 100, None),
        ("cuad", "cuad", 492, {"yes": 199, "no": 293}),
    ],
)  # fmt: skip
def test_the_samples_have_the_tasks_that_they_say(
    format_: str, path: str, tasks: int, kinds: dict[str, int] | None, tmp_path: Path
) -> None:
    found = readies(imported(format_, SAMPLES / path, tmp_path))
    assert len(found) == tasks

    def kind(ready: Ready) -> str:
        verify = ready.verify
        return (
            verify.kind
            if isinstance(verify, Oolong)
            else str(verify.rows[0][0])
            if isinstance(verify, Exact)
            else type(verify).__name__
        )

    assert kinds is None or Counter(map(kind, found)) == kinds
    if format_ == "cuad":
        assert {r.task.partition(". ")[0].partition("on this: ")[2] for r in found if kind(r) == "yes"} >= {
            "Governing Law",
            "Parties",
        }
    if format_ == "finqa":
        for line, ready in zip((SAMPLES / path).read_text("utf-8").splitlines(), found, strict=True):
            assert program(json.loads(line)) == pytest.approx(ready.verify.value, abs=ready.verify.tolerance), ready.id  # type: ignore[union-attr]


def program(row: dict[str, Any]) -> float:
    """What a FinQA program gives, by its published rules: an independent reading of the truth."""

    def number(text: str) -> float:
        text = text.strip()
        if text.startswith("#"):
            return steps[int(text[1:])]
        if text.startswith("const_"):
            return -1.0 if text == "const_m1" else float(text[6:])
        value = float(re.sub(r"[$,%() ]", "", text))
        return (-value if text.startswith("(") else value) / (100 if text.endswith("%") else 1)

    def cells(name: str) -> list[float]:
        line = next(line for line in row["table"] if line[0].strip().casefold() == name.strip().casefold())
        found = []
        for cell in line[1:]:
            with_number = re.search(r"\(?-?\$? ?[0-9][0-9,.]*\)?", cell)
            if with_number:
                found.append(number(with_number[0]))
        return found

    two = {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
        "exp": lambda a, b: a**b, "greater": lambda a, b: float(a > b),
    }  # fmt: skip
    table = {"table_sum": sum, "table_max": max, "table_min": min, "table_average": lambda v: sum(v) / len(v)}
    steps: list[float] = []
    for name, arguments in re.findall(r"(\w+)\(((?:[^()]|\([^()]*\))*)\)", row["qa"]["program"]):
        first, _, second = arguments.rpartition(",")
        steps.append(table[name](cells(first)) if name in table else two[name](number(first), number(second)))
    return steps[-1]


@pytest.mark.parametrize("out", ["/", "../../../..", "link"])
def test_an_import_takes_no_files_from_elsewhere(tmp_path: Path, out: str) -> None:
    lab = layouts.lab(tmp_path / "lab")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hunter2")
    where = {"/": str(secret), "../../../..": "../../../../secret", "link": "../../linked"}[out]
    (lab / "tasks" / "linked").symlink_to(secret)
    damaged(lab, "tasks/desk/001/task.json", "../../files", where)
    with pytest.raises(ConfigError, match="lies outside of"):
        import_pack("harvey-lab", lab, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


HOSTILE = {
    "no utf-8": ('{"question": "\\ud800"}', "half of a character"),
    "too deep": ("[" * 200_000, "is not JSON"),
    "too large": ('{"id": "a", "qa": {"question": "?", "exe_ans": 1' + "0" * 320 + "}}", "out of range"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_rows_are_named_and_no_fault_of_ours(tmp_path: Path, case: str) -> None:
    text, said = HOSTILE[case]
    (tmp_path / "rows.json").write_text(text)
    fields = records_of(tmp_path / "rows.json")
    with pytest.raises(ConfigError, match=said):
        for record in fields:
            record.text("question") if "question" in record.fields else record.record("qa").number("exe_ans")


def test_a_long_name_is_a_file_all_the_same_and_a_bad_place_is_said(tmp_path: Path) -> None:
    assert len(slug("a" * 300)) < 120 and slug("a" * 300) != slug("a" * 299 + "b")
    (tmp_path / "file").write_text("")
    rows = layouts.json_lines(tmp_path / "rows.jsonl", layouts.oolong_rows())
    with pytest.raises(ConfigError, match="cannot be written"):
        import_pack("oolong", rows, tmp_path / "file" / "pack")
