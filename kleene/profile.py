"""DuckDB's profile of a run as a tree of operators in the terms of the statement: its calls in place of our lookups, its own names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import attrs
import duckdb

from kleene.planner.callplan import CallPlan, Formula

if TYPE_CHECKING:
    from kleene.connection import Connection

MOST_DETAIL = 100
JOINS = {"INNER": "⋈", "LEFT": "⟕", "RIGHT": "⟖", "OUTER": "⟗", "SEMI": "⋉", "ANTI": "▷", "MARK": "mark join"}
PASSED_ON = re.compile(
    r"#\d+|#\[[\d.]+\]|CAST\(#\d+ AS [A-Z0-9_(), ]+\)|__internal_(de)?compress_\w+\(#\d+(, [^)]*)?\)"
)
LOOKUP = re.compile(r"kleene_([a-z]+)\w*\('\d+:([sor]?)(\d+)'")
OURS = re.compile(r"\bkleene_\w+")
KEPT = re.compile(r"kleene_kept_\d+_(\d+)\w*")


@attrs.frozen
class Operator:
    """One operator of DuckDB's last run. ``rows`` are those it gave, ``seconds`` its own without those below it. ``sites`` are the call
    sites looked up in it."""

    name: str
    detail: str
    rows: int
    estimated_rows: int | None
    seconds: float
    sites: tuple[int, ...] = ()
    children: tuple[Operator, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[Operator, int]]:
        """The operator and all below it, each before its own, with depths."""
        yield self, depth
        for child in self.children:
            yield from child.walk(depth + 1)


class Profiling:
    """What DuckDB measured of the last run that ``take`` was called after."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self.text = ""

    @contextmanager
    def on(self) -> Iterator[None]:
        """Let DuckDB measure, without a word on the terminal; afterwards the user's own settings hold again."""
        con = self._connection.con
        names = ("enable_profiling", "profiling_coverage")
        before = {n: self._connection.rows(f"SELECT current_setting('{n}')")[0][0] for n in names}
        con.execute("SET enable_profiling = 'no_output'")
        con.execute("SET profiling_coverage = 'ALL'")
        try:
            yield
        finally:
            for name, value in before.items():
                with suppress(duckdb.Error):
                    con.execute(f"RESET {name}" if value is None else f"SET {name} = '{value}'")

    def take(self) -> None:
        """After a run of the statement, whichever it is: the last one counts."""
        with suppress(duckdb.Error):
            self.text = self._connection.con.get_profiling_information("json")


def read_profile(text: str, plan: CallPlan) -> tuple[Operator, ...]:
    """The operators of a profile, as DuckDB gives it in JSON; empty where it gives none."""
    if not text:
        return ()
    roots = json.loads(text).get("operator") or []
    named = plan.named_sites()
    found = [operator for root in roots for operator in _read(root, plan, named)]
    return tuple(found)


def _read(node: Mapping[str, Any], plan: CallPlan, named: Mapping[str, tuple[int, ...]]) -> list[Operator]:
    """The node as one operator, or what is below it where it only hands rows on."""
    children = tuple(o for child in node.get("children", ()) for o in _read(child, plan, named))
    kind = str(node.get("name", ""))
    extra = {str(k): v for k, v in (node.get("extra_info") or {}).items()}
    columns = _list(extra.get("Projections")) if kind == "PROJECTION" else []
    if columns:
        extra["Projections"] = [plan.site(named[c][0]).label if len(named.get(c, ())) == 1 else c for c in columns]
    name, detail = _said(kind, extra)
    looked_up = _sites_in(json.dumps(extra, ensure_ascii=False).replace('\\"', '"'), plan)
    sites = tuple(sorted({*looked_up, *(s for c in columns for s in named.get(c, ()))}))
    if kind == "RESULT_COLLECTOR" or (kind == "PROJECTION" and _only_passes(extra.get("Projections"))):
        return list(children)
    estimated = extra.get("Estimated Cardinality")
    return [
        Operator(
            name,
            _readable(detail, sites, plan),
            int(node.get("intermediate_rows") or 0),
            None if estimated is None else int(estimated),
            float(node.get("timing") or 0.0),
            sites,
            children,
        )
    ]


def _only_passes(projections: object) -> bool:
    return all(PASSED_ON.fullmatch(p) for p in _list(projections))


