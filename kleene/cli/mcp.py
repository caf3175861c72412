"""``mcp``: other people's servers whose tools SQL may use, and Kleene as a server for other agents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.cli.command import Command
from kleene.cli.options import add_global_options, count

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.mcp.entries import Entry

COLUMNS = ("server", "scope", "state", "tools", "runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|add|remove|serve", required=True)

    def action(name: str, usage: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = actions.add_parser(
            name, prog=f"{parser.prog} {name}", usage=f"%(prog)s {usage}"
        )
        add_global_options(made, of_command=True)
        return made

    action("list", "[OPTIONS]")
    add = action(
        "add", "[--project] [--env NAME=VALUE]... NAME COMMAND [ARGUMENT...] | --url URL NAME | --project NAME"
    )
    add.add_argument(
        "--project", action="store_true", help="in .mcp.json of the workspace, and trusted; without a command: trust it"
    )
    add.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable that the program sees"
    )
    add.add_argument("--url", help="a server that runs already, over streamable HTTP")
    add.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="a header of each request to the URL"
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "start", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program that is the server, and its arguments"
    )
    remove = action("remove", "[--project] NAME")
    remove.add_argument("--project", action="store_true", help="from .mcp.json of the workspace, and its trust")
    remove.add_argument("name", metavar="NAME")
    serve = action("serve", "[--database FILE [--write]] [--allow TOOLS] [--http PORT] [OPTIONS]")
    serve.add_argument("--database", metavar="FILE", default=":memory:", help="a DuckDB file (default: in memory)")
    serve.add_argument("--write", action="store_true", help="callers may change the database")
    serve.add_argument("--allow", metavar="TOOLS", action="append", help="tools with effects that callers may use")
    serve.add_argument("--http", metavar="PORT", type=count, help="serve streamable HTTP on this port (0: a free one)")
    serve.add_argument("--host", default="127.0.0.1", help="where (default: 127.0.0.1); others need KLEENE_MCP_TOKEN")
    serve.add_argument(
        "--max-rows", metavar="N", type=count, default=1000, help="most rows of one answer (default: 1000)"
    )


def execute(inv: Invocation) -> int:
    from kleene.cli.exits import misconfigured
    from kleene.cli.mcp_serve import serve

    action = {"list": list_servers, "add": add, "remove": remove, "serve": serve}[inv.args.action]
    with misconfigured():
        return action(inv)


def list_servers(inv: Invocation) -> int:
    """One row a server: whether it starts, and the names that its tools have in SQL."""
    from kleene.mcp.entries import find_entries
    from kleene.mcp.servers import Servers
    from kleene.planner.errors import ToolError
    from kleene.rendering.rows import text_table

    found = find_entries(inv.args.workspace)
    servers = Servers(found.on.values(), inv.args.workspace, inv.terminal.say)
    rows: list[Sequence[str | None]] = []
    try:
        for name, entry in found.on.items():
            try:
                tools = servers.made(name, servers.refresh(name), ())
                rows.append((*shown(entry), "on", ", ".join(t.name for t in tools), line_of(entry)))
            except ToolError as error:
                rows.append((*shown(entry), f"fails: {error.message}", None, line_of(entry)))
    finally:
        servers.close()
    rows += [(*shown(entry), f"off: {why}", None, line_of(entry)) for entry, why in found.off]
    if rows:
        inv.write(text_table(COLUMNS, rows))
    else:
        inv.terminal.say("no MCP servers are configured: python -m kleene mcp add NAME COMMAND ...")
    return 0


def add(inv: Invocation) -> int:
    """Write the entry, trust it where it is the workspace's, and start it once."""
    from kleene.cli.exits import Exit, UsageError
    from kleene.mcp.entries import Entry, add_entry, trust
    from kleene.mcp.servers import Servers
    from kleene.planner.errors import ToolError

    args = inv.args
    start = args.start[1:] if args.start[:1] == ["--"] else args.start
    if start and start[0].startswith("-"):
        raise UsageError(
            f"{start[0]} stands behind the name", hint="options come first: mcp add --project NAME COMMAND"
        )
    path = file_of(inv)
    if args.project and not start and not args.url:
        entry = named(path, args.name)
        inv.terminal.say(f"{args.name} is trusted to run: {line_of(entry)}")
    else:
        written: dict[str, Any] = (
            {"url": args.url} if args.url else {"command": start[0], "args": start[1:]} if start else {}
        )
        if args.url and start:
            raise UsageError("a server has a command or a --url, not both")
        written |= {"env": pairs(args.env, "--env")} if args.env else {}
        written |= {"headers": pairs(args.header, "--header")} if args.header else {}
        Entry.read(args.name, written, "", "mcp add")
        entry = add_entry(path, args.name, written)
    if args.project:
        trust(args.workspace, args.name, entry.digest)
    servers = Servers([entry], args.workspace, inv.terminal.say)
    try:
        tools = servers.made(args.name, servers.refresh(args.name), ())
    except ToolError as error:
        inv.terminal.error(f"{error.render()}\nnote: {args.name} stays in {path}")
        return Exit.FAILED
    finally:
        servers.close()
    inv.terminal.say(f"{args.name} is in {path}; its tools: {', '.join(t.name for t in tools) or 'none'}")
    return Exit.DONE


