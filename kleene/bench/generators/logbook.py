"""``logbook``: a long ledger of dated entries, some of which say who worked how long on what; a sum or a name is asked for."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable

import attrs

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Cell, Exact

PROJECTS = ("Harbor", "Juniper", "Meridian", "Saltmarsh", "Tessera", "Windmill")
PEOPLE = ("Amara", "Bruno", "Chiara", "Deniz", "Edda", "Farid", "Greta", "Hugo")
WORK = (
    "{person} worked {hours} hours on {project}.",
    "{hours} hours on {project} today, all of them by {person}.",
    "{project}: {person} put in {hours} hours.",
    "On {project}, {person} was busy for {hours} hours.",
)
DISTRACTORS = (
    "{person} had planned {hours} hours for {project}, but did not get to it.",
    "Next week {person} hopes to find {hours} hours for {project}.",
    "The quote for {project} says {hours} hours; {person} has not begun.",
    "{person} asked whether {hours} hours would be enough for {project}.",
)
CORRECTION = "Correction: entry {number:04} should say {hours} hours."
FILLER = (
    "Rain all day; the roof over the store held.",
    "The printer is out of toner again.",
    "{person} brought plums from the garden.",
    "Visitors in the morning, nothing to report.",
    "The lift is being repaired until Friday.",
    "{person} is on leave.",
    "Minutes of the last meeting were sent round.",
    "{person} tidied the shelves by the window.",
)
MIN_DIAL_OF_CORRECTIONS = 0.3
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)  # not the locale's
START = dt.date(2026, 1, 5)

SQL_HEAD = """\
CREATE FUNCTION reading(entry TEXT) RETURNS STRUCT(kind VARCHAR, person VARCHAR, project VARCHAR, hours INTEGER, corrects INTEGER) AS PROMPT
    'An entry of a logbook. kind: worked where somebody did work these hours on a project, correction where it corrects the hours of an '
    'earlier entry (corrects: its number), else other. Leave out what it does not say.\n\nEntry: {entry}';
