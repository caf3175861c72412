"""Which expressions may give another value when they are evaluated again: what a guard may copy and what a fixed point may rest on."""

from __future__ import annotations

from sqlglot import exp

from kleene.planner.calls import holds, nodes
from kleene.planner.dialect import function_name

# Evaluated once per statement by the planner and replaced by a literal (rule ``freeze``).
CLOCK = frozenset(
    [
        "now",
        "current_timestamp",
        "transaction_timestamp",
        "get_current_timestamp",
        "today",
        "current_date",
        "get_current_date",
        "current_time",
        "get_current_time",
        "localtime",
        "localtimestamp",
        "current_localtime",
        "current_localtimestamp",
    ]
)
# VOLATILE in duckdb_functions(), and what depends on more than its arguments.
VOLATILE = frozenset(
    [
        "random",
        "uuid",
        "gen_random_uuid",
        "uuidv4",
        "uuidv7",
        "nextval",
        "currval",
        "setseed",
        "current_query",
        "current_query_id",
        "current_connection_id",
        "current_transaction_id",
        "txid_current",
        "stats",
        "sleep_ms",
        "write_log",
        "getvariable",
    ]
)
EFFECTS = frozenset(["nextval", "setseed", "write_log"])
# Aggregates whose value depends on the order in which rows arrive, unless they are given an ORDER BY.
ORDER_SENSITIVE = frozenset(
    [
        "string_agg",
        "group_concat",
        "listagg",
        "list",
        "array_agg",
        "first",
        "last",
        "any_value",
        "arbitrary",
        "arg_max",
        "arg_min",
        "argmax",
        "argmin",
        "max_by",
        "min_by",
        "mode",
        "approx_quantile",
        "approx_top_k",
        "reservoir_quantile",
        "approx_count_distinct",
        "fsum",
        "sum_no_overflow",
        "kahan_sum",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "avg",
        "favg",
        "mean",
        "sum",
        "corr",
        "covar_pop",
        "covar_samp",
        "regr_slope",
        "regr_intercept",
        "regr_r2",
        "entropy",
        "kurtosis",
        "skewness",
    ]
)


def is_clock(node: exp.Expr) -> bool:
    return function_name(node) in CLOCK


def is_volatile(node: exp.Expr) -> bool:
    """This node alone changes from evaluation to evaluation."""
    if isinstance(node, exp.TableSample):
        return True
    name = function_name(node)
    if name == "age" and len(list(node.iter_expressions())) == 1:
        return True
    return name in VOLATILE


def has_effect(node: exp.Expr) -> bool:
    """Evaluating this node changes something: a statement that holds it must run exactly once."""
    return function_name(node) in EFFECTS


def any_volatile(node: exp.Expr | None) -> bool:
    return node is not None and any(is_volatile(n) for n in nodes(node))


def is_suspicious(node: exp.Expr) -> bool:
    """This node may give another value in another run of the same text (thread timing), though nothing in it is random."""
    if isinstance(node, exp.Limit | exp.Fetch):
        return True
    if isinstance(node, exp.Window):
        return True
    name = function_name(node)
    return name in ORDER_SENSITIVE and not holds(node, exp.Order)


def copyable(node: exp.Expr) -> bool:
    """A guard may hold a second copy of this expression: no volatile part, no query (it would run twice), no window."""
    return not any(is_volatile(inner) or isinstance(inner, (exp.Query, exp.Window)) for inner in nodes(node))
