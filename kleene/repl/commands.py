"""What begins with a backslash or a slash: one table of names, usage and what each does. Both signs mean the same."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from kleene.cli.exits import UsageError
from kleene.cli.runs import QUERY as RUNS
from kleene.planner.errors import Cancelled, did_you_mean
from kleene.rendering.rows import text_table
from kleene.rendering.table import visible
from kleene.repl.shell import Shell
from kleene.repl.suggest import Word

RUN_TURNS = 30
TABLES = """\
SELECT table_name AS name, CASE WHEN temporary THEN 'temporary table' ELSE 'table' END AS kind, column_count AS columns,
    estimated_size AS rows, schema_name AS schema
FROM duckdb_tables() WHERE NOT internal AND database_name IN (current_database(), 'temp')
UNION ALL
SELECT view_name, CASE WHEN temporary THEN 'temporary view' ELSE 'view' END, column_count, NULL, schema_name
FROM duckdb_views() WHERE NOT internal AND database_name IN (current_database(), 'temp') AND NOT starts_with(view_name, 'kleene_')
ORDER BY schema, name"""
CALLS = """\
SELECT model, CASE WHEN error IS NOT NULL THEN 'failed' WHEN memo_hit THEN 'memo' ELSE kind END AS kind, input_tokens + output_tokens AS tokens,
    round(dollars, 6) AS dollars, round(epoch(finished_at - started_at), 2) AS s, prompt, coalesce(error, reply) AS reply
FROM trace_calls WHERE statement = '{}' ORDER BY started_at, site"""
STATEMENTS = """\
SELECT started_at, rows, calls, memo_hits AS memo, unknown, tokens, dollars, error, sql
FROM trace_statements ORDER BY started_at DESC LIMIT 20"""


@attrs.frozen
class ShellCommand:
    """``names``: the first is shown; ``usage`` is what follows it; ``takes`` is what completion offers there."""

    names: tuple[str, ...]
    usage: str
    summary: str
    run: Callable[[Shell, str], None]
    takes: str = ""


def run_command(shell: Shell, text: str) -> None:
    """Run a command. Raises ``UsageError`` where there is none of its name, and whatever the command raises."""
    word, _, rest = text.partition(" ") if " " in text.split("\n")[0] else text.partition("\n")
    name = word[1:] if word[:1] in ("\\", "/") else word.rstrip(";")
    # A trailing semicolon is a habit, and part of nothing that a command takes but SQL, which does not mind.
    command = find(name.rstrip(";"))
    if command is None:
        near = did_you_mean(name, [n for c in COMMANDS for n in c.names])
        raise UsageError(f"there is no command {word}", hint=f"did you mean \\{near}?" if near else r"\? lists them")
    command.run(shell, rest.strip())


def find(name: str) -> ShellCommand | None:
    return next((c for c in COMMANDS if name in c.names or name.lower() in c.names), None)


def words() -> tuple[Word, ...]:
    """The commands as completion sees them."""
    return tuple(
        Word(name, c.takes, c.summary) for c in COMMANDS for name in c.names if len(name) > 1 or name == c.names[0]
    )


def switch(text: str, now: bool) -> bool:
    """on or off; nothing turns the other way."""
    word = text.rstrip(";").lower()
    if word not in ("", "on", "off"):
        raise UsageError(f"on or off is expected, not {text}")
    return not now if not word else word == "on"


def show_query(shell: Shell, text: str) -> None:
    """Run a query of the prompt's own. It makes no call, so that nothing is asked."""
    result = shell.watched(shell.tally(), lambda engine: engine.sql(text))
    shell.output.write(result)


# -- one function a command


def show_help(shell: Shell, rest: str) -> None:
    """The commands in two columns that fit 80."""
    entries = [("\\" + " ".join(filter(None, (", \\".join(c.names[:2]), c.usage))), c.summary) for c in COMMANDS]
    left = max(len(usage) for usage, _ in entries) + 2
    out = shell.inv.terminal.out
    out.write("Statements run at ; and Enter. Commands are one line; / may stand for \\.\n")
    out.writelines(f"  {usage:<{left}}{summary}\n" for usage, summary in entries)
    out.write("\\run takes --context FILE, --data FILE, --table NAME, --max-turns N, --from RUN\n")
    out.write("Tab completes · Alt-Enter new line · Ctrl-R search · Ctrl-C cancel · Ctrl-D end\n")
    out.flush()


def describe(shell: Shell, rest: str) -> None:
    name = rest.rstrip("; ")
    show_query(shell, f"DESCRIBE {name}" if name else TABLES)


KINDS = ("built in", "session", "tool")
"""Of functions that come with Kleene, in the order in which they are listed; the user's own stand before them."""