def _list(value: object) -> list[str]:
    if value is None or value == "":
        return []
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _said(kind: str, extra: Mapping[str, Any]) -> tuple[str, str]:
    """The name and the detail of an operator, the latter still with DuckDB's texts."""

    def of(key: str, between: str = ", ") -> str:
        return between.join(_list(extra.get(key)))

    if kind in ("SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN"):
        table = KEPT.sub(r"kept block \1", of("Table").rsplit(".", 1)[-1])
        filters = " AND ".join(f for f in _list(extra.get("Filters")) if not f.startswith("optional:"))
        return "scan", table + (f": {filters}" if filters else "")
    if kind == "FILTER":
        return "σ", of("Expression", " AND ")
    if kind == "PROJECTION":
        return "π", of("Projections")
    if kind == "CROSS_PRODUCT":
        return "×", ""
    if "JOIN" in kind:
        joined = of("Join Type").upper()
        symbol = JOINS.get(joined, f"⋈ {joined.lower()}".rstrip())
        return symbol, of("Conditions", " AND ")
    if "GROUP_BY" in kind or "AGGREGATE" in kind:
        groups = of("Groups")
        return "γ", " ".join(part for part in (f"[{groups}]" if groups else "", of("Aggregates")) if part)
    if kind == "TOP_N":
        return "top", f"{of('Top')} by {of('Order By')}"
    if kind == "ORDER_BY":
        return "sort", of("Order By")
    if kind.endswith("LIMIT"):
        return "limit", of("Limit")
    if kind == "UNION":
        return "∪", ""
    if kind in ("REC_CTE", "RECURSIVE_CTE", "REC_KEY_CTE"):
        return "μ", of("CTE Name")
    if kind == "CTE":
        named = of("CTE Name")
        return "with", "" if named.startswith("__duckdb") else named
    if kind in ("REC_CTE_SCAN", "CTE_SCAN", "RECURSIVE_CTE_SCAN"):
        return "scan", "round" if kind.startswith("REC") else "with"
    if kind == "WINDOW" or kind == "STREAMING_WINDOW":
        return "window", of("Projections")
    plain = {"DUMMY_SCAN": "one row", "EMPTY_RESULT": "no rows", "COLUMN_DATA_SCAN": "values"}
    return plain.get(kind, kind.lower().replace("_", " ").removeprefix("batch ").strip()), ""


# -- our functions in DuckDB's texts -----------------------------------------------------------------------------------------------------


def _sites_in(text: str, plan: CallPlan) -> tuple[int, ...]:
    """The call sites whose lookups stand in a text, in the order of the statement."""
    found: set[int] = set()
    for _, letter, number in LOOKUP.findall(text):
        if letter == "":
            found.add(int(number))
        elif letter == "o":
            route = next((r for r in plan.routes if r.number == int(number)), None)
            found.update(site for unit in (route.units if route else ()) for site in unit.sites)
    return tuple(sorted(n for n in found if n <= len(plan.sites)))


def _readable(text: str, sites: tuple[int, ...], plan: CallPlan) -> str:
    """The text with calls as the user wrote them; just these where our functions stand in it in other ways too."""
    said = _spelled(text, plan)
    if OURS.search(said):
        said = ", ".join(plan.site(n).label for n in sites)
    said = " ".join(said.split())
    return said if len(said) <= MOST_DETAIL else said[: MOST_DETAIL - 3] + "..."


def _spelled(text: str, plan: CallPlan) -> str:
    found = LOOKUP.search(text)
    if found is None:
        return text
    arguments, end = _arguments(text, text.index("(", found.start()))
    verb, letter, number = found[1], found[2], int(found[3])
    said: str | None = None
    if letter == "" and verb in ("get", "peek", "call", "row", "wave") and number <= len(plan.sites):
        ready = text.startswith("kleene_wave_ready", found.start())
        said = None if ready else plan.site(number).label
    elif letter == "s" and verb == "seen" and arguments:
        said = _spelled(arguments[-1].strip(), plan)
    elif letter == "o" and verb == "route":
        route = next((r for r in plan.routes if r.number == number), None)
        said = None if route is None else _condition(route.formula, lambda unit: route.units[unit].text)
    if said is None:
        said = text[found.start() : end]  # not to be said in the user's words: the caller sees that it is ours
        return text[: found.start()] + said + _spelled(text[end:], plan)
    return text[: found.start()] + said + _spelled(text[end:], plan)


def _condition(formula: Formula, text: Callable[[int], str]) -> str:
    if isinstance(formula, int):
        return text(formula)
    parts = [_condition(part, text) for part in formula[1]]
    return f" {formula[0].upper()} ".join(f"({p})" if " OR " in p and formula[0] == "and" else p for p in parts)


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments between the parenthesis at ``start`` and its other, and the place behind that."""
    depth, quoted, begin = 0, "", start + 1
    found: list[str] = []
    for i in range(start, len(text)):
        letter = text[i]
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
            if depth == 0:
                return [*found, text[begin:i]], i + 1
        elif letter == "," and depth == 1:
            found.append(text[begin:i])
            begin = i + 1
    return found, len(text)
