"""FinanceBench (Patronus AI): questions on filings, with the pages that hold the evidence as the context (its mode ``oracle``).

Upstream's answers were compared by people. Here an answer that is a number is compared as one, within 1 % or half of its last printed digit; all
others go to the judge, with the published answer and justification as the reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.rows import Record, records_of
from kleene.bench.importers.target import Target, slug
from kleene.bench.pack import Task
from kleene.bench.verify import Judge, Number, Verify
from kleene.rendering.rows import sql_text

NUMBER = re.compile(r"[(-]?\s*(?:USD\s*)?\$?-?(?P<digits>[0-9][0-9,]*(?:\.(?P<decimals>[0-9]+))?)\s*%?\)?\s*%?\.?")
RUBRIC = (
    "PASS if the answer says the same as the reference does, in whatever words; numbers may differ by rounding. FAIL if it differs in substance, "
    "leaves the question open, or adds what contradicts the reference."
)
SQL = """\
CREATE FUNCTION answer_from(pages TEXT, question TEXT) RETURNS {type} AS PROMPT '{{question}}\n\nPages:\n{{pages}}';
SELECT answer_from(string_agg(text, chr(10) ORDER BY ordinal), {question}) AS answer FROM ctx"""


def financebench(path: Path, target: Target) -> Iterator[Task]:
    for record in records_of(path, target.where):
        yield _task(record, target)


def _task(record: Record, target: Target) -> Task:
    id_ = slug(record.text("financebench_id"))
    pages: dict[str, str] = {}
    for evidence in record.records("evidence"):
        # Upstream's README has another name for this field than its file.
        document = evidence.optional_text("doc_name") or evidence.text("evidence_doc_name")
        page = evidence.whole("evidence_page_num") + 1
        text = evidence.optional_text("evidence_text_full_page") or evidence.text("evidence_text")
        pages.setdefault(f"{document}, page {page}", text)
    if not pages:
        record.wrong("evidence is empty, at least one page is needed")
    context = "\n\n".join(f"{place}\n\n{text.strip()}" for place, text in pages.items())
    question = (
        f"{record.text('question').strip()} (company: {record.text('company')}, filing: {record.text('doc_name')})"
    )
    number = number_in(record.text("answer"))
    asked = "one row with the answer in a few words"
    if number is not None:
        asked = "one number, in percent" if "%" in record.text("answer") else "one number"
    asked = f"{question}\nAnswer {asked}."
    kind = "DOUBLE" if number is not None else "TEXT"
    return Task(
        id=id_,
        task=f"{asked} The context has the pages that answer it.",
        kind=f"financebench_{slug(record.text('question_type'))}",
        context_file=target.context(id_, context, record.place),
        verify=number or _judged(record),
        sql=SQL.format(type=kind, question=sql_text(asked)),
    )


def _judged(record: Record) -> Verify:
    why = record.optional_text("justification")
    return Judge(RUBRIC, record.text("answer") + (f"\nBecause: {why}" if why else ""))


def number_in(answer: str) -> Number | None:
    """The number that an answer is, with its tolerance; None where it is anything else.

    >>> number_in("$1,577.00"), number_in("-52.5%"), number_in("(3)"), number_in("about 7"), number_in("$8.70 billion")
    (Number(value=1577.0, tolerance=15.77), Number(value=-52.5, tolerance=0.525), Number(value=-3.0, tolerance=0.5), None, None)
    """
    found = NUMBER.fullmatch(answer.strip())
    if found is None:
        return None
    value = float(found["digits"].replace(",", ""))
    half = 0.5 * 10.0 ** -len(found["decimals"] or "")
    minus = re.search(r"^\(|-", answer.strip())
    return Number(-value if minus else value, round(max(half, value / 100), 9))
