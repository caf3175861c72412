"""Statements with calls on generated data, each with its true rows and the least number of calls that find them.

A table's texts end in facts in brackets (``[sea: yes; country: Peru]``) that stand for what a reader would understand. The model of the
benches (``reply``) answers a question from the facts of the texts it is shown; the truth is plain SQL over the same facts in columns of
their own, which the CallSQL statements never read. All data comes from arithmetic on row numbers, so that it is the same everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import attrs

FILL = (
    "It was written down after a long visit, with remarks on the streets, the harbour, the food and the weather, "
    "and was sent in by a reader who asks to be kept informed."
)
BASE = f"""
    CREATE MACRO draw(i, what, n) AS md5_number_lower(what || i) % n;
    CREATE MACRO pick(i, what, names) AS names[1 + (draw(i, what, len(names)))::BIGINT];
    CREATE MACRO told(head, facts) AS head || '. {FILL} [' || facts || ']';
"""
COUNTRIES = "['Norway', 'Peru', 'Egypt', 'Ghana', 'India', 'Japan', 'Italy', 'France', 'Austria', 'Sweden']"
TOPICS = "['battery', 'screen', 'price', 'shipping', 'camera', 'noise', 'heat', 'design', 'support', 'weight']"


@attrs.frozen
class Workload:
    """One statement. ``setup`` makes its tables (after ``BASE``), ``functions`` are CallSQL definitions, ``truth`` is plain SQL.

    ``least`` is the fewest calls by which an expert who knows the data's pass rates finds the rows; ``about`` says that it is an
    expectation. ``goal`` is the most that Kleene may make, ``asks`` what it makes today. ``some`` rows of the truth are a right answer
    where it is not None (LIMIT without ORDER BY). ``naive``: worth running with all rules off. Where the figure hangs on luck it is
    the sum over ``trials`` tables of other draws.
    """

    name: str
    title: str
    setup: str
    sql: str
    truth: str
    least: int
    asks: int
    goal: int | None = None
    about: bool = False
    functions: tuple[str, ...] = ()
    some: int | None = None
    ordered: bool = False
    naive: bool = True
    trials: int = 1

    def at(self, trial: int) -> Workload:
        """The statement on the data of one trial: ``$trial`` in the setup is its number."""
        return attrs.evolve(self, setup=self.setup.replace("$trial", str(trial)))

    def right(self, rows: list[tuple[object, ...]], true: list[tuple[object, ...]]) -> bool:
        """Whether the rows are a right answer: the true ones as a multiset, in order, or so many of them."""
        if self.ordered:
            return rows == true
        if self.some is not None:
            return len(rows) == min(self.some, len(true)) and set(rows) <= set(true) and len(set(rows)) == len(rows)
        return sorted(map(repr, rows)) == sorted(map(repr, true))


# -- the model -----------------------------------------------------------------------------------------------------------------------------


def fact(name: str, text: str) -> list[str]:
    """All values of a fact in a text, in order.

    >>> fact("sea", "a [sea: yes; quality: 3] and b [sea: no]")
    ['yes', 'no']
    """
    return re.findall(rf"[\[ ]{name}: ([^;\]]*)[;\]]", text)


def yes(condition: bool) -> str:
    return "true" if condition else "false"


QUESTIONS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("lies by the sea", lambda t: yes(fact("sea", t) == ["yes"])),
    ("is worth a detour", lambda t: yes(fact("detour", t) == ["yes"])),
    ("Name the country", lambda t: fact("country", t)[0]),
    ("speak of the same event", lambda t: yes(len(set(fact("event", t))) == 1)),
    ("refutes the claim", lambda t: yes(fact("claim", t) == fact("refutes", t))),
    ("is a claim of fact", lambda t: yes(fact("checkable", t) == ["yes"])),
    ("How good", lambda t: str(int(fact("quality", t)[0]) / 100)),
    ("which topics", lambda t: "topics: " + ", ".join(sorted(set(fact("topic", t))))),
    ("leads straight to", lambda t: yes(fact("next", t)[0] == fact("place", t)[1])),
    ("place in the text is good", lambda t: yes(int(fact("quality", t)[0]) >= 50)),
    ("Vary the idea", lambda t: json.dumps([f"{fact('idea', t)[0]}-{n}" for n in range(1, 5)])),
    ("supports the claim", lambda t: yes(fact("claim", t) == fact("supports", t))),
)


def reply(prompt: str) -> str:
    """The true answer to a prompt of any of the workloads."""
    for words, answer in QUESTIONS:
        if words in prompt:
            return answer(prompt)
    raise ValueError(f"no rule answers {prompt[:80]!r}")


# -- the seven workloads -------------------------------------------------------------------------------------------------------------------

SEA = "The place in the text lies by the sea. Text: "
PLACES = f"""
    CREATE TABLE facts AS SELECT i AS n, draw(i, 'sea$trial', 3) = 0 AS sea, pick(i, 'country', {COUNTRIES}) AS country,
        draw(i, 'quality', 101)::INT AS quality FROM range({{rows}}) r(i);
    CREATE TABLE texts AS SELECT *, told('Report ' || n || ' on a town',
        'sea: ' || if(sea, 'yes', 'no') || '; country: ' || country || '; quality: ' || quality) AS txt FROM facts;
