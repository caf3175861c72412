"""``statements``: a company's figures over some years, with notes that do not count, and one number to be worked out."""

from __future__ import annotations

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Number

COMPANIES = ("Aldgate Pumps", "Brightwater Mills", "Corran Shipping", "Dunmore Glass", "Elsewick Foods", "Farrow Tools")
ITEMS = ("Revenue", "Cost of sales", "Research and development", "Administration", "Interest paid", "Income tax")
NOTES = (
    "{item} for {year} was first announced as {value}; the table has the audited figure.",
    "Management plans {item} of {value} for the year after {year}.",
    "A competitor reported {item} of {value} for {year}.",
    "Had the plant run for all of {year}, {item} would have come to about {value}.",
)

SQL_HEAD = """\
CREATE FUNCTION figure(statement TEXT, item TEXT, year TEXT) RETURNS DOUBLE AS PROMPT
    'Below is a table of a company''s figures. Give the figure of {item} for {year} as a plain number.\n\n{statement}';
"""


def statements(dial: float, rng: Rng) -> Example:
    """2 to 5 years, 3 to 6 items, 0 to 6 notes with other figures. Asked: growth in percent (within 0.15), one item in percent of another
    (within 0.015), or a sum over the years (within 0.5)."""
    company = rng.choice(COMPANIES)
    count = 2 + int(3 * dial)
    first = rng.between(2012, 2020)
    years = list(range(first, first + count))
    items = sorted(rng.sample(ITEMS, 3 + int(3 * dial)), key=ITEMS.index)
    figures = {(item, year): rng.between(120, 9_800) for item in items for year in years}
    lines = [
        f"{company}: figures in thousands of dollars",
        _row("", *map(str, years)),
        _row("---", *("---:" for _ in years)),
    ]
    lines += [_row(item, *(f"{figures[item, year]:,}" for year in years)) for item in items]
    notes = [
        rng.choice(NOTES).format(item=rng.choice(items), year=rng.choice(years), value=f"{rng.between(120, 9_800):,}")
        for _ in range(int(6 * dial))
    ]
    context = "\n\n".join(["\n".join(lines), *(f"Note {n}. {note}" for n, note in enumerate(notes, 1))])
    kind = rng.choice(("growth", "ratio", "sum"))
    if kind == "growth":
        item, (a, b) = rng.choice(items), sorted(rng.sample(years, 2))
        before, after = figures[item, a], figures[item, b]
        asked = f"By how many percent did {item} grow from {a} to {b} (negative if it fell)?"
        verify = Number(100 * (after - before) / before, 0.15)
        sql = f"SELECT 100 * (b - a) / a AS growth FROM (SELECT {_figure(item, a)} AS a, {_figure(item, b)} AS b FROM {_TABLE})"
    elif kind == "ratio":
        (one, other), year = rng.sample(items, 2), rng.choice(years)
        asked = f"What percentage of {other} was {one} in {year}?"
        verify = Number(100 * figures[one, year] / figures[other, year], 0.015)
        sql = f"SELECT 100 * a / b AS share FROM (SELECT {_figure(one, year)} AS a, {_figure(other, year)} AS b FROM {_TABLE})"
    else:
        item = rng.choice(items)
        asked = f"What was {item} in all years of the table together, in thousands of dollars?"
        verify = Number(float(sum(figures[item, year] for year in years)), 0.5)
        sql = f"SELECT {' + '.join(_figure(item, year) for year in years)} AS total FROM {_TABLE}"
    task = f"The context is a statement of {company}. {asked} Only the table counts, not the notes. Answer one number."
    return Example("finance_statement", task, verify, rating(dial), context, SQL_HEAD + sql)


_TABLE = "ctx WHERE contains(text, '| ---')"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(item: str, year: int) -> str:
    return f"figure(text, '{item}', '{year}')"
