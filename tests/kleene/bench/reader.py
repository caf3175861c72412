"""A model that answers the generators' reference statements as a careful reader would: rules over the words, nothing of the truth."""

from __future__ import annotations

import json
import re

from kleene.udfs.protocols import Request
from tests.kleene.bench.test_generators import CLAUSES, KINDS, TERMS

WORK = (
    r"(?P<person>\w+) worked (?P<hours>\d) hours on (?P<project>\w+)\.",
    r"(?P<hours>\d) hours on (?P<project>\w+) today, all of them by (?P<person>\w+)\.",
    r"(?P<project>\w+): (?P<person>\w+) put in (?P<hours>\d) hours\.",
    r"On (?P<project>\w+), (?P<person>\w+) was busy for (?P<hours>\d) hours\.",
)


def answer(request: Request) -> str:
    prompt = request.prompt
    if found := re.search(r"^Clause: (.*)", prompt, re.M):
        return next((name for name, pattern in CLAUSES.items() if re.search(pattern, found[1])), "none")
    if found := re.search(r"^Question: (.*)", prompt, re.M):
        return next(kind for kind, pattern in KINDS.items() if re.match(pattern, found[1]))
    if found := re.search(r"Give the figure of (.+) for (\d+) as", prompt):
        rows = [line.strip("| ").split(" | ") for line in prompt.splitlines() if line.startswith("|")]
        row = next(row for row in rows if row[0] == found[1])
        return row[rows[0].index(found[2]) + 1].replace(",", "")
    if "A section of a contract, its schedule" in prompt:
        section = prompt.partition("\n\nSection: ")[2]
        terms: dict[str, object] = {"term": None, "value": None, "amends": None}
        if fixed := re.search(r"In section (\d+) the parties replace .+ by (.+)\. All", section):
            terms |= {"value": fixed[2], "amends": int(fixed[1])}
        for name, pattern in TERMS.items():
            if read := re.search(pattern, section):
                terms |= {"term": name, "value": read[1]}
        return json.dumps(terms)
    found = re.search(r"^Entry: \S+ #\d+ (.*)", prompt, re.M)
    assert found, prompt
    fields: dict[str, object] = {"kind": "other", "person": None, "project": None, "hours": None, "corrects": None}
    if fixed := re.match(r"Correction: entry (\d+) should say (\d) hours", found[1]):
        fields |= {"kind": "correction", "corrects": int(fixed[1]), "hours": int(fixed[2])}
    for pattern in WORK:
        if read := re.fullmatch(pattern, found[1]):
            fields |= {"kind": "worked", **read.groupdict(), "hours": int(read["hours"])}
    return json.dumps(fields)
