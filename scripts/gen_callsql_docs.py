#!/usr/bin/env python3
"""Writes the tables of docs/callsql.md (functions, settings, rules) from the code; with --check says whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path

from kleene.planner import rules
from kleene.planner.catalog import BUILTINS
from kleene.planner.declarations import RULES as DECLARED
from kleene.planner.settings import KEYS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "callsql.md"


def functions() -> str:
    lines = ["| Function | What it gives |", "|---|---|"]
    for spec in BUILTINS:
        lines.append(f"| `{spec.signature()}` | {spec.description} |".replace("||", "\\|\\|"))
    return "\n".join(lines)


def settings() -> str:
    lines = ["| Key | Default | What it does | A model may set it |", "|---|---|---|---|"]
    for key in KEYS:
        default = "unset" if key.default is None else {True: "on", False: "off"}.get(key.default, str(key.default))
        lines.append(f"| `{key.key}` | {default} | {key.description} | {'yes' if key.may_model_set else ''} |")
    lines.append("| `rules.NAME` | on | switch one rule of the planner off or on | yes |")
    return "\n".join(lines)


def rule_table() -> str:
    lines = ["| Rule | Law |", "|---|---|"]
    for rule in [*DECLARED, *rules.RULES]:
        doc = (sys.modules[rule.__module__].__doc__ or "").strip().splitlines()[0]
        lines.append(f"| `{rule.__name__}` | {doc.partition(': ')[2] or doc} |")
    return "\n".join(lines)


TABLES = {"functions": functions, "settings": settings, "rules": rule_table}


def page(text: str) -> str:
    """The page with the text between each pair of markers made anew."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}{make()}\n{end}{tail}"
    return text


def main() -> int:
    current = PAGE.read_text()
    made = page(current)
    if "--check" in sys.argv[1:]:
        if made != current:
            print("docs/callsql.md is stale: run scripts/gen_callsql_docs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
