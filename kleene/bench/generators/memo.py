"""``memo``: a long contract with a schedule of rejected drafts and an amendment; a short memo on three of its terms, judged by a rubric."""

from __future__ import annotations

import attrs

from kleene.bench.generators.contracts import BOILERPLATE
from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Judge

COUNTRIES = ("Denmark", "Ireland", "Norway", "Portugal", "Scotland", "Slovenia")


@attrs.frozen
class Term:
    """``said``: clauses that set it, the plain one first; ``values`` to draw from."""

    name: str
    values: tuple[str, ...]
    said: tuple[str, ...]


TERMS = (
    Term(
        "cap on liability",
        tuple(f"EUR {n},000" for n in (150, 200, 250, 400, 600, 750)),
        (
            "Cap on liability. The Supplier's liability under this Agreement is limited to {value} in all.",
            "Whatever goes wrong, the Customer can recover no more than {value} from the Supplier, once and for everything.",
        ),
    ),
    Term(
        "time to pay",
        tuple(f"{n} days" for n in (14, 21, 28, 35, 42, 56)),
        (
            "Payment. The Customer pays each invoice within {value} of receiving it.",
            "Money is owed to the Supplier no later than {value} after its bill has come in.",
        ),
    ),
    Term(
        "length of the term",
        tuple(f"{n} months" for n in (18, 24, 30, 36, 48, 60)),
        (
            "Term. This Agreement begins when it is signed and runs for {value}.",
            "Counted from the day of signature, the parties are bound for {value}.",
        ),
    ),
    Term(
        "notice against renewal",
        tuple(f"{n} weeks" for n in (4, 6, 8, 10, 12, 16)),
        (
            "Renewal. The Agreement renews for a year unless a party objects in writing {value} before it ends.",
            "A party that does not want another year says so in a letter that arrives {value} before the last day.",
        ),
    ),
    Term(
        "governing law",
        COUNTRIES,
        (
            "Governing law. This Agreement is governed by the law of {value}.",
            "What this Agreement means is decided as the courts of {value} would decide it.",
        ),
    ),
    Term(
        "interest on late payment",
        tuple(f"{n} percent a year" for n in (3, 5, 6, 7, 8, 9)),
        (
            "Interest. Sums that are paid late bear interest of {value}.",
            "Who pays after the day owes {value} on top for the time of the delay.",
        ),
    ),
)
AMENDABLE = 3  # the first three of TERMS
MIN_DIAL_OF_AMENDMENT = 0.4
# What would speak of a term beside the clause that sets it.
OWN = tuple(text for text in BOILERPLATE if "interest" not in text and "fall due" not in text)
MORE = (
    "The Supplier tells the Customer of a recall on the day it learns of it.",
    "Drawings stay the property of the party that made them.",
    "A party that moves tells the other its new address within a week.",
    "Tests are made at the Supplier's bench and may be watched by the Customer.",
    "The Goods carry no mark but the Customer's.",
    "Records of each lot are kept for five years.",
    "Trucks are unloaded between seven in the morning and four in the afternoon.",
    "Spare parts can be ordered for ten years after the last delivery.",
    "The Supplier may use subcontractors that the Customer has agreed to.",
    "Neither party names the other in advertising unless it was asked first.",
    "Forecasts bind nobody.",
    "Each party bears its own costs of making this Agreement.",
    "Staff of either party obey the rules of the site they are on.",
    "What is said in a meeting counts once it stands in signed minutes.",
    "The Customer returns tools that were lent to it in good order.",
)

