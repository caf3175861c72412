"""The texts a session begins with: the system prefix and the first user message.

Both are made once a session from their arguments alone, so that equal sessions share a provider's prefix cache and a replay asks the same.
With the standard catalog the prefix is under 2,000 tokens (four characters each). Every line must change what a model does; what exists is
listed from the catalog, and paragraphs about tools, agents and children appear only where there are some.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kleene.planner.errors import number
from kleene.planner.identifiers import written
from kleene.planner.roles import ROLES
from kleene.planner.specs import BudgetLimits
from kleene.session.text import count, one_line, tokens
from kleene.session.world import CatalogView, FunctionView, TableView

CATALOG_CHARACTERS = 6_000
"""Tables beyond this much text are listed by name only."""

_WHO = """\
You answer a task by writing CallSQL: DuckDB SQL plus functions that call language models. Your SQL is run and you see its rows, turn after \
turn, until FINAL. You have {turns}.

# Your reply
A few words of plain text if they help, then one ```sql fence with the statements to run, separated by semicolons. Only that fence runs \
(```` if its SQL holds ```). Statements run in order; the first error stops the rest.
You see 20 rows of a result, or up to 100 that have 4,000 characters in all, and 200 characters a cell, more when rows are few: one row shows \
up to 4,000 characters of a cell, its beginning and its end, or what is around the text that LIKE, a regular expression or grep looked for. A reply shows some 20,000 characters in all. Text with line ends is shown as E'...'."""

_LANGUAGE = """\
# Language
All of DuckDB's SELECT (CTEs, windows, QUALIFY, lists, structs, lambdas, regexp_matches, regexp_extract_all, string_agg, dates), CREATE \
[OR REPLACE] TABLE t AS, CREATE VIEW, INSERT, UPDATE, DELETE, DROP. Your tables last for the session. {files}, other databases and DuckDB \
settings are out of reach.
- A call is an expression: SELECT id, llm('Summarise in ten words: ' || text) FROM mails WHERE length(text) > 500. It works in every clause. \
Plain conditions of the statement are applied first, calls run in parallel, and each distinct prompt is paid once ever: running it again is free.
- NULL in gives NULL without a call. An answer that cannot be read is NULL: neither true nor false; find it with IS NULL.
- Name a prompt you use on many rows; RETURNS takes any type, and BATCH n answers n rows with one call:
CREATE FUNCTION claim(body TEXT) RETURNS STRUCT(kind VARCHAR, amount DOUBLE) AS PROMPT 'What does this mail claim? {body}' BATCH 10;
SELECT id, c.kind, c.amount FROM (SELECT id, claim(text) AS c FROM mails); fields may be null: say so in the prompt.
- CREATE FUNCTION f(x TEXT) RETURNS TEXT AS SQL (SELECT upper(x)) makes a plain function."""

_EXPAND = "- Many items from one text: FROM mails m CROSS JOIN LATERAL expand('People named in: ' || m.text, 5) e, column e.item."
_AGG = "- One text from many rows: SELECT day, llm_agg('Summarise these notes', text ORDER BY ordinal) FROM notes GROUP BY day."

_CHILDREN = (
    "- What needs several steps of reading and judging goes to a child session, one a distinct row, with its own table ctx: FROM mails m "
    "CROSS JOIN LATERAL rlm('Which sums does he owe?', m.text) r, one row for each row of its FINAL: r.answer its first column, r.detail all of them as JSON "
    "(and why, where answer is NULL). rlm(question, (SELECT ...)) hands over rows, spawn('agent', task, context) asks an agent. "
    "A child takes several calls: where one prompt does, use llm."
)

_CHOICES = (
    "- EXPLAIN statement shows its calls, tokens and dollars, and calls nothing. A statement that would cost more than what is left is refused "
    "before anything is sent. SET budget.calls = n lowers your own limit; SET statement.calls = n caps one statement.\n"
    "- FINAL(expression) or FINAL FROM (query) ends the session with these rows as the answer: exactly what the task asks for and no more. It may "
    "follow a check in one reply: SELECT error('left over') FROM facts WHERE kind IS NULL stops what comes after it if there is such a row."
)

_READ_TOOLS = "- A read tool is a table function, free, used once a distinct argument: {example}."
_EXAMPLES = (
    ("read", "FROM files('**/*.md') f, LATERAL read(f.path) r, columns f.path, r.text"),
    ("", "SELECT * FROM {name}(...)"),
)
_EFFECT_TOOLS = "- A tool with effects runs once a row, only as a statement of its own: CALL {name}(...) [FROM query], or CREATE TABLE t AS CALL ... to keep its rows."

_OPTIONS = " [, model VARCHAR, effort VARCHAR]"
_OPTIONS_SAID = " (those of text also take model := 'alias', effort := 'low')"

_STRATEGY = """\
# How to work
Look first: count rows, sum(length(text)), the first rows; what is small is read whole. Locate, count, add and compare with plain SQL, which is \
free. What stands around a word: unnest(regexp_extract_all(text, '(?is).{0,80}(?:rent|lease).{0,80}')). Sentences made by a pattern: replace \
names and numbers, GROUP BY, read the distinct ones. A passage is read in slices under 4,000 characters, string_agg(text, chr(10) ORDER BY \
ordinal) AS t of a few rows, several such statements a turn. Map what remains with a model, typed results into a table, long texts in parts, on \
LIMIT 3 first; so too what many words could say, or none does: it costs less than to read on. Then aggregate with SQL, check what surprises you, \
FINAL.
A table plan(step, status), with todo, doing and done, is summed up after each turn."""


_TOLD = ("llm", "llm_agg", "expand", "rlm", "spawn")  # their use is shown above the list
_BESIDE = ("spawn_async", "await", "send", "inbox")
_KNOWN = {role.name: role.description for role in ROLES}


@attrs.frozen
class Standing:
    """Where a session stands: its turn cap, its level (0 is the root) of the deepest allowed, and the prompt of its role."""

    max_turns: int = 30
    depth: int = 0
    max_depth: int = 0
    role_prompt: str = ""


@attrs.frozen
class TableNote:
    """How a loaded table is described to the model. ``characters`` None: not counted, as for typed data."""

    name: str
    rows: int
    characters: int | None = None
    source: str = ""


def system_prefix(catalog: CatalogView, budget: BudgetLimits, standing: Standing = Standing()) -> str:
    """The system text of a session: the same for equal arguments."""
    return "\n\n".join(text for _, text in prefix_parts(catalog, budget, standing))


def prefix_parts(
    catalog: CatalogView, budget: BudgetLimits, standing: Standing = Standing()
) -> tuple[tuple[str, str], ...]:
    """The parts of the system text, each with a name: what ``scripts/prompt_report.py`` counts."""
    who = _WHO.format(turns=count(standing.max_turns, "turn"))
    if standing.depth:
        who += f"\nYou are a child session at depth {standing.depth} of {standing.max_depth}: your FINAL goes to the session that asked."
    parts = [
        ("who and how to reply", who),
        ("language", _language(catalog)),
        ("how to work", _STRATEGY),
        ("what there is", "# What there is\n" + catalog_text(catalog)),
        ("budget", budget_line(budget)),
    ]
    if standing.role_prompt:
        parts.append(("role", standing.role_prompt.strip()))
    return tuple(parts)


def _language(catalog: CatalogView) -> str:
    calls = {_bare(f) for f in (*catalog.model_calls, *catalog.sessions)}
    tools = [_bare(f) for f in catalog.read_tools]
    told = (("expand", _EXPAND), ("llm_agg", _AGG), ("rlm", _CHILDREN))
    files = "DuckDB's own file functions" if "read" in tools else "Files"
    lines = [_LANGUAGE.replace("{files}", files), *(line for name, line in told if name in calls)]
    if catalog.read_tools:
        example = next(text for name, text in _EXAMPLES if not name or name in tools)
        lines.append(_READ_TOOLS.format(example=example.format(name=tools[0])))
    if catalog.effect_tools:
        lines.append(_EFFECT_TOOLS.format(name=_bare(catalog.effect_tools[0])))
    lines.append(_CHOICES)
    return "\n".join(lines)


def task_message(task: str, note: str = "", *, check: str = "") -> str:
    """The first user message: the task, what is loaded, the finish check if there is one, and the ask for SQL."""
    parts = [f"Task: {task.strip()}"]
    if note.strip():
        parts.append(note.strip())
    if check:
        parts.append(f"FINAL is accepted only if this check passes: {check}")
    parts.append("Reply with SQL.")
    return "\n\n".join(parts)


def context_note(tables: Iterable[TableNote], notes: Iterable[str] = ()) -> str:
    """What is loaded: rows, characters and tokens of each table, and what the loader has to say.

    >>> print(context_note([TableNote("ctx", 1200, 90_000, "notes.txt")]))
    Loaded:
    - ctx: 1,200 rows, 90,000 characters, about 22,500 tokens, from notes.txt. One row a paragraph, in order; too long to read whole.
    """
    lines = [_table_note(t) for t in tables] + [f"- note: {one_line(n, 300)}" for n in notes]
    return "\n".join(["Loaded:", *lines]) if lines else ""


def catalog_text(catalog: CatalogView) -> str:
    """Tables with columns and rows, functions by group, agents. An empty group is left out; a long list of tables ends in names."""
    lines = _tables(catalog.tables)
    shared = any(_OPTIONS in f.signature for f in catalog.model_calls)
    beside = tuple(f for f in catalog.sessions if _bare(f) in _BESIDE)
    groups = (
        ("Model calls" + (_OPTIONS_SAID if shared else ""), catalog.model_calls),
        ("Child sessions (in FROM)", tuple(f for f in catalog.sessions if f not in beside)),
        ("Read tools (in FROM)", catalog.read_tools),
        ("Tools with effects (CALL)", catalog.effect_tools),
        ("Declared functions", catalog.declared),
    )
    for title, functions in groups:
        if functions:
            lines.append(f"{title}:")
            lines.extend(
                _described(f.signature.replace(_OPTIONS, ""), "" if _bare(f) in _TOLD else f.description)
                for f in functions
            )
        if beside and functions and functions[0] in catalog.sessions:
            lines.append(f"- {', '.join(map(_bare, beside))}: for children that run beside you (SHOW FUNCTIONS)")
    if catalog.agents:
        lines.append("Agents:")
        standard = [a.name for a in catalog.agents if _KNOWN.get(a.name) == a.description]
        lines.extend(_described(a.name, a.description) for a in catalog.agents if a.name not in standard)
        if standard:
            lines.append(f"- {', '.join(standard)}")
    return "\n".join(lines)


def budget_line(budget: BudgetLimits) -> str:
    """What the session may spend.

    >>> budget_line(BudgetLimits(calls=200, dollars=1.0)), budget_line(BudgetLimits())
    ('Budget: 200 calls, $1. Each of your turns is a call too.', 'Budget: no limit; be economical anyway.')
    """
    parts = [] if budget.calls is None else [count(budget.calls, "call")]
    if budget.tokens is not None:
        parts.append(count(budget.tokens, "token"))
    if budget.dollars is not None:
        parts.append(f"${number(round(budget.dollars, 6))}")
    if budget.wall is not None:
        parts.append(f"{number(round(budget.wall))} seconds")
    return (
        f"Budget: {', '.join(parts)}. Each of your turns is a call too."
        if parts
        else "Budget: no limit; be economical anyway."
    )


def _tables(tables: tuple[TableView, ...]) -> list[str]:
    if not tables:
        return ["Tables: none yet."]
    ordered = sorted(tables, key=lambda t: (t.name != "ctx", t.name))
    lines, used, names = ["Tables:"], 0, list[str]()
    for table in ordered:
        line = _table(table)
        if names or used + len(line) > CATALOG_CHARACTERS:
            names.append(written(table.name))
        else:
            lines.append(line)
            used += len(line)
    if names:
        lines.append(
            f"- and {count(len(names), 'more table')} (DESCRIBE shows columns): {one_line(', '.join(names), CATALOG_CHARACTERS // 2)}"
        )
    return lines


def _table(table: TableView) -> str:
    columns = ", ".join(f"{written(c.name)} {c.type}" for c in table.columns)
    rows = "" if table.rows is None else f": {count(table.rows, 'row')}"
    return one_line(f"- {written(table.name)}({columns}){rows}", 1_500)


def _table_note(table: TableNote) -> str:
    parts = [count(table.rows, "row")]
    if table.characters is not None:
        parts.append(count(table.characters, "character"))
        parts.append(f"about {count(tokens(table.characters), 'token')}")
    if table.source:
        parts.append(f"from {table.source}")
    line = f"- {table.name}: {', '.join(parts)}."
    if table.characters is None or not table.rows:
        return line
    slices = -(-table.characters // 4_000)
    if slices <= 3:
        reading = "short enough to read whole"
    elif slices <= 10:
        reading = f"{slices} slices of 4,000 characters, several a turn, show it whole"
    else:
        reading = "too long to read whole"
    return f"{line} One row a paragraph, in order; {reading}."


def _described(name: str, description: str) -> str:
    return f"- {name}: {one_line(description, 100)}" if description else f"- {name}"


def _bare(function: FunctionView) -> str:
    return function.signature.partition("(")[0]