def functions(shell: Shell, rest: str) -> None:
    """How each is called and what for. A file, or a pipe, gets all that SHOW FUNCTIONS knows of them."""
    result = shell.watched(shell.tally(), lambda engine: engine.sql("SHOW FUNCTIONS"))
    if not shell.output.on_screen:
        shell.output.write(result)
        return
    table = result.to_arrow_table().select(["signature", "body", "description"])
    rows = sorted(zip(*table.to_pydict().values(), strict=True), key=lambda row: place_in(KINDS, row[1]))
    shell.output.write(text_table(("signature", "kind", "description"), rows))


def place_in(order: tuple[str, ...], word: str) -> int:
    return order.index(word) if word in order else -1


def agents(shell: Shell, rest: str) -> None:
    show_query(shell, "SHOW AGENTS")


def run_file(shell: Shell, rest: str) -> None:
    if not rest:
        raise UsageError(r"\i needs a file", hint=r"\i report.sql")
    shell.file(unquoted(rest))


def redirect(shell: Shell, rest: str) -> None:
    if rest:
        shell.inv.terminal.say(f"rows go to {shell.output.to_file(unquoted(rest))}; \\o alone brings them back")
        return
    shell.output.to_screen()
    shell.inv.terminal.say("rows go to the screen")


def unquoted(name: str) -> str:
    quote = name[:1]
    return name[1:-1] if quote in ("'", '"') and len(name) > 1 and name.endswith(quote) else name


def edit(shell: Shell, rest: str) -> None:
    """Open the editor; what it leaves is the next prompt's text, to be looked at before it runs."""
    if rest:
        path = Path(unquoted(rest)).expanduser()
        call_editor(shell, path)
        shell.draft = path.read_text(encoding="utf-8", errors="replace").rstrip() if path.exists() else ""
        return
    with tempfile.TemporaryDirectory(prefix="kleene-") as folder:
        path = Path(folder) / "statement.sql"
        path.write_text(f"{shell.last}\n" if shell.last else "", encoding="utf-8")
        call_editor(shell, path)
        shell.draft = path.read_text(encoding="utf-8", errors="replace").rstrip()
    if shell.draft and not shell.draft.endswith(";"):
        shell.draft += ";"


def call_editor(shell: Shell, path: Path) -> None:
    environ = shell.inv.terminal.environ
    editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"the editor {editor} cannot be started: {error}", hint="EDITOR names another") from error
    if done.returncode:
        raise UsageError(f"{editor} ended with exit code {done.returncode}: nothing was taken")


def timing(shell: Shell, rest: str) -> None:
    shell.timing = switch(rest, shell.timing)
    shell.inv.terminal.say(f"timing is {'on' if shell.timing else 'off'}")


def expand(shell: Shell, rest: str) -> None:
    shell.output.expanded = switch(rest, shell.output.expanded)
    shell.inv.terminal.say("each value in full, on lines of its own" if shell.output.expanded else "rows side by side")


def plan(shell: Shell, rest: str) -> None:
    text = rest or shell.last
    if not text:
        raise UsageError("there is no statement yet", hint=r"\plan SELECT ...")
    found = shell.watched(shell.tally(), lambda engine: engine.explain(text))
    shell.inv.terminal.out.write("\n".join(map(visible, found.text.rstrip("\n").split("\n"))) + "\n")


def budget(shell: Shell, rest: str) -> None:
    """``DIMENSION AMOUNT`` sets one, ``off`` takes all away, nothing shows what is left."""
    parts = rest.rstrip(";").replace("=", " ").split()
    if parts == ["off"]:
        for name in ("calls", "tokens", "dollars", "wall"):
            run_own(shell, f"RESET budget.{name}")
    elif len(parts) == 2 and re.fullmatch(r"\$?[\d_.]+", parts[1]):
        run_own(shell, f"SET budget.{parts[0].removeprefix('budget.')} = {parts[1].removeprefix('$')}")
    elif parts:
        raise UsageError(f"\\budget does not know {rest}", hint=r"\budget dollars 2, \budget calls 500, \budget off")
    show_query(shell, "SHOW BUDGET")


def run_own(shell: Shell, text: str) -> None:
    shell.worker.call(lambda engine: engine.sql(text))


def trace(shell: Shell, rest: str) -> None:
    if rest:
        show_query(shell, rest)
    elif shell.last_id:
        show_query(shell, CALLS.format(shell.last_id))
    else:
        show_query(shell, STATEMENTS)


def runs(shell: Shell, rest: str) -> None:
    show_query(shell, RUNS + "20")


