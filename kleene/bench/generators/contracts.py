"""``contracts``: numbered clauses, most of them boilerplate; which of six kinds of clause are there?"""

from __future__ import annotations

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Exact

# A category: its clause in plain words, paraphrases that do not name it, and a near miss that is not one.
CATEGORIES = {
    "non-compete": (
        "Non-compete. The Supplier shall not compete with the Customer in the Territory during the Term.",
        (
            "While this Agreement lasts, the Supplier will keep out of any business in the Territory that sells what the Customer sells.",
            "The Supplier undertakes to open no rival shop in the Territory before the Term is over.",
        ),
        "The Supplier is free to serve rivals of the Customer in the Territory.",
    ),
    "termination for convenience": (
        "Termination for convenience. Either party may terminate this Agreement at any time without cause on thirty days' notice.",
        (
            "The Customer may end this Agreement whenever it pleases, and need give no reason, by a letter sent thirty days before.",
            "No ground is needed to bring this Agreement to an end: sixty days' warning by either party is enough.",
        ),
        "Either party may end this Agreement where the other is in breach and does not mend it within thirty days.",
    ),
    "cap on liability": (
        "Cap on liability. The liability of the Supplier is limited to the fees paid in the twelve months before the claim.",
        (
            "Whatever goes wrong, the Supplier shall never owe the Customer more than one year's fees.",
            "All that either party can recover from the other under this Agreement is at most the sum of the fees paid.",
        ),
        "The Supplier answers without any upper bound for harm that it causes on purpose.",
    ),
    "governing law": (
        "Governing law. This Agreement is governed by the laws of Scotland.",
        (
            "The courts shall read this Agreement as the statutes and precedents of Ireland require.",
            "Any question about what this Agreement means is answered by the legal rules of Denmark.",
        ),
        "The Supplier shall obey every statute that its trade is under, wherever the goods are sent.",
    ),
    "audit rights": (
        "Audit rights. The Customer may audit the books and records of the Supplier once a year.",
        (
            "On ten days' notice the Supplier opens its ledgers to an accountant whom the Customer sends.",
            "Persons named by the Customer may come in and look through the Supplier's accounts each spring.",
        ),
        "The Supplier keeps its ledgers for seven years and shows them to its own accountant.",
    ),
    "exclusivity": (
        "Exclusivity. The Customer shall buy the Goods exclusively from the Supplier.",
        (
            "For as long as this Agreement runs, nobody but the Supplier may deliver the Goods to the Customer.",
            "The Customer takes all of the Goods that it needs from the Supplier and from no other source.",
        ),
        "The Customer may buy the Goods from whomever it likes.",
    ),
}
BOILERPLATE = (
    "Words in the singular include the plural.",
    "Headings are for ease of reading and change nothing in what this Agreement means.",
    "Notices are sent in writing to the address at the head of this Agreement.",
    "The Goods are packed in cases of twelve and marked with their lot number.",
    "Invoices fall due forty-five days after they are received.",
    "Each party keeps the other's papers confidential for three years.",
    "Neither party may pass on its duties without the written consent of the other.",
    "A delay that a flood, a strike or a war brings about is no breach.",
    "If one clause is void, the others stand.",
    "This Agreement is the whole of what the parties have agreed on.",
    "Changes are valid only when both parties have signed them.",
    "Risk passes to the Customer when the Goods leave the yard.",
    "The Supplier insures the Goods until they are handed over.",
    "Samples are sent free of charge, twelve a season at most.",
    "The parties meet every quarter to look at forecasts.",
    "Late payment bears interest of four percent a year.",
    "Goods that are damaged are replaced within a fortnight.",
    "Nothing here makes one party the agent of the other.",
    "Two copies are signed; each party keeps one.",
    "The Supplier names a person who answers questions about orders.",
    "Prices include packing and exclude duties.",
    "A waiver counts only for the case for which it was given.",
    "Orders are placed by the tenth of the month before delivery.",
    "Cases and pallets are returned at the Supplier's cost.",
)

SQL = """\
CREATE FUNCTION kind_of(clause TEXT) RETURNS TEXT AS PROMPT
    'Which of these does the clause of a contract give: {names}? Answer with its name alone, or none.\n\nClause: {{clause}}';
SELECT DISTINCT category FROM (SELECT kind_of(text) AS category FROM ctx) WHERE category <> 'none'"""


def contracts(dial: float, rng: Rng) -> Example:
    """6 to 24 clauses of boilerplate and 1 to 4 of the categories, each paraphrased with p = dial; above 0.4 also a clause that comes near
    one of the categories that are not there."""
    names = list(CATEGORIES)
    present = rng.sample(names, rng.between(1, 4))
    clauses = rng.sample(BOILERPLATE, 6 + int(18 * dial))
    for name in present:
        plain, paraphrases, _ = CATEGORIES[name]
        clauses.append(rng.choice(paraphrases) if rng.chance(dial) else plain)
    if dial > 0.4:
        clauses.append(CATEGORIES[rng.choice([n for n in names if n not in present])][2])
    context = "\n\n".join(f"{n}. {clause}" for n, clause in enumerate(rng.shuffled(clauses), 1))
    task = (
        f"The context is a contract. Which of these kinds of clause does it have: {', '.join(names)}? "
        "Answer one row a kind that is there, in one column, with the name as it stands here."
    )
    rows = tuple((name,) for name in names if name in present)
    return Example(
        "legal_clause_categories", task, Exact(rows), rating(dial), context, SQL.format(names=", ".join(names))
    )
