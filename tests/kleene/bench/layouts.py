"""Small files in the layouts of other benches. All names, texts and figures were made up for these tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

WINDOW = (
    "The following lines contain 6 questions, one per line. Each falls into one of 3 categories: 'place', 'person', 'date'.\n"
    "Date: Mar 01, 2024 || User: 7 || Instance: Where is the old mill ?\n"
    "Date: Mar 01, 2024 || User: 12 || Instance: Who rang the bell ?\n"
    "Date: Mar 02, 2024 || User: 12 || Instance: Where does the ferry land ?\n"
    "Date: Mar 02, 2024 || User: 12 || Instance: When was the pier built ?\n"
    "Date: Mar 01, 2024 || User: 7 || Instance: Where do the boats lie ?\n"
    "Date: Apr 05, 2024 || User: 31 || Instance: Who keeps the keys, Anne's || boat ?\n"
    "Recall: the lines are above."
)
FORM = " Give your final answer in the form 'Answer: X'."
# Question, group, type, answer.
QUESTIONS = (
    ("how many data points should be classified as label 'place'?", "counting", "NUMERIC", "[3]"),
    ("for the user with id 12, how many instances should be classified as label 'place'?", "user", "NUMERIC", "[1]"),
    ("which of the labels is the most common?", "counting", "LABEL", "['place']"),
    ("which of the labels is the least common?", "counting", "LABEL", "['date']"),
    ("is label 'person' more common, less common, or the same frequency as label 'place'?", "counting", "COMPARISON", "['less common than']"),
    ("which user is represented most often?", "user", "USER", "[12]"),
    ("which date appears most often?", "timeline", "DATE", "[datetime.date(2024, 3, 1)]"),
    ("which date appears least often?", "timeline", "DATE", "[datetime.date(2024, 4, 5)]"),
    ("which month is the wettest?", "timeline", "MONTH_YEAR", "['April 2024', 'May 2024']"),
)  # fmt: skip


def oolong_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "context_len": 1024,
            "dataset": "made_up",
            "context_window_id": 4,
            "context_window_text": WINDOW,
            "context_window_text_with_labels": "never read",
            "question": f"In the above data, {question}{FORM}",
            "task_group": group,
            "task": "TASK_TYPE.X",
            "answer": answer,
            "answer_type": f"ANSWER_TYPE.{kind}",
        }
        for number, (question, group, kind, answer) in enumerate(QUESTIONS, 1)
    ]


def lab(folder: Path) -> Path:
    """A task alone with documents, one of a scenario, and two that share their documents."""
    criterion = {
        "id": "C-001",
        "title": "Fee",
        "match_criteria": "PASS if the fee is 5. FAIL otherwise.",
        "deliverables": ["memo.docx"],
    }
    base = {"title": "Read it", "instructions": "Write a memo.", "criteria": [criterion]}
    tasks: dict[str, dict[str, Any]] = {
        "leases/fee": base | {"deliverables": {"memo.docx": "memo.docx"}, "work_type": "review"},
        "leases/end/scenario-01": base | {"deliverables": [{"filename": "memo.docx"}, {"filename": "list.xlsx"}]},
        "desk/001": base | {"deliverables": ["memo.docx"], "docs_dir": "../../files"},
        "desk/002": base | {"docs_dir": "../../files", "criteria": [{"id": "C-1", "match_criteria": "PASS if short."}]},
    }
    for path, body in tasks.items():
        (folder / "tasks" / path).mkdir(parents=True)
        (folder / "tasks" / path / "task.json").write_text(json.dumps(body))
    for path in ("leases/fee/documents", "leases/end/scenario-01/documents/more", "files"):
        (folder / "tasks" / path).mkdir(parents=True)
        (folder / "tasks" / path / "it's a lease.txt").write_text("The fee is 5.")
    return folder


def lab_run(folder: Path, run: str, *, passed: int, clean: bool = True) -> Path:
    place = folder / "leases" / "fee" / run
    place.mkdir(parents=True)
    scores = {
        "all_pass": passed == 2,
        "n_criteria": 2,
        "n_passed": passed,
        "judge_error_count": 2 - passed,
        "summary": f"{passed}/2",
    }
    (place / "scores.json").write_text(json.dumps(scores))
    (place / "config.json").write_text(json.dumps({"model": "m", "task": "leases/fee", "run_id": run}))
    metrics = {
        "turn_count": 3,
        "input_tokens": 100,
        "output_tokens": 20,
        "wall_clock_seconds": 1.5,
        "finished_cleanly": clean,
    }
    (place / "metrics.json").write_text(json.dumps(metrics))
    return place


def redline_row(**more: Any) -> dict[str, Any]:
    return {
        "instruction": "Redline this clause.",
        "input": "Clause Category: liability\nContract Type: nda\n\nOriginal Clause:\nThe vendor's fee is due {at once}.",
        "output": "Redlined Clause:\nThe vendor's fee is due within thirty days.\n\nRationale:\nTime.\n\nSpecific Changes:\n- change: time\n",
        "metadata": {"clause_category": "liability"},
    } | more


def finance_row(**more: Any) -> dict[str, Any]:
    page = {
        "evidence_text": "part",
        "doc_name": "MILL_2020_10K",
        "evidence_page_num": 0,
        "evidence_text_full_page": "Sales were 8.70.",
    }
    return {
        "financebench_id": "made_1",
        "company": "Mill",
        "doc_name": "MILL_2020_10K",
        "question_type": "metrics-generated",
        "question": "What were the mill's sales?",
        "answer": "$8.70",
        "justification": None,
        "evidence": [page, page | {"evidence_page_num": 3, "evidence_text_full_page": None}],
    } | more


def finqa_row(**more: Any) -> dict[str, Any]:
    return {
        "id": "MILL/2020/page_4.pdf-1",
        "filename": "MILL/2020/page_4.pdf",
        "pre_text": ["sales rose.", "."],
        "post_text": ["the mill's fiscal year ends in june.", " "],
        "table": [["", "2019", "2020"], ["sales | net", "80", "100"]],
        "qa": {
            "question": "By how much did sales grow?",
            "answer": "25%",
            "program": "subtract(100, 80), divide(#0, 80)",
            "exe_ans": 0.25,
        },
    } | more


CONTRACT = "1. The law of Norway governs.\n\n2. Either party may end this at will; it's free to.\n"


def cuad_labels(folder: Path) -> Path:
    (folder / "contracts").mkdir()
    (folder / "contracts" / "mill.txt").write_text(CONTRACT)
    at = CONTRACT.index("Either party")
    rows = [
        {"category": "Governing Law", "present": True, "answer": "Norway", "spans": [{"text": "law of Norway", "start": 7, "end": 20}]},
        {"category": "At Will", "present": True, "answer": "Yes", "spans": [{"text": "Either party may end", "start": at, "end": at + 20}]},
        {"category": "Rofr/Rofo", "present": False, "answer": "No", "spans": []},
    ]  # fmt: skip
    json_lines(folder / "labels.jsonl", [{"contract_id": "mill"} | row for row in rows])
    (folder / "category_descriptions.csv").write_text(
        "\ufeffCategory (incl. context),Description\nCategory: Governing law,Description: Whose {law} governs?\n"
    )
    return folder


def cuad_table(folder: Path) -> Path:
    (folder / "full_contract_txt").mkdir()
    (folder / "full_contract_txt" / "mill.txt").write_text(CONTRACT)
    (folder / "master_clauses.csv").write_text(
        "Filename,Governing Law,Governing Law-Answer,At Will,At Will- Answer,Rofr/Rofo,Rofr/Rofo-Answer\n"
        "mill.PDF,['law of Norway'],Norway,\"['Either party may end', 'free']\",Yes,[],No\n"
    )
    return folder


def cuad_squad(file: Path) -> Path:
    def asked(category: str, about: str, *spans: tuple[str, int]) -> dict[str, Any]:
        question = f'Highlight the parts (if any) related to "{category}". Details: {about}'
        answers = [{"text": text, "answer_start": start} for text, start in spans]
        return {"id": f"mill__{category}", "question": question, "answers": answers, "is_impossible": not spans}

    qas = [
        asked("Governing Law", "Whose {law} governs?", ("law of Norway", 7)),
        asked("At Will", "", ("Either", CONTRACT.index("Either"))),
        asked("Rofr/Rofo", ""),
    ]
    body = {"version": "x", "data": [{"title": "mill", "paragraphs": [{"context": CONTRACT, "qas": qas}]}]}
    file.write_text(json.dumps(body))
    return file


def json_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return file


def parquet(file: Path, rows: list[dict[str, Any]], group: int = 3) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=group)
    return file