def models(shell: Shell, rest: str) -> None:
    from kleene.cli.models import legible, table_of

    table = shell.worker.call(lambda engine: table_of(engine.services.handler))  # type: ignore[attr-defined]
    shell.output.write(legible(table) if shell.output.on_screen else table)


OPTION = re.compile(r"--(context|data|table|max-turns|from)(?:=|\s+)('[^']*'|\"[^\"]*\"|\S+)\s*")


def run_task(shell: Shell, rest: str) -> None:
    """A model answers a task; its reply streams in above the progress line. Options stand before the task."""
    from kleene.cli.handlers import run_budget
    from kleene.cli.options import count
    from kleene.cli.run import end_of_run
    from kleene.cli.turns import Turns

    options: dict[str, list[str]] = {}
    while (found := OPTION.match(rest)) is not None:
        options.setdefault(found[1], []).append(unquoted(found[2]))
        rest = rest[found.end() :]
    if not rest:
        raise UsageError(r"\run needs a task", hint="/run --context notes.txt Which project used most hours?")
    given: dict[str, Any] = {"max_turns": RUN_TURNS}
    if "max-turns" in options:
        try:
            given["max_turns"] = count(options["max-turns"][-1])
        except Exception as error:
            raise UsageError(f"--max-turns: {error}") from error
    given |= {"context": options.get("context"), "data": options.get("data"), "tables": tuple(options.get("table", ()))}
    if "from" in options:
        given["from_run"] = options["from"][-1]
    engine = shell.worker.call(lambda engine: engine)
    limits = engine.ledger.limits  # type: ignore[attr-defined]
    if (limits.calls, limits.tokens, limits.dollars) == (None, None, None):
        given["budget"] = run_budget(shell.inv)
    tally = shell.tally()
    turns = Turns(tally, shell.inv.terminal, always=True)
    try:
        done = shell.watched(tally, lambda engine: engine.run(rest, **given), listener=turns, replies=True)
    except Cancelled as error:
        raise Cancelled(f"{error.message}; \\resume goes on") from error
    end_of_run(done, shell.inv, shell.output.write)


def resume(shell: Shell, rest: str) -> None:
    """Go on with a run, the last one without an answer where none is named."""
    from kleene.cli.run import end_of_run
    from kleene.cli.turns import Turns

    tally = shell.tally()
    turns = Turns(tally, shell.inv.terminal, always=True)
    name = rest.rstrip(";") or None
    done = shell.watched(tally, lambda engine: engine.resume(name), listener=turns, replies=True)
    end_of_run(done, shell.inv, shell.output.write)


def clear(shell: Shell, rest: str) -> None:
    if shell.inv.terminal.shows_tables:
        shell.inv.terminal.out.write("\x1b[H\x1b[2J")
        shell.inv.terminal.out.flush()


def leave(shell: Shell, rest: str) -> None:
    shell.done = True


COMMANDS: tuple[ShellCommand, ...] = (
    ShellCommand(("help", "?", "h"), "", "this list", show_help),
    ShellCommand(("d", "dt"), "[TABLE]", "tables and views, or the columns of one", describe, "table"),
    ShellCommand(("df",), "", "functions and tools, your own first", functions),
    ShellCommand(("da",), "", "agents", agents),
    ShellCommand(("plan",), "[STATEMENT]", "what it (the last one) would ask and cost", plan, "sql"),
    ShellCommand(("budget",), "[WHAT AMOUNT | off]", "what is left; \\budget dollars 2 sets a limit", budget),
    ShellCommand(("trace",), "[SQL]", "the last statement's calls, or SQL over trace_*", trace, "sql"),
    ShellCommand(("run",), "[OPTIONS] TASK", "let a model answer a task by writing SQL", run_task),
    ShellCommand(("resume",), "[RUN]", "go on with a run that has no answer yet", resume),
    ShellCommand(("runs",), "", "the last runs and how they ended", runs),
    ShellCommand(("models",), "", "the model behind each alias and its price", models),
    ShellCommand(("x",), "[on | off]", "each value in full, on lines of its own", expand, "on/off"),
    ShellCommand(("timing",), "[on | off]", "say how long each statement took", timing, "on/off"),
    ShellCommand(("e", "edit"), "[FILE]", "edit the last statement, or a file, in $EDITOR", edit, "file"),
    ShellCommand(("i", "include"), "FILE", "run a file of statements and commands", run_file, "file"),
    ShellCommand(("o", "output"), "[FILE]", "rows to a file (.csv .json .md), or to the screen", redirect, "file"),
    ShellCommand(("clear",), "", "clear the screen", clear),
    ShellCommand(("quit", "q", "exit"), "", "leave (Ctrl-D does too)", leave),
)
