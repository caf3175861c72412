"""``sat3``: a formula of three-literal clauses; can it be satisfied?"""

from __future__ import annotations

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Sat

# Every assignment as the bits of a number; one that leaves a clause without a true literal is out.
SQL = """\
WITH clauses AS (
    SELECT unnest(string_split(text, chr(10))) AS clause FROM ctx
), literals AS (
    SELECT clause, unnest(regexp_extract_all(clause, '(?:not )?x[0-9]+')) AS literal FROM clauses
), broken AS (
    SELECT a FROM range(CAST(2 ** {variables} AS BIGINT)) AS t(a), literals
    GROUP BY a, clause
    HAVING NOT bool_or((a >> (CAST(regexp_extract(literal, '[0-9]+') AS INTEGER) - 1)) & 1 = CASE WHEN literal LIKE 'not %' THEN 0 ELSE 1 END)
), found AS (
    SELECT min(a) AS a FROM range(CAST(2 ** {variables} AS BIGINT)) AS t(a) WHERE a NOT IN (SELECT a FROM broken)
)
SELECT CASE WHEN a IS NULL THEN 'UNSAT' ELSE 'SAT' END AS verdict,
    list_aggregate([CASE WHEN (a >> (v - 1)) & 1 = 1 THEN 'x' || v END FOR v IN range(1, {variables} + 1)], 'string_agg', ' ') AS assignment
FROM found"""


def sat3(dial: float, rng: Rng) -> Example:
    """4 to 12 variables; 3.0 to 4.6 clauses a variable, about 4.3 of which half of all formulas can be satisfied. Nothing is planted: the oracle
    tries every assignment."""
    variables = 4 + int(8 * dial)
    count = round(variables * (3.0 + 1.6 * dial))
    clauses = []
    for _ in range(count):
        chosen = sorted(rng.sample(range(1, variables + 1), 3))
        clauses.append(tuple(v if rng.chance(0.5) else -v for v in chosen))
    text = "\n".join(" or ".join(_written(literal) for literal in clause) for clause in clauses)
    task = (
        f"Each line of the context is a clause over the variables x1 to x{variables}, and all clauses must hold. Can they? Answer one row with the "
        "columns verdict ('SAT' or 'UNSAT') and assignment: where they can, the variables that are true, separated by blanks."
    )
    sql = SQL.format(variables=variables)
    return Example("sat3", task, Sat(variables, tuple(clauses)), rating(dial), text, sql)


def _written(literal: int) -> str:
    return f"x{literal}" if literal > 0 else f"not x{-literal}"
