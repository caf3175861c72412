"""``puzzle``: the sum of those numbers of a list that a divisor divides."""

from __future__ import annotations

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Exact

SQL = """\
SELECT coalesce(sum(n), 0) AS total
FROM (SELECT unnest(CAST(string_split(text, ', ') AS BIGINT[])) AS n FROM ctx)
WHERE n % {divisor} = 0"""


def puzzle(dial: float, rng: Rng) -> Example:
    """8 to 48 numbers from 1 to 99, and a divisor from 2 to 8."""
    count = 8 + int(40 * dial)
    divisor = 2 + rng.below(2 + int(5 * dial))
    numbers = [rng.between(1, 99) for _ in range(count)]
    total = sum(n for n in numbers if n % divisor == 0)
    task = f"What is the sum of those numbers of the context that {divisor} divides? Answer one number."
    text = ", ".join(map(str, numbers))
    return Example(
        "puzzle_divisible_sum", task, Exact(((total,),)), rating(0.6 * dial), text, SQL.format(divisor=divisor)
    )