"""
DISTINCT_PLACES = PLACES + "CREATE TABLE t AS SELECT n AS id, * FROM texts;"

W1 = Workload(
    "W1",
    "filter: 1,000 rows, 200 distinct texts",
    PLACES.format(rows=200)
    + """CREATE TABLE t AS SELECT i AS id, texts.* FROM range(1000) r(i)
         JOIN texts ON n = if(i < 200, i, draw(i, 'again', 200)) ORDER BY draw(i, 'order', 100000), i;""",
    f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt)",
    "SELECT id FROM t WHERE sea",
    least=200,
    asks=200,
)
W2 = Workload(
    "W2",
    "filter, cheap predicate written last: keeps 100 of 1,000",
    DISTINCT_PLACES.format(rows=1000) + "ALTER TABLE t ADD price INT; UPDATE t SET price = (id * 37) % 1000;",
    f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) AND price < 100",
    "SELECT id FROM t WHERE sea AND price < 100",
    least=100,
    asks=100,
)
W3 = Workload(
    "W3",
    "extraction: 500 rows",
    DISTINCT_PLACES.format(rows=500),
    "SELECT id, llm('Name the country of the place in the text. Text: ' || txt) FROM t",
    "SELECT id, country FROM t",
    least=500,
    asks=500,
)
W4 = Workload(
    "W4",
    "join: 30 x 30, an equality keeps 90 of 900 pairs",
    """CREATE TABLE l AS SELECT i AS id, i % 10 AS grp, draw(i, 'left', 3) AS event,
           told('Left ' || i, 'event: e' || draw(i, 'left', 3)) AS txt FROM range(30) r(i);
       CREATE TABLE r AS SELECT i AS id, i % 10 AS grp, draw(i, 'right', 3) AS event,
           told('Right ' || i, 'event: e' || draw(i, 'right', 3)) AS txt FROM range(30) r(i);""",
    "SELECT l.id, r.id FROM l JOIN r ON llm_bool('Both texts speak of the same event. A: ' || l.txt || ' B: ' || r.txt) "
    "AND l.grp = r.grp",
    "SELECT l.id, r.id FROM l JOIN r ON l.event = r.event AND l.grp = r.grp",
    least=90,
    asks=90,
)
# 8 claims are refuted by none of their 20 counterexamples, 13 by the second, 16 by the third, 3 by the fourth, and by some later ones:
# asked in their order, one at a time, 8 x 20 + 13 x 2 + 16 x 3 + 3 x 4 = 246 calls; the windows 1, 1, 1, 2 ask 3 more.
CLAIMS = """
    CREATE TABLE c AS SELECT i AS cid, if(i % 5 = 4, NULL, CASE WHEN i - i // 5 IN (6, 14, 28) THEN 4 WHEN (i - i // 5) % 2 = 0 THEN 2
        ELSE 3 END) AS hit, i % 4 <> 3 AS checkable,
        told('Claim ' || i, 'claim: c' || i || '; checkable: ' || if(i % 4 <> 3, 'yes', 'no')) AS claim FROM range(40) r(i);
    CREATE TABLE x AS SELECT cid * 20 + pos AS xid, cid, pos, coalesce(pos = hit OR pos > hit AND draw(cid * 20 + pos, 'hit', 10) < 3, false)
        AS refutes, told('Counterexample ' || xid, 'refutes: ' || if(refutes, 'c' || cid, 'none')) AS counter
        FROM c, range(1, 21) r(pos) ORDER BY cid, pos;