SQL = """\
CREATE FUNCTION term_in(section TEXT) RETURNS STRUCT(term VARCHAR, value VARCHAR, amends INTEGER) AS PROMPT
    'A section of a contract, its schedule or its amendments. Where it sets one of these terms, give term (one of: {names}) and value, in its '
    'words. Where it changes another section, give the new value and amends, the number of that section. Leave out what it does not say; a draft '
    'that was rejected sets nothing.\n\nSection: {{section}}';
WITH read AS (
    SELECT split_part(text, '. ', 1) AS section, term_in(text) AS r FROM ctx
), amendments AS (
    SELECT section, r.value AS value, CAST(r.amends AS VARCHAR) AS amends FROM read WHERE r.amends IS NOT NULL
)
SELECT string_agg(
    'The ' || r.term || ' is ' || coalesce(a.value, r.value) || ' (section ' || read.section
        || coalesce(', as changed by ' || a.section || '; before that ' || r.value, '') || ').',
    ' ' ORDER BY list_position([{asked}], r.term)
) AS memo
FROM read LEFT JOIN amendments AS a ON a.amends = read.section WHERE r.term IN ({asked})"""


def memo(dial: float, rng: Rng) -> Example:
    """12 to 36 sections of boilerplate and six of terms, each paraphrased with p = dial; a schedule with a cap that was rejected; from a dial of
    0.4 on an amendment of one of three of the terms. A memo on three of the six is asked for, the amended one among them."""
    values = {term.name: rng.sample(term.values, 3) for term in TERMS}  # in force first, amended to, rejected
    boiler = rng.sample((*OWN, *MORE), 12 + int(24 * dial))
    clauses: list[tuple[str | None, str]] = [(None, text) for text in boiler]
    clauses += [(t.name, t.said[rng.chance(dial)].format(value=values[t.name][0])) for t in TERMS]
    sections = list(enumerate(rng.shuffled(clauses), 1))
    at = {name: number for number, (name, _) in sections if name}
    cap = TERMS[0].name
    rejected = values[cap][2]
    texts = [f"{number}. {text}" for number, (_, text) in sections]
    texts.append(
        f"Schedule B. Drafts that were not agreed on, kept for the file. The Supplier had offered a cap on liability of {rejected}; the "
        "Customer turned it down, and it is no part of this Agreement."
    )
    amended = rng.choice(TERMS[:AMENDABLE]).name if dial >= MIN_DIAL_OF_AMENDMENT else None
    if amended:
        old, new, _ = values[amended]
        texts.append(
            f"Amendment 1. In section {at[amended]} the parties replace {old} by {new}. All else stays as it is."
        )
    others = [t.name for t in TERMS if t.name != amended]
    chosen = rng.sample(others, 2 if amended else 3) + ([amended] if amended else [])
    asked = [t.name for t in TERMS if t.name in chosen]
    task = (
        "The context is a contract with its schedule and, it may be, amendments. Write a memo for a colleague who has not read it on these "
        f"terms: {', '.join(asked)}. For each say what holds now and in which section it stands, and if an amendment changed it, what it was "
        "before. A few sentences; say nothing of other terms. Answer one row with the column memo."
    )
    facts = [_fact(name, values[name], at[name], name == amended) for name in asked]
    names = ", ".join(t.name for t in TERMS)
    quoted = ", ".join(f"'{name}'" for name in asked)
    return Example(
        "memo_contract_terms",
        task,
        Judge(_rubric(facts, values, asked, amended), " ".join(facts)),
        rating(0.4 + 0.6 * dial),
        "\n\n".join(texts),
        SQL.format(names=names, asked=quoted),
    )


def _fact(name: str, values: list[str], section: int, amended: bool) -> str:
    if amended:
        return f"The {name} is {values[1]} (section {section}, as changed by Amendment 1; before that {values[0]})."
    return f"The {name} is {values[0]} (section {section})."


def _rubric(facts: list[str], values: dict[str, list[str]], asked: list[str], amended: str | None) -> str:
    """Each line can be checked on its own."""
    lines = ["PASS if all of this holds, else FAIL."]
    lines += [f"{n}. The memo says, in whatever words: {fact}" for n, fact in enumerate(facts, 1)]
    if amended:
        lines.append(f"{len(lines)}. It does not give {values[amended][0]} as what holds now for the {amended}.")
    if TERMS[0].name in asked:
        lines.append(
            f"{len(lines)}. It does not give {values[TERMS[0].name][2]}, which was rejected, as the cap on liability."
        )
    lines.append(f"{len(lines)}. It is a memo of a few sentences in plain words, not a copy of the sections.")
    return "\n".join(lines)