WITH entries AS (
    SELECT CAST(text[13:16] AS INTEGER) AS number, CAST(text[1:10] AS DATE) AS day, text FROM ctx
), read AS (
    SELECT number, day, reading(text) AS r FROM entries WHERE contains(text, ' hours')
), work AS (
    SELECT w.day, w.r.person AS person, w.r.project AS project, coalesce(c.hours, w.r.hours) AS hours
    FROM read AS w LEFT JOIN (SELECT r.corrects AS corrects, r.hours AS hours FROM read WHERE r.kind = 'correction') AS c ON c.corrects = w.number
    WHERE w.r.kind = 'worked'
)
"""


@attrs.frozen
class Entry:
    """One that counts: these hours were worked, corrections already applied."""

    day: dt.date
    person: str
    project: str
    hours: int


def logbook(dial: float, rng: Rng) -> Example:
    """300 to 1,800 entries over 60 to 180 days, 3 to 6 projects, 4 to 8 people. Of the entries 20 to 60 % are filler and 8 to 20 % speak of hours
    that nobody worked; from a dial of 0.3 on, 1 to 4 % correct the hours of an earlier entry."""
    projects = rng.sample(PROJECTS, 3 + int(3 * dial))
    people = rng.sample(PEOPLE, 4 + int(4 * dial))
    texts, work = _entries(dial, rng, projects, people)
    asked, rows, sql = rng.choice(QUESTIONS)(rng, list(work.values()), projects)
    task = (
        "The context is a logbook. Each entry has a date and a number. Only hours that were worked count, not those that were planned, quoted, asked "
        f"or hoped for; a correction replaces the hours of the entry it names, on that entry's own date. {asked}"
    )
    return Example("logbook", task, Exact(rows), rating(0.5 + 0.5 * dial), "\n\n".join(texts), SQL_HEAD + sql)


def _entries(dial: float, rng: Rng, projects: list[str], people: list[str]) -> tuple[list[str], dict[int, Entry]]:
    count, span = 300 + int(1500 * dial), 60 + int(120 * dial)
    filler, distractors = 0.2 + 0.4 * dial, 0.08 + 0.12 * dial
    corrections = 0.01 + 0.03 * dial if dial >= MIN_DIAL_OF_CORRECTIONS else 0.0
    texts: list[str] = []
    work: dict[int, Entry] = {}
    open_: list[int] = []  # entries that nothing has corrected yet
    for number in range(1, count + 1):
        day = START + dt.timedelta(days=(number - 1) * span // count)
        person, project, hours = rng.choice(people), rng.choice(projects), rng.between(2, 9)
        drawn = rng.below(1_000_000) / 1_000_000
        if drawn < corrections and open_:
            fixed = open_.pop(rng.below(len(open_)))
            hours = rng.choice([h for h in range(2, 10) if h != work[fixed].hours])
            work[fixed] = attrs.evolve(work[fixed], hours=hours)
            said = CORRECTION.format(number=fixed, hours=hours)
        elif drawn < corrections + distractors:
            said = rng.choice(DISTRACTORS).format(person=person, project=project, hours=hours)
        elif drawn < corrections + distractors + filler:
            said = rng.choice(FILLER).format(person=person)
        else:
            said = rng.choice(WORK).format(person=person, project=project, hours=hours)
            work[number] = Entry(day, person, project, hours)
            open_.append(number)
        texts.append(f"{day.isoformat()} #{number:04} {said}")
    return texts, work


# The questions: from what counts to the question, its rows, and the end of the reference.

Question = tuple[str, tuple[tuple[Cell, ...], ...], str]
ALL_ROWS = " Answer a row for each: the name, then the hours."


def _by_project(rng: Rng, work: list[Entry], projects: list[str]) -> Question:
    asked = "How many hours were worked on each project?" + ALL_ROWS
    return (
        asked,
        _sums((e.project, e.hours) for e in work),
        "SELECT project, sum(hours) AS hours FROM work GROUP BY project",
    )


def _by_person(rng: Rng, work: list[Entry], projects: list[str]) -> Question:
    asked = "How many hours did each person work?" + ALL_ROWS
    return (
        asked,
        _sums((e.person, e.hours) for e in work),
        "SELECT person, sum(hours) AS hours FROM work GROUP BY person",
    )


def _top_person(rng: Rng, work: list[Entry], projects: list[str]) -> Question:
    project = rng.choice(projects)
    asked = f"Who worked the most hours on {project}? Answer the name alone; where several did, one row each."
    sums = _sums((e.person, e.hours) for e in work if e.project == project)
    most = max((hours for _, hours in sums), default=0)
    sql = f"SELECT person FROM work WHERE project = '{project}' GROUP BY person QUALIFY rank() OVER (ORDER BY sum(hours) DESC) = 1"
    return asked, tuple((person,) for person, hours in sums if hours == most), sql


def _in_a_month(rng: Rng, work: list[Entry], projects: list[str]) -> Question:
    months = sorted({e.day.replace(day=1) for e in work})
    month = rng.choice(months)
    asked = f"How many hours were worked on each project in {MONTHS[month.month - 1]} {month.year}?" + ALL_ROWS
    sql = f"SELECT project, sum(hours) AS hours FROM work WHERE date_trunc('month', day) = DATE '{month.isoformat()}' GROUP BY project"
    return asked, _sums((e.project, e.hours) for e in work if e.day.replace(day=1) == month), sql


def _people_on(rng: Rng, work: list[Entry], projects: list[str]) -> Question:
    project = rng.choice(projects)
    asked = f"Who worked on {project} in the first ten days of the logbook? Answer one row a person, the name alone; 'nobody' if none did."
    end = START + dt.timedelta(days=10)
    names = sorted({e.person for e in work if e.project == project and e.day < end}) or ["nobody"]
    found = f"SELECT DISTINCT person FROM work WHERE project = '{project}' AND day < DATE '{end.isoformat()}'"
    sql = f", found AS ({found})\nFROM found UNION ALL SELECT 'nobody' WHERE NOT EXISTS (FROM found)"
    return asked, tuple((name,) for name in names), sql


QUESTIONS: tuple[Callable[[Rng, list[Entry], list[str]], Question], ...] = (
    _by_project,
    _by_person,
    _top_person,
    _in_a_month,
    _people_on,
)


def _sums(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    total: Counter[str] = Counter()
    for name, hours in pairs:
        total[name] += hours
    return tuple(sorted(total.items()))
