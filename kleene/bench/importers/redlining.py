"""UmaiTech's redlining sets (configuration ``alpaca``): a clause to be redrafted, and the redraft of a model that the score agrees with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kleene.bench.importers.rows import Record, records_of
from kleene.bench.importers.target import Target, slug
from kleene.bench.pack import Task
from kleene.bench.verify import Redline
from kleene.rendering.rows import sql_text

ORIGINAL, REDLINED = "Original Clause:\n", "Redlined Clause:\n"
AFTER = ("\n\nRationale:", "\n\nSpecific Changes:", "\n\nRisk Reduction:")
SQL = "CREATE FUNCTION redraft(asked TEXT) RETURNS TEXT AS PROMPT '{{asked}}';\nSELECT redraft({asked}) AS redline"


def redlining(path: Path, target: Target) -> Iterator[Task]:
    for number, record in enumerate(records_of(path, target.where), 1):
        yield _task(record, number)


def _task(record: Record, number: int) -> Task:
    given, output = record.text("input"), record.text("output")
    original = given.partition(ORIGINAL)[2].strip()
    redlined = output.partition(REDLINED)[2]
    for end in AFTER:
        redlined = redlined.partition(end)[0]
    if not original or not redlined.strip():
        name, wanted = ("input", ORIGINAL) if not original else ("output", REDLINED)
        record.wrong(f"{name} has no text behind {wanted.strip()!r}", hint="the configuration alpaca is read")
    metadata = record.record("metadata") if record.fields.get("metadata") is not None else Record(record.place, {})
    asked = f"{record.text('instruction')}\n\n{given.strip()}"
    return Task(
        id=f"redline-{number:05}",
        task=f"{asked}\n\nAnswer one row with the column redline: the whole clause as it should read, without comments.",
        kind=f"redline_{slug(metadata.optional_text('clause_category') or 'clause')}",
        verify=Redline(original, redlined.strip()),
        sql=SQL.format(asked=sql_text(f"{asked}\n\nGive the whole clause as it should read, without comments.")),
    )
