"""FinQA (Chen et al., EMNLP 2021, arXiv 2109.00122): a question on a page of a report with its table; the answer is what a program gives.

Right is the result of the program (``exe_ans``) within 0.1 %, not the answer as printed, which is rounded and sometimes of another unit: the task
says which unit is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.financebench import SQL
from kleene.bench.importers.rows import Record, records_of
from kleene.bench.importers.target import Target, slug
from kleene.bench.pack import Task
from kleene.bench.verify import Exact, Number, Verify
from kleene.rendering.rows import sql_text

ROUNDED = 0.00001  # exe_ans has five places


def finqa(path: Path, target: Target) -> Iterator[Task]:
    for record in records_of(path, target.where):
        yield _task(record, target)


def _task(record: Record, target: Target) -> Task:
    qa = record.record("qa")
    id_ = slug(record.text("id"))
    verify = _truth(qa)
    asked = f"{qa.text('question').strip()}\nAnswer {_asked(qa, verify)}."
    kind = "DOUBLE" if isinstance(verify, Number) else "TEXT"
    page = slug(record.text("filename"))
    return Task(
        id=id_,
        task=f"{asked} The context is a page of a report.",
        kind="finqa",
        context_file=target.context(page, _page(record), record.place),
        verify=verify,
        sql=SQL.format(type=kind, question=sql_text(asked)),
    )


def _page(record: Record) -> str:
    """Text, table, text; lines that are a dot alone are noise."""
    before, after = record.texts("pre_text"), record.texts("post_text")
    rows = record.fields.get("table")
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and all(isinstance(c, str) for c in row) for row in rows
    ):
        record.wrong("table is no list of rows of texts")
    lines = [f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |" for row in rows]
    if lines:
        lines.insert(1, f"|{' --- |' * len(rows[0])}")
    parts = [*before, "\n".join(lines), *after]
    return "\n\n".join(part for part in parts if part.strip() not in ("", "."))


def _truth(qa: Record) -> Verify:
    found = qa.fields.get("exe_ans")
    if found in ("yes", "no"):
        return Exact(((found,),))
    if isinstance(found, str):
        qa.wrong("exe_ans is neither a number nor yes or no")
    value = qa.number("exe_ans")
    return Number(value, max(abs(value) / 1000, ROUNDED))


def _asked(qa: Record, verify: Verify) -> str:
    """What to answer. Where the printed answer is a percentage, the program's may be a share of 1."""
    if not isinstance(verify, Number):
        return "yes or no"
    printed = re.fullmatch(r"(-?)\s*\$?([0-9][0-9,]*(?:\.[0-9]+)?)\s*%", (qa.optional_text("answer") or "").strip())
    if printed is None:
        return "one number"
    shown = float(printed[1] + printed[2].replace(",", ""))
    share = abs(100 * verify.value - shown) < abs(verify.value - shown)
    return "one number, as a share of 1 (0.25 for 25 %)" if share else "one number, in percent"
