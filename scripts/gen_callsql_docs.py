#!/usr/bin/env python3
"""Writes what docs/callsql.md (functions, settings, rules, errors) and docs/planner.md (the laws) say from the code.

With --check says whether they are current.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from kleene.cli.exits import BY_ERROR, Exit
from kleene.planner import errors as error_tree
from kleene.planner import rules
from kleene.planner.callplan import Rule
from kleene.planner.catalog import BUILTINS
from kleene.planner.declarations import RULES as DECLARED
from kleene.planner.errors import KleeneError
from kleene.planner.settings import KEYS

DOCS = Path(__file__).resolve().parent.parent / "docs"


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
    for rule in [*DECLARED, *rules.RULES, *rules.LATE]:
        lines.append(f"| [`{rule.__name__}`](planner.md#{rule.__name__}) | {_summary(_doc(rule))} |")
    return "\n".join(lines)


def errors() -> str:
    """One row an error, from the tree in the docstring of ``kleene.planner.errors``."""
    lines = ["| Error | Raised where | Also a | Exit code |", "|---|---|---|---|"]
    tree = re.findall(r"[├└]── (\w+)\s+(.+)", inspect.getdoc(error_tree) or "")
    for name, when in [("KleeneError", "the root: `message`, `hint`, `span`; `render()` has all three"), *tree]:
        kind = getattr(error_tree, name)
        more = [b.__name__ for b in kind.__mro__ if issubclass(b, Exception) and b.__module__ == "builtins"]
        also = [n for n in more if n not in ("Exception", "BaseException", "OSError")]
        lines.append(f"| `{name}` | {when} | {', '.join(f'`{n}`' for n in also)} | {_code(kind)} |")
    return "\n".join(lines)


def _code(kind: type[KleeneError]) -> str:
    # On the command line a wrong configuration is a wrong use of it.
    known = next((code for error, code in BY_ERROR if issubclass(kind, error)), None)
    if known is None and kind.__name__ == "ConfigError":
        known = Exit.USAGE
    return str(int(Exit.FAILED if known is None else known))


def laws() -> str:
    """Every rule in its order: what its module says, the law set apart."""
    parts = []
    for rule in [*DECLARED, *rules.RULES, *rules.LATE]:
        doc = _doc(rule)
        body = doc.partition("\n")[2].strip("\n")
        summary = _summary(doc)
        parts.append(f"### {rule.__name__}\n\n{summary[:1].upper()}{summary[1:]}\n\n{_fenced(body)}")
    return "\n\n".join(parts)


def _doc(rule: Rule) -> str:
    return inspect.getdoc(sys.modules[rule.__module__]) or ""


def _summary(doc: str) -> str:
    first = doc.splitlines()[0]
    return first.partition(": ")[2] or first


def _fenced(text: str) -> str:
    """Indented paragraphs become fenced blocks, double backticks single ones."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("    "):
            found.append("```text\n" + "\n".join(line[4:] for line in paragraph.splitlines()) + "\n```")
        else:
            found.append(paragraph.replace("``", "`"))
    return "\n\n".join(found)


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "callsql.md": {"functions": functions, "settings": settings, "rules": rule_table, "errors": errors},
    "planner.md": {"laws": laws},
}


def page(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with the text between each pair of markers made anew."""
    for name, make in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}{make()}\n{end}{tail}"
    return text


def main() -> int:
    stale = []
    for name, tables in PAGES.items():
        current = (DOCS / name).read_text(encoding="utf-8")
        made = page(current, tables)
        if made != current and "--check" in sys.argv[1:]:
            stale.append(f"docs/{name}")
        elif made != current:
            (DOCS / name).write_text(made, encoding="utf-8")
    if stale:
        print(f"{' and '.join(stale)} stale: run scripts/gen_callsql_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
