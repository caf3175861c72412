"""CUAD v1 (Hendrycks et al., NeurIPS 2021, arXiv 2103.06268): is there a clause of this kind in the contract? One task a contract and category.

Read are the SQuAD-like JSON, the release's folder with ``master_clauses.csv`` and texts, and a folder with ``labels.jsonl``. Where spans have
places, the text must stand there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.rows import Record, records_of
from kleene.bench.importers.target import Target, in_prompt, slug
from kleene.bench.pack import Task
from kleene.bench.verify import Exact
from kleene.planner.errors import ConfigError

SQL = """\
CREATE FUNCTION shows(passage TEXT) RETURNS BOOLEAN AS PROMPT
    'The passage of a contract holds this: {what}\n\nPassage: {{passage}}';
SELECT CASE WHEN EXISTS (SELECT 1 FROM ctx WHERE shows(text)) THEN 'yes' ELSE 'no' END AS answer"""
LABELS, TABLE, DESCRIPTIONS = "labels.jsonl", "master_clauses.csv", "category_descriptions.csv"


def cuad(path: Path, target: Target) -> Iterator[Task]:
    if path.is_file():
        return _squad(path, target)
    if (path / LABELS).is_file():
        return _labels(path, target)
    if (path / TABLE).is_file():
        return _table(path, target)
    raise ConfigError(
        f"{path} has none of {LABELS} and {TABLE}", hint="give the SQuAD-like JSON, or a folder with one of these"
    )


def _squad(path: Path, target: Target) -> Iterator[Task]:
    for body in records_of(path):
        for contract in body.records("data"):
            title = contract.text("title")
            for paragraph in contract.records("paragraphs"):
                text = paragraph.text("context")
                for asked in paragraph.records("qas"):
                    category = asked.text("id").rpartition("__")[2]
                    if not _wanted(target, contract_id=title, category=category):
                        continue
                    answers = asked.records("answers")
                    for answer in answers:
                        _stands(answer, text, answer.text("text"), answer.whole("answer_start"))
                    about = asked.text("question").partition("Details: ")[2]
                    yield _task(asked, target, title, text, category, about, present=bool(answers))


def _labels(path: Path, target: Target) -> Iterator[Task]:
    about, texts = _descriptions(path), _Texts(path)
    for record in records_of(path / LABELS, target.where):
        contract, category = record.text("contract_id"), record.text("category")
        text, present = texts.of(record, contract), record.fields.get("present")
        if not isinstance(present, bool):
            record.wrong("present is neither true nor false")
        spans = record.records("spans")
        for span in spans:
            _stands(span, text, span.text("text"), span.whole("start"))
        if present != bool(spans):
            record.wrong(f"present is {str(present).lower()} and there are {len(spans)} spans")
        yield _task(record, target, contract, text, category, about.get(category.casefold(), ""), present=present)


def _table(path: Path, target: Target) -> Iterator[Task]:
    about, texts = _descriptions(path), _Texts(path)
    for record in records_of(path / TABLE):
        contract = Path(record.optional_text("contract_id") or record.text("Filename")).stem
        columns = [name for name in record.fields if f"{name}-Answer".casefold() in _names(record)]
        if not columns:
            record.wrong("there is no column with one of its name and -Answer")
        for category in columns:
            if _wanted(target, contract_id=contract, category=category):
                text = texts.of(record, contract)
                present = bool(_list(record, category))
                yield _task(
                    record, target, contract, text, category, about.get(category.casefold(), ""), present=present
                )


def _names(record: Record) -> set[str]:
    return {name.replace("- ", "-").casefold() for name in record.fields}


def _list(record: Record, name: str) -> list[object]:
    """The spans of a category, written as a Python list."""
    try:
        found = ast.literal_eval(record.optional_text(name) or "[]")
    except (ValueError, SyntaxError):
        found = None
    if not isinstance(found, list):
        record.wrong(f"{name} is no list of clauses")
    return found


def _wanted(target: Target, **fields: str) -> bool:
    for name in target.where:
        if name not in fields:
            raise ConfigError(f"--where {name}: there is no such field", hint=f"its fields are {', '.join(fields)}")
    return all(fields[name] == value for name, value in target.where.items())


def _stands(record: Record, text: str, span: str, start: int) -> None:
    if text[start : start + len(span)] != span:
        record.wrong(f"its text does not stand at {start:,} of the contract")


def _descriptions(path: Path) -> dict[str, str]:
    file, found = path / DESCRIPTIONS, {}
    for record in records_of(file) if file.is_file() else ():
        category, description, *_ = (str(value).partition(": ")[2] or str(value) for value in record.fields.values())
        found[category.strip().casefold()] = description.strip()
    return found


class _Texts:
    """The contracts' texts below a folder, by the names of their files; the one that was read last is kept."""

    def __init__(self, path: Path) -> None:
        self._files = {file.stem: file for file in sorted(path.rglob("*.txt"))}
        self._last = ("", "")

    def of(self, record: Record, contract: str) -> str:
        if self._last[0] != contract:
            file = self._files.get(contract) or record.wrong(f"there is no text {contract}.txt")
            try:
                self._last = (contract, file.read_text("utf-8"))
            except UnicodeDecodeError as error:
                record.wrong(f"{file} is no text in UTF-8: {error.reason} at byte {error.start:,}")
        return self._last[1]


def _task(
    record: Record, target: Target, contract: str, text: str, category: str, about: str, *, present: bool
) -> Task:
    name = slug(contract)
    what = f"{category}. {about}" if about else f"{category}."
    return Task(
        id=f"{name}.{slug(category)}",
        task=f"Has the contract something on this: {what}\nThe context is the contract. Answer one row: yes or no.",
        kind="cuad",
        context_file=target.context(name, text, record.place),
        verify=Exact((("yes" if present else "no",),)),
        sql=SQL.format(what=in_prompt(what)),
    )
