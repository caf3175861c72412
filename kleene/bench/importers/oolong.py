"""OOLONG-synth (Bertsch et al., 2025, arXiv 2511.02817): counting questions over windows of dated, labelled lines.

A row is a question with its window's text, or the text stands in rows of its own (another file of the folder) that share
``context_window_id``. The text with labels is never read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.rows import SUFFIXES, Record, records_of
from kleene.bench.importers.target import Target, in_prompt, slug
from kleene.bench.oracles.oolong import odd_ones
from kleene.bench.pack import Task
from kleene.bench.verify import Oolong
from kleene.planner.errors import ConfigError
from kleene.rendering.rows import sql_text

KINDS = {"LABEL": "label", "NUMERIC": "number", "COMPARISON": "comparison", "USER": "id", "DATE": "date"}
ANSWERS = {
    "label": "the label alone",
    "number": "the number alone",
    "comparison": "'more common than', 'less common than' or 'same frequency as'",
    "id": "the id alone",
    "date": "the date as YYYY-MM-DD",
}
TEXT = "context_window_text"


def oolong(path: Path, target: Target) -> Iterator[Task]:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
    if not files:
        raise ConfigError(f"{path} has no file that ends in {', '.join(SUFFIXES)}")
    windows: dict[object, tuple[str, list[str]]] = {}
    apart = [file for file in files if _is_of_windows(file)]
    for file in apart:
        for record in records_of(file, target.where):
            windows[record.whole("context_window_id")] = _window(record, target)
    for file in files:
        if file not in apart:
            for record in records_of(file, target.where):
                if TEXT in record.fields:
                    window = _window(record, target)
                else:
                    found = windows.get(record.whole("context_window_id"))
                    window = found or record.wrong("there is no text of its context_window_id")
                yield _task(record, *window)


def _is_of_windows(file: Path) -> bool:
    first = next(records_of(file), None)
    return first is not None and "question" not in first.fields and TEXT in first.fields


def _window(record: Record, target: Target) -> tuple[str, list[str]]:
    """The path of its text, and the labels that its first line names."""
    number = record.whole("context_window_id")
    lines = [line for line in record.text(TEXT).splitlines() if line.strip()]
    named = re.search(r"categories: (.*)", lines[0])
    labels = re.findall(r"'([^']+)'", named[1]) if named else []
    name = f"{slug(record.text('dataset'))}-{record.whole('context_len')}-{number}"
    # Each line becomes a row of ctx.
    return target.context(name, "\n\n".join(lines), record.place), labels


def _task(record: Record, path: str, labels: list[str]) -> Task:
    answer_type = record.text("answer_type").rpartition(".")[2]
    kind = KINDS.get(answer_type, "label")
    question = record.text("question")
    asked = re.sub(r"\s*Give your final answer in the form .*", "", question, flags=re.S) or question
    return Task(
        id=f"q{record.whole('id')}",
        task=f"{asked}\nThe data are the lines of the context; their labels must be understood. Answer one row with {ANSWERS[kind]}.",
        kind=f"oolong_{slug(record.text('task_group'))}",
        context_file=path,
        verify=Oolong(kind, _gold(record, kind)),
        sql=_reference(asked, labels),
    )


def _gold(record: Record, kind: str) -> tuple[str, ...]:
    """The answers of a Python list, any of which is right; dates as YYYY-MM-DD."""
    text = record.text("answer")
    dated = re.sub(
        r"datetime\.date\((\d{1,4}), (\d{1,2}), (\d{1,2})\)",
        lambda d: f"'{int(d[1]):04}-{int(d[2]):02}-{int(d[3]):02}'",
        text,
    )
    try:
        found = ast.literal_eval(dated)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(v, str | int | float) for v in found):
        record.wrong(f"answer is {text[:60]!r}, not a list of texts, numbers or dates")
    gold = tuple(str(value) for value in found)
    if odd := odd_ones(kind, gold):
        record.wrong(f"answer has {odd[0][:60]!r}, which is no {kind}")
    return gold


# The reference: the questions whose wording is known, as CallSQL over the lines.

HEAD = """CREATE FUNCTION label_of(instance TEXT) RETURNS TEXT AS PROMPT
    'Which of these categories does the instance fall into: {labels}? Answer with its name alone.\n\nInstance: {{instance}}';
"""
LINES = """WITH lines AS (
    SELECT regexp_extract(text, 'User: ([^|]*[^| ])', 1) AS author, try_strptime(regexp_extract(text, 'Date: ([^|]*[^| ])', 1), '%b %d, %Y')::DATE AS day,
        split_part(text, 'Instance: ', 2) AS instance
    FROM ctx WHERE contains(text, ' || Instance: ')
)
"""
MOST = "GROUP BY ALL ORDER BY count(*){} LIMIT 1"


def _reference(asked: str, labels: list[str]) -> str | None:
    if re.search(r"which user is represented (most|least) often", asked):
        return LINES + "SELECT author FROM lines " + MOST.format("" if "least often" in asked else " DESC")
    if re.search(r"which date appears (most|least) often", asked):
        return LINES + "SELECT day FROM lines " + MOST.format("" if "least often" in asked else " DESC")
    if not labels:
        return None
    head = HEAD.format(labels=in_prompt(", ".join(labels))) + LINES
    user = re.search(r"for the user with id (\S+?),", asked)
    of_user = f" WHERE author = {sql_text(user[1])}" if user else ""
    if found := re.search(r"how many (?:data points|instances) should be classified as label '([^']+)'", asked):
        also = of_user.replace("WHERE", "AND")
        return head + f"SELECT count(*) AS n FROM lines WHERE label_of(instance) = {sql_text(found[1])}{also}"
    if found := re.search(
        r"is label '([^']+)' more common, less common, or the same frequency as label '([^']+)'", asked
    ):
        one, other = (f"count(*) FILTER (label = {sql_text(name)})" for name in found.groups())
        return (
            f"{head}SELECT CASE sign({one} - {other}) WHEN 1 THEN 'more common than' WHEN -1 THEN 'less common than' ELSE 'same frequency as' END\n"
            f"FROM (SELECT label_of(instance) AS label FROM lines{of_user})"
        )
    if found := re.search(r"which of the labels is the (most|least) common", asked):
        names = ", ".join(f"({sql_text(name)})" for name in labels)
        order = " DESC" if found[1] == "most" else ""
        return (
            f"{head}SELECT name FROM (VALUES {names}) AS t(name) LEFT JOIN (SELECT label_of(instance) AS label FROM lines{of_user}) ON label = name\n"
            f"GROUP BY name ORDER BY count(label){order} LIMIT 1"
        )
    return None