def remove(inv: Invocation) -> int:
    from kleene.cli.exits import UsageError
    from kleene.mcp.entries import remove_entry, trust

    path = file_of(inv)
    if not remove_entry(path, inv.args.name):
        raise UsageError(f"there is no server {inv.args.name} in {path}", hint="python -m kleene mcp list shows them")
    if inv.args.project:
        trust(inv.args.workspace, inv.args.name, None)
    inv.terminal.say(f"{inv.args.name} is no longer in {path}")
    return 0


def file_of(inv: Invocation) -> Path:
    from kleene.mcp.entries import PROJECT_FILE, user_file

    return Path(inv.args.workspace) / PROJECT_FILE if inv.args.project else user_file()


def named(path: Path, name: str) -> Entry:
    """The entry of a name. Raises ``UsageError`` where the file has none."""
    from kleene.cli.exits import UsageError
    from kleene.mcp.entries import read_entries

    for entry in read_entries(path, "project"):
        if entry.name == name:
            return entry
    raise UsageError(f"there is no server {name} in {path}", hint="mcp add --project NAME COMMAND ... puts one there")


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` arguments. Raises ``UsageError``.

    >>> pairs(["A=1", "B=x=y"], "--env")
    {'A': '1', 'B': 'x=y'}
    """
    from kleene.cli.exits import UsageError

    found = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {pair} is not NAME=VALUE")
        found[name] = value
    return found


def shown(entry: Entry) -> tuple[str, str]:
    from kleene.mcp.entries import printable

    return printable(entry.name), entry.scope


def line_of(entry: Entry) -> str:
    return "".join(c if c.isprintable() else "?" for c in entry.line)


COMMAND = Command(
    name="mcp",
    summary="use the tools of MCP servers, and serve other agents",
    usage="list | add [--project] NAME COMMAND... | remove [--project] NAME | serve [--http PORT] [OPTIONS]",
    description="""\
Tools of MCP servers are functions NAME_TOOL: those that a server calls read-only stand in FROM, all others have effects
and run under CALL. list starts each server and shows its tools; add and remove change mcp.json beside your
config.toml, or with --project .mcp.json in the workspace. A server of the workspace starts a program that came with it,
so it is off until you trust it with add --project NAME, and off again when its entry changes.

serve offers callsql, explain and run to other agents, over stdio or (--http) on this machine. Callers are not you:
their statements pass the same checks as a model's, the database is read-only without --write, no file but the
workspace through its tools can be read, tools with effects need --allow, and all of them together have --budget-*
($1 where none is given); --budget-wall (600 s) is for each request. Without the extra kleene[mcp] there is none of this.""",
    examples="""\
# the time server of the MCP project; then: SELECT * FROM time_get_current_time('Europe/Vienna')
python -m kleene mcp add time mcp-server-time

# a server that runs already, and what there is now
python -m kleene mcp add --url http://127.0.0.1:8931/mcp --header "Authorization=Bearer TOKEN" notes
python -m kleene mcp list

# trust a server that this workspace names in .mcp.json
python -m kleene mcp add --project docs

# let other agents query a database, two dollars at most
python -m kleene mcp serve --database shop.duckdb --budget-dollars 2""",
    add_arguments=add_arguments,
    execute=execute,
)
