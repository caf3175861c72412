"""Which template a call site is of, and which of its answers let a row pass: what ties a plan to what was learned before."""

from __future__ import annotations

import hashlib
import json

from sqlglot import exp

from kleene.planner.callplan import CallPlan, Site
from kleene.planner.calls import Call, all_in, unparen


def fingerprint(site: Site) -> str:
    """SHA-256 (hex) over what tells calls of one template from others: who answers, what is asked, and how the answer is read."""
    spec = site.spec
    body = [spec.function, site.asks, spec.alias, spec.answer.sql, spec.digest()]
    return hashlib.sha256(json.dumps(body, ensure_ascii=True).encode()).hexdigest()


def truth_of(condition: exp.Expr) -> tuple[int, bool] | None:
    """The site of a condition that is a call, and TRUE, or that is the negation of one, and FALSE; None for all others."""
    condition, truth = unparen(condition), True
    while isinstance(condition, exp.Not):
        condition, truth = unparen(condition.this), not truth
    return (condition.site, truth) if isinstance(condition, Call) else None


def wanted_truth(plan: CallPlan, number: int) -> bool | None:
    """Whether rows pass where a site's call is TRUE, or where it is FALSE; None where its places in the plan do not agree on either."""
    found: set[bool] = set()
    for call in all_in(plan.tree, Call):
        if call.site != number:
            continue
        node: exp.Expr = call
        truth = True
        while isinstance(node.parent, exp.Paren | exp.Not):
            node = node.parent
            truth = truth is not isinstance(node, exp.Not)
        if not isinstance(node.parent, exp.Is | exp.Binary) or isinstance(node.parent, exp.Connector):
            found.add(truth)  # else it is compared: in a guard's copy, or for its value
    return found.pop() if len(found) == 1 else None


__all__ = ["fingerprint", "truth_of", "wanted_truth"]
