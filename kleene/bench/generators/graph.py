"""``graph``: the fewest hops from the first node of a directed graph to the last."""

from __future__ import annotations

from kleene.bench.generators.example import Example, rating
from kleene.bench.prng import Rng
from kleene.bench.verify import Exact

SQL = """\
WITH RECURSIVE edges AS (
    SELECT split_part(line, ' -> ', 1) AS a, split_part(line, ' -> ', 2) AS b
    FROM (SELECT unnest(string_split(text, chr(10))) AS line FROM ctx)
), reached(node, hops) AS (
    SELECT 'n1', 0
    UNION
    SELECT b, hops + 1 FROM reached JOIN edges ON a = node WHERE hops < {nodes}
)
SELECT coalesce(min(hops), -1) AS hops FROM reached WHERE node = 'n{nodes}'"""


def graph(dial: float, rng: Rng) -> Example:
    """5 to 20 nodes. Each step from a node to the next is there with p = 0.7, every other edge with 0.15 to 0.35 over the number of nodes times
    four, so that a path is often long and sometimes missing."""
    nodes = 5 + int(15 * dial)
    share = (0.15 + 0.2 * dial) * 4 / nodes
    edges = [
        (a, b)
        for a in range(1, nodes + 1)
        for b in range(1, nodes + 1)
        if a != b and rng.chance(0.7 if b == a + 1 else share)
    ] or [(2, 1)]
    text = "\n".join(f"n{a} -> n{b}" for a, b in rng.shuffled(edges))
    task = (
        f"Each line of the context is an edge of a directed graph. How many edges has the shortest path from n1 to n{nodes}? "
        "Answer one number; -1 if there is no path."
    )
    verify = Exact(((_hops(nodes, edges),),))
    return Example("graph_path", task, verify, rating(dial), text, SQL.format(nodes=nodes))


def _hops(nodes: int, edges: list[tuple[int, int]]) -> int:
    reached, front, hops = {1}, {1}, 0
    while front and nodes not in reached:
        front = {b for a, b in edges if a in front} - reached
        reached |= front
        hops += 1
    return hops if nodes in reached else -1
