"""``corpus``: dated questions of several users, each of a kind that is not written down; how are the kinds distributed?

In the manner of OOLONG (Bertsch et al., 2025), whose tasks count and compare labels over many lines; the lines and the words are our own.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Oolong

# A kind: templates that show it by their first word, and others that do not.
LABELS = {
    "person": (("Who {did} {thing}?",), ("Name the man or woman that {did} {thing}.",)),
    "place": (("Where can {thing} be seen?",), ("Name the town in which {thing} stands.",)),
    "date": (("When was {thing} finished?",), ("Tell me the year in which {thing} was begun.",)),
    "quantity": (("How many people visit {thing} in a year?",), ("Give the number of steps that lead up to {thing}.",)),
    "reason": (("Why was {thing} closed for so long?",), ("Explain what led to the sale of {thing}.",)),
    "description": (("What does {thing} look like?",), ("Describe {thing} in a sentence.",)),
}
DEEDS = ("built", "paid for", "painted", "drew the plans of", "restored", "first wrote about")
THINGS = (
    "the old lighthouse", "the covered bridge", "the corn exchange", "the swing ferry", "the bell tower", "the glass house", "the tide mill",
    "the long pier", "the north gate", "the observatory", "the ice store", "the rope walk", "the town clock", "the harbour crane",
)  # fmt: skip
START = dt.date(2025, 1, 6)

SQL_HEAD = """\
CREATE FUNCTION label_of(question TEXT) RETURNS TEXT AS PROMPT
    'What does the question ask for: {names}? Answer with that word alone.\n\nQuestion: {{question}}';
WITH lines AS (
    SELECT split_part(text, ' || ', 2) AS author, split_part(text, ' || ', 3) AS question FROM ctx
), labelled AS (
    SELECT author, label_of(question) AS label FROM lines{where}
)
"""


def corpus(dial: float, rng: Rng) -> Example:
    """20 to 200 lines, 3 to 6 kinds, 3 to 8 users; a line hides its kind's first word with p = dial / 2. Asked: how many lines of a kind, of a
    user's lines of a kind, the most or least frequent kind (any of those on a tie), or which of two is the more frequent."""
    labels = rng.sample(list(LABELS), 3 + int(3 * dial))
    authors = [f"user{n}" for n in rng.sample(range(100, 1000), 3 + int(5 * dial))]
    lines, truth = [], []
    for n in range(20 + int(180 * dial)):
        # Twice the weight for the first label, so that counts differ.
        label, author = rng.choice([labels[0], *labels]), rng.choice(authors)
        template = rng.choice(LABELS[label][rng.chance(dial / 2)])
        day = START + dt.timedelta(days=n // 2)
        lines.append(
            f"{day.isoformat()} || {author} || {template.format(did=rng.choice(DEEDS), thing=rng.choice(THINGS))}"
        )
        truth.append((author, label))
    counts = Counter(label for _, label in truth)
    names = [label for label in LABELS if label in labels]
    kind = rng.choice(("count", "user", "most", "least", "compare"))
    where = ""
    if kind == "count":
        label = rng.choice(labels)
        asked, verify = f"How many lines ask for a {label}? Answer one number.", Oolong("number", (str(counts[label]),))
        sql = f"SELECT count(*) AS n FROM labelled WHERE label = '{label}'"
    elif kind == "user":
        label, author = rng.choice(labels), rng.choice(authors)
        asked = f"How many lines of {author} ask for a {label}? Answer one number."
        verify = Oolong("number", (str(truth.count((author, label))),))
        where = f" WHERE author = '{author}'"
        sql = f"SELECT count(*) AS n FROM labelled WHERE label = '{label}'"
    elif kind == "compare":
        one, other = rng.sample(labels, 2)
        asked = f"Are lines that ask for a {one} more common than, less common than, or as common as lines that ask for a {other}? Answer with these words."
        verdict = _compared(counts[one], counts[other])
        verify = Oolong("comparison", (verdict,))
        sql = (
            "SELECT CASE sign(n) WHEN 1 THEN 'more common than' WHEN -1 THEN 'less common than' ELSE 'as common as' END AS verdict\n"
            f"FROM (SELECT count(*) FILTER (label = '{one}') - count(*) FILTER (label = '{other}') AS n FROM labelled)"
        )
    else:
        extreme = (max if kind == "most" else min)(counts[label] for label in labels)
        asked = f"Which of {', '.join(names)} do the {kind} lines ask for? Answer with the word."
        verify = Oolong("label", tuple(label for label in names if counts[label] == extreme))
        sql = f"SELECT label FROM labelled GROUP BY label ORDER BY count(*){' DESC' if kind == 'most' else ''}, label LIMIT 1"
        if kind == "least" and extreme == 0:
            sql = f"SELECT name FROM (VALUES {', '.join(f'({n!r})' for n in names)}) AS t(name) WHERE name NOT IN (SELECT label FROM labelled WHERE label IS NOT NULL) LIMIT 1"
    task = (
        f"Each line of the context is a date, a user and a question, which asks for one of: {', '.join(names)}. Which, is not written; it must be "
        f"understood from the question. {asked}"
    )
    head = SQL_HEAD.format(names=", ".join(names), where=where)
    return Example("oolong_counting", task, verify, rating(dial), "\n\n".join(lines), head + sql)


def _compared(one: int, other: int) -> str:
    return "more common than" if one > other else "less common than" if one < other else "as common as"