"""
REFUTED = "llm_bool('The counterexample refutes the claim. Claim: ' || c.claim || ' Counterexample: ' || x.counter)"
W5 = Workload(
    "W5",
    "anti-join: 40 claims x 20 counterexamples, 8 stand",
    CLAIMS,
    f"SELECT c.cid FROM c WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid AND {REFUTED})",
    "SELECT cid FROM c WHERE hit IS NULL",
    least=246,
    asks=249,
    goal=249,
)
W6 = Workload(
    "W6",
    "top 5 of 100 by a score",
    """CREATE TABLE t AS SELECT i AS id, (i * 37 + 11) % 101 AS quality,
           told('Report ' || i, 'quality: ' || (i * 37 + 11) % 101) AS txt FROM range(100) r(i);""",
    "SELECT id FROM t ORDER BY llm_score('How good is the place in the text? Text: ' || txt) DESC LIMIT 5",
    "SELECT id FROM t ORDER BY quality DESC LIMIT 5",
    least=100,
    asks=100,
    ordered=True,
)
W7 = Workload(
    "W7",
    "aggregation over 200 texts",
    f"""CREATE TABLE t AS SELECT i AS id, if(i < 10, ({TOPICS})[i + 1], pick(i, 'topic', {TOPICS})) AS topic,
            told('Review ' || i, 'topic: ' || topic) AS txt FROM range(200) r(i);""",
    "SELECT llm_agg('Say which topics the texts mention', txt ORDER BY id) FROM t",
    "SELECT 'topics: ' || string_agg(DISTINCT topic, ', ' ORDER BY topic) FROM t",
    least=1,
    asks=1,
)
SEVEN = (W1, W2, W3, W4, W5, W6, W7)

# -- more shapes ---------------------------------------------------------------------------------------------------------------------------

THREE = """
    CREATE TABLE papers AS SELECT i AS id, draw(i, 'sea', 2) = 0 AS sea, told('Paper ' || i, 'sea: ' || if(sea, 'yes', 'no')) AS txt
        FROM range(20) r(i);
    CREATE TABLE claims AS SELECT i AS id, i AS paper, told('Claim ' || i, 'claim: c' || i) AS txt FROM range(20) r(i);
    CREATE TABLE evidence AS SELECT i AS id, i AS claim, draw(i, 'supports', 2) = 0 AS supports,
        told('Evidence ' || i, 'supports: ' || if(supports, 'c' || i, 'none')) AS txt FROM range(20) r(i);
"""
SUPPORTED = "llm_bool('The evidence supports the claim. Claim: ' || c.txt || ' Evidence: ' || e.txt)"
HALF = """
    CREATE TABLE t AS SELECT i AS id, draw(i, 'sea$trial', 2) = 0 AS sea, told('Report ' || i, 'sea: ' || if(sea, 'yes', 'no')) AS txt
        FROM range({rows}) r(i);
"""
TWO = """
    CREATE TABLE t AS SELECT i AS id, draw(i, 'sea', 3) = 0 AS sea, draw(i, 'detour', 20) = 0 AS detour,
        told('Report ' || i, 'sea: ' || if(sea, 'yes', 'no') || '; detour: ' || if(detour, 'yes', 'no')) AS txt FROM range(1000) r(i);
"""
ROADS = """
    CREATE TABLE edges AS SELECT i AS a, (i * 2 + s) % 25 AS b, draw(i * 100 + b, 'road', 3) <> 0 AS direct,
        told('Road from ' || a, 'next: ' || if(direct, 'p' || b, 'none')) AS txt, told('Town ' || b, 'place: p' || b) AS town
        FROM range(25) r(i), range(1, 4) q(s);
