"""Options that every command takes, before or after its name."""

from __future__ import annotations

import argparse
from typing import Any

FORMATS = ("table", "json", "jsonl", "csv", "markdown")
LEVELS = ("debug", "info", "warning", "error")


def add_global_options(parser: argparse.ArgumentParser, *, of_command: bool) -> None:
    """Add the options. A command's own parser takes them too, but has no defaults of them (what stood before the command's name is kept)
    and leaves them out of its help."""

    def add(group: argparse._ArgumentGroup, name: str, text: str, value: Any = None, **more: Any) -> None:
        if of_command and more.get("action") == "append":
            more["dest"] = (
                f"more_{name.removeprefix('--').replace('-', '_')}"  # argparse would replace the list, not add to it
            )
        group.add_argument(
            name,
            help=argparse.SUPPRESS if of_command else text,
            default=argparse.SUPPRESS if of_command else value,
            **more,
        )

    group = parser.add_argument_group("where things are")
    add(group, "--store", "memo, trace and runs (default: .kleene/run.duckdb in the workspace)", metavar="PATH")
    add(group, "--workspace", "the folder that tools see and where kleene.toml is (default: .)", ".", metavar="DIR")
    add(group, "--config", "read this file instead of ~/.config/kleene/config.toml", metavar="FILE")
    add(
        group,
        "--lock-wait",
        "wait so long for a store that another process holds (default: 0)",
        0.0,
        metavar="SECONDS",
        type=amount,
    )

    add(
        group,
        "--mcp",
        "the MCP servers of this mcpServers file in place of the configured ones, or off for none",
        metavar="FILE|off",
    )

    group = parser.add_argument_group("models")
    add(
        group,
        "--model",
        "anthropic:NAME, openai:NAME, responses:NAME or local; may be repeated, a second one of an alias is its fallback",
        metavar="[ALIAS=]MODEL",
        action="append",
    )
    add(group, "--model-script", "a Python function that takes a request and returns the reply", metavar="FILE.py:NAME")
    add(group, "--record", "write every request and reply to this file", metavar="FILE")
    add(group, "--replay", "answer from a recording, without a network", metavar="FILE")
    add(
        group, "--replay-strict", "a request that differs from the recorded one is an error", False, action="store_true"
    )

    group = parser.add_argument_group("budget")
    add(group, "--budget-calls", "at most so many requests, retries included", metavar="N", type=count)
    add(group, "--budget-tokens", "at most so many tokens, in and out", metavar="N", type=count)
    add(group, "--budget-dollars", "at most so many dollars", metavar="X", type=amount)
    add(group, "--budget-wall", "at most so many seconds", metavar="SECONDS", type=amount)
    add(group, "--yes", "do not ask before a statement that may be dear", False, action="store_true")

    group = parser.add_argument_group("tools")
    add(
        group,
        "--allow-host",
        "a host that web tools may reach: example.com or *.example.com; may be repeated",
        metavar="HOST",
        action="append",
    )
    add(group, "--unsafe-shell", "run commands without a sandbox where there is none", False, action="store_true")

    group = parser.add_argument_group("output")
    add(
        group,
        "--format",
        "table, json, jsonl, csv or markdown (default: a table on a terminal, else jsonl)",
        metavar="FORMAT",
        choices=FORMATS,
    )
    add(
        group,
        "--max-unknown",
        "more unknown answers than this are an error (default: only a warning)",
        metavar="N",
        type=count,
    )
    add(group, "--quiet", "errors only: no notes, warnings or progress", False, action="store_true")
    add(
        group,
        "--log",
        "debug, info, warning or error; debug shows tracebacks (default: warning)",
        "warning",
        metavar="LEVEL",
        choices=LEVELS,
    )


def count(text: str) -> int:
    """A whole number, 0 or more; 10_000 and 10,000 are read too."""
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of 0 or more")
    return value


def amount(text: str) -> float:
    """Dollars or seconds: a number, 0 or more; $2 and 90s are read too."""
    try:
        value = float(text.removeprefix("$").removesuffix("s"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value
