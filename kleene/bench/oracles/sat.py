"""``sat``: SAT needs an assignment under which every clause holds, UNSAT must be true."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kleene.bench.oracles.answer import Answer, Verdict
from kleene.bench.verify import Sat


def sat(verify: Sat, answer: Answer) -> Verdict:
    """The column ``verdict`` (else the first) and the column ``assignment`` (else the second): names of the variables that are true, between
    blanks or commas, with or without an x; one with a minus is false, as is what is not named."""
    said = str(answer.cell("verdict")).strip().upper()
    if said == "UNSAT":
        there_is = satisfiable(verify.variables, verify.clauses)
        return Verdict(not there_is, "it can be satisfied" if there_is else "")
    if said != "SAT":
        return Verdict(False, f"the verdict is {said[:20]!r}, not SAT or UNSAT")
    true: set[int] = set()
    false: set[int] = set()
    for name in re.split(r"[\s,]+", str(answer.cell("assignment", 1) or "").strip()):
        found = re.fullmatch(r"(-?)[xX]?([0-9]{1,4})", name)
        if name and (found is None or not 0 < int(found[2]) <= verify.variables):
            return Verdict(False, f"the assignment names {name[:20]!r}, which is no variable")
        if found:
            (false if found[1] else true).add(int(found[2]))
    if both := true & false:
        return Verdict(False, f"x{min(both)} is both true and false")
    for clause in verify.clauses:
        if not any((abs(literal) in true) == (literal > 0) for literal in clause):
            return Verdict(False, f"the clause {' or '.join(map(str, clause))} does not hold")
    return Verdict(True)


def satisfiable(variables: int, clauses: Sequence[Sequence[int]]) -> bool:
    """Whether an assignment exists, found by trying all 2^n at once: bit a of a number says whether assignment a satisfies what is left.

    >>> satisfiable(1, [[1], [-1]]), satisfiable(2, [[1, 2], [-1]])
    (False, True)
    """
    everything = (1 << (1 << variables)) - 1
    truth = [_column(v, variables) for v in range(variables)]
    left = everything
    for clause in clauses:
        holds = 0
        for literal in clause:
            column = truth[abs(literal) - 1]
            holds |= column if literal > 0 else everything ^ column
        left &= holds
    return left != 0


def _column(variable: int, variables: int) -> int:
    """The assignments in which a variable is true: 2^v zeros, then 2^v ones, doubled until there are 2^n bits."""
    width = 1 << variable
    bits = ((1 << width) - 1) << width
    for doubling in range(variable + 1, variables):
        bits |= bits << (1 << doubling)
    return bits