"""

SHAPES = (
    Workload(
        "three-way",
        "3 relations x 20 rows, two call predicates",
        THREE,
        f"SELECT p.id, e.id FROM papers p, claims c, evidence e WHERE {SUPPORTED} AND llm_bool('{SEA}' || p.txt) "
        "AND p.id = c.paper AND c.id = e.claim",
        "SELECT p.id, e.id FROM papers p, claims c, evidence e WHERE e.supports AND p.sea AND p.id = c.paper AND c.id = e.claim",
        least=27,
        asks=27,
        goal=60,
        about=True,
    ),
    Workload(
        "three-way-gate",
        "3 relations x 20 rows, one predicate gates pairs without an equality",
        THREE,
        f"SELECT p.id, c.id, e.id FROM papers p, claims c, evidence e WHERE {SUPPORTED} AND llm_bool('{SEA}' || p.txt) AND p.id = c.paper",
        "SELECT p.id, c.id, e.id FROM papers p, claims c, evidence e WHERE e.supports AND c.id = e.claim AND p.sea AND p.id = c.paper",
        least=160,
        asks=160,
    ),
    Workload(
        "limit-half",
        "LIMIT 5 of 100,000 rows, half pass",
        HALF.format(rows=100_000),
        f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) LIMIT 5",
        "SELECT id FROM t WHERE sea",
        least=14,
        asks=16,
        trials=1,
        goal=20,
        about=True,
        some=5,
        naive=False,
    ),
    Workload(
        "limit-third",
        "LIMIT 5 of 1,000 rows, a third passes",
        DISTINCT_PLACES.format(rows=1000),
        f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) LIMIT 5",
        "SELECT id FROM t WHERE sea",
        least=46,
        asks=51,
        trials=3,
        about=True,
        some=5,
    ),
    Workload(
        "exists-whole",
        "EXISTS over a whole table, a third passes",
        DISTINCT_PLACES.format(rows=1000),
        f"SELECT EXISTS (SELECT 1 FROM t WHERE llm_bool('{SEA}' || txt))",
        "SELECT true",
        least=9,
        asks=9,
        trials=3,
        about=True,
    ),
    Workload(
        "cheap-or-call",
        "cheap OR call, cheap holds for 100 of 1,000",
        DISTINCT_PLACES.format(rows=1000),
        f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) OR id % 10 = 0",
        "SELECT id FROM t WHERE sea OR id % 10 = 0",
        least=900,
        asks=900,
    ),
    Workload(
        "case",
        "CASE WHEN cheap THEN call, cheap holds for 100 of 1,000",
        DISTINCT_PLACES.format(rows=1000),
        f"SELECT id, CASE WHEN id % 10 = 0 THEN llm_bool('{SEA}' || txt) END FROM t",
        "SELECT id, CASE WHEN id % 10 = 0 THEN sea END FROM t",
        least=100,
        asks=100,
    ),
    Workload(
        "two-filters",
        "two call filters, 33 % written first, 5 % second",
        TWO,
        f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) AND llm_bool('The place in the text is worth a detour. Text: ' || txt)",
        "SELECT id FROM t WHERE sea AND detour",
        least=1045,
        asks=1055,
        goal=1070,
        about=True,
    ),
    Workload(
        "two-filters-best",
        "two call filters, 5 % written first, 33 % second",
        TWO,
        f"SELECT id FROM t WHERE llm_bool('The place in the text is worth a detour. Text: ' || txt) AND llm_bool('{SEA}' || txt)",
        "SELECT id FROM t WHERE sea AND detour",
        least=1045,
        asks=1055,
        about=True,
    ),
    Workload(
        "two-alternatives",
        "two call filters joined by OR, 5 % written first, 33 % second",
        TWO,
        f"SELECT id FROM t WHERE llm_bool('The place in the text is worth a detour. Text: ' || txt) OR llm_bool('{SEA}' || txt)",
        "SELECT id FROM t WHERE sea OR detour",
        least=1664,
        asks=1673,
        about=True,
    ),
    Workload(
        "two-filters-limit",
        "two call filters, 33 % written first, 5 % second, LIMIT 5",
        TWO,
        f"SELECT id FROM t WHERE llm_bool('{SEA}' || txt) AND llm_bool('The place in the text is worth a detour. Text: ' || txt) LIMIT 5",
        "SELECT id FROM t WHERE sea AND detour",
        least=388,
        asks=429,
        about=True,
        some=5,
    ),
    Workload(
        "select-and-where",
        "the same call in SELECT and WHERE",
        DISTINCT_PLACES.format(rows=1000),
        f"SELECT id, llm_bool('{SEA}' || txt) FROM t WHERE llm_bool('{SEA}' || txt)",
        "SELECT id, sea FROM t WHERE sea",
        least=1000,
        asks=1000,
    ),
    Workload(
        "exists-each",
        "EXISTS per row: 40 claims x 20 counterexamples",
        CLAIMS,
        f"SELECT c.cid FROM c WHERE EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid AND {REFUTED})",
        "SELECT cid FROM c WHERE hit IS NOT NULL",
        least=246,
        asks=249,
        goal=249,
    ),
    Workload(
        "not-in",
        "NOT IN per row: 40 claims x 20 counterexamples",
        CLAIMS,
        f"SELECT c.cid FROM c WHERE c.cid NOT IN (SELECT x.cid FROM x WHERE x.cid = c.cid AND {REFUTED})",
        "SELECT cid FROM c WHERE hit IS NULL",
        least=246,
        asks=249,
        goal=249,
    ),
    Workload(
        "not-exists-limit",
        "NOT EXISTS per row, LIMIT 2",
        CLAIMS,
        f"SELECT c.cid FROM c WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid AND {REFUTED}) LIMIT 2",
        "SELECT cid FROM c WHERE hit IS NULL",
        least=62,
        asks=63,
        about=True,
        some=2,
    ),
    Workload(
        "verify-refute",
        "a call filter, then NOT EXISTS over refuting counterexamples",
        CLAIMS,
        f"SELECT c.cid FROM c WHERE NOT EXISTS (SELECT 1 FROM x WHERE x.cid = c.cid AND {REFUTED}) "
        "AND llm_bool('The text is a claim of fact. Text: ' || c.claim)",
        "SELECT cid FROM c WHERE hit IS NULL AND checkable",
        least=222,
        asks=223,
        goal=223,
    ),
    Workload(
        "join-duplicates",
        "join 30 x 30, 10 distinct texts a side",
        """CREATE TABLE l AS SELECT i AS id, draw(i % 10, 'left', 3) AS event, told('Left', 'event: e' || event || '; n: ' || i % 10) AS txt
               FROM range(30) r(i);
           CREATE TABLE r AS SELECT i AS id, draw(i % 10, 'right', 3) AS event, told('Right', 'event: e' || event || '; n: ' || i % 10) AS txt
               FROM range(30) r(i);""",
        "SELECT l.id, r.id FROM l JOIN r ON llm_bool('Both texts speak of the same event. A: ' || l.txt || ' B: ' || r.txt)",
        "SELECT l.id, r.id FROM l JOIN r ON l.event = r.event",
        least=100,
        asks=100,
    ),
    Workload(
        "scalar-subquery",
        "scalar subquery with a call filter",
        DISTINCT_PLACES.format(rows=100),
        f"SELECT (SELECT count(*) FROM t WHERE llm_bool('{SEA}' || txt)) AS n",
        "SELECT count(*) FROM t WHERE sea",
        least=100,
        asks=100,
    ),
    Workload(
        "group-by-map",
        "GROUP BY a call, 1,000 rows",
        DISTINCT_PLACES.format(rows=1000),
        "SELECT llm('Name the country of the place in the text. Text: ' || txt) AS land, count(*) FROM t GROUP BY land",
        "SELECT country, count(*) FROM t GROUP BY country",
        least=1000,
        asks=1000,
    ),
    Workload(
        "cascade",
        "PROXY decides outside 0.2 to 0.8: 100 scores, 59 in the band",
        W6.setup,
        "SELECT id FROM t WHERE good(txt)",
        "SELECT id FROM t WHERE quality >= 50",
        least=159,
        asks=159,
        functions=(
            "CREATE FUNCTION score(x TEXT) RETURNS DOUBLE AS PROMPT 'How good is the place in the text? Text: {x}' MODEL 'proxy'",
            "CREATE FUNCTION good(x TEXT) RETURNS BOOLEAN AS PROMPT 'The place in the text is good. Text: {x}' "
            "PROXY score THRESHOLDS (0.2, 0.8)",
        ),
    ),
    Workload(
        "beam",
        "beam of 5 over expand x 4, 3 rounds from 10 seeds",
        "CREATE TABLE seeds AS SELECT 'idea ' || i AS idea FROM range(10) r(i);",
        """WITH RECURSIVE found(depth, idea) AS (
               SELECT 0, idea FROM seeds UNION ALL
               (SELECT depth + 1, e.item FROM found, LATERAL expand('Vary the idea [idea: ' || found.idea || ']', 4) e
                WHERE depth < 3 ORDER BY md5(e.item) LIMIT 5))
           SELECT depth, idea FROM found""",
        """WITH RECURSIVE found(depth, idea) AS (
               SELECT 0, idea FROM seeds UNION ALL
               (SELECT depth + 1, found.idea || '-' || n FROM found, range(1, 5) r(n)
                WHERE depth < 3 ORDER BY md5(found.idea || '-' || n) LIMIT 5))
           SELECT depth, idea FROM found""",
        least=20,
        asks=20,  # the term is run once more at depth 3, where nothing can come of it
        goal=20,
    ),
    Workload(
        "distinct-limit",
        "LIMIT 5 over DISTINCT over a call filter, a third passes",
        DISTINCT_PLACES.format(rows=200),
        f"SELECT DISTINCT id FROM t WHERE llm_bool('{SEA}' || txt) LIMIT 5",
        "SELECT id FROM t WHERE sea",
        least=15,
        asks=19,
        about=True,
        some=5,
    ),
    Workload(
        "union-limit",
        "LIMIT 5 over UNION ALL of call filters, a third passes",
        DISTINCT_PLACES.format(rows=200),
        f"SELECT id FROM t WHERE id < 50 AND llm_bool('{SEA}' || txt) UNION ALL "
        f"SELECT id FROM t WHERE id >= 50 AND llm_bool('{SEA}' || txt) LIMIT 5",
        "SELECT id FROM t WHERE sea",
        least=15,
        asks=19,
        about=True,
        some=5,
    ),
    Workload(
        "lateral-limit",
        "LIMIT 8 over LATERAL expand x 4 of 100 rows",
        "CREATE TABLE t AS SELECT i AS id, 'idea ' || i AS idea FROM range(100) r(i);",
        "SELECT e.item FROM t, LATERAL expand('Vary the idea [idea: ' || t.idea || ']', 4) e LIMIT 8",
        "SELECT t.idea || '-' || n FROM t, range(1, 5) r(n)",
        least=2,
        asks=2,
        about=True,
        some=8,
    ),
    Workload(
        "in-any",
        "IN over a call filter: 10 values, each with 20 rows that may give it",
        DISTINCT_PLACES.format(rows=200),
        f"SELECT g FROM range(10) r(g) WHERE g IN (SELECT id % 10 FROM t WHERE llm_bool('{SEA}' || txt))",
        "SELECT DISTINCT id % 10 FROM t WHERE sea",
        least=27,
        asks=27,
        about=True,
    ),
    Workload(
        "closure",
        "recursive closure: each edge out of a reached town once",
        ROADS,
        """WITH RECURSIVE reached(town) AS (
               SELECT 0 UNION
               SELECT e.b FROM reached JOIN edges e ON e.a = reached.town
               WHERE llm_bool('The road leads straight to the town. Road: ' || '[place: p' || e.a || '] ' || e.txt || ' Town: ' || e.town))
           SELECT town FROM reached""",
        """WITH RECURSIVE reached(town) AS (
               SELECT 0 UNION SELECT e.b FROM reached JOIN edges e ON e.a = reached.town WHERE e.direct)
           SELECT town FROM reached""",
        least=75,
        asks=75,
    ),
)
