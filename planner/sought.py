"""What a statement looks for in texts, told from its literals: LIKE and regular expressions, contains and its kin, grep."""

from __future__ import annotations

import attrs
from sqlglot import exp

from kleene.planner.dialect import function_name

_PLAIN = frozenset(["contains", "strpos", "instr", "position", "array_position"])
_REGULAR = frozenset(["regexp_matches", "regexp_full_match", "regexp_extract", "regexp_extract_all", "grep"])
MOST = 20


@attrs.frozen
class Sought:
    """``kind``: ``text`` for the text itself, ``like`` for a pattern of LIKE, ``regexp`` for a regular expression."""

    kind: str
    text: str
    any_case: bool = False


def sought(tree: exp.Expr | None) -> tuple[Sought, ...]:
    """The patterns of a statement that stand in it as literals, in the order of its text, each once and at most 20.

    >>> from kleene.planner.statements import parse
    >>> sought(parse("SELECT * FROM t WHERE a ILIKE '%war%' AND contains(b, 'x')")[0].tree)
    (Sought(kind='like', text='%war%', any_case=True), Sought(kind='text', text='x', any_case=True))
    """
    found: dict[Sought, None] = {}
    for node in () if tree is None else tree.walk(bfs=False):
        if isinstance(node, exp.Like | exp.ILike):
            texts = _texts(node.expression)
            found.update(dict.fromkeys(Sought("like", t, isinstance(node, exp.ILike)) for t in texts))
        elif (name := function_name(node)) in _PLAIN | _REGULAR:
            texts = [t for argument in node.iter_expressions() for t in _texts(argument)]
            if texts and name in _PLAIN:
                found[Sought("text", texts[0], True)] = None
            elif texts:
                found[Sought("regexp", texts[0], name != "grep" and "i" in "".join(texts[1:]))] = None
    return tuple(found)[:MOST]


def _texts(node: exp.Expr | None) -> list[str]:
    """A text literal, or those of a list: ``LIKE ANY (...)``."""
    literals = [] if node is None else [node] if isinstance(node, exp.Literal) else [*node.find_all(exp.Literal)]
    return [str(literal.this) for literal in literals if literal.is_string]
