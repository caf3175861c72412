"""Write docs/cli.md from --help: ``python scripts/gen_cli_docs.py``. ``--check`` writes nothing and fails where the page is stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kleene.cli.parser import COMMANDS, build_parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """\
# Command line

<!-- Made by scripts/gen_cli_docs.py from --help: change the help, then run it. -->

`python -m kleene` and the script `kleene` are the same. Results go to stdout; notes, warnings, progress and errors to stderr.
"""


def sub_parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(actions[0].choices)


def page() -> str:
    """The whole page: the main help, then each command's."""
    parser = build_parser()
    subs = sub_parsers(parser)
    parts = [HEAD, f"```text\n{parser.format_help()}```\n"]
    for command in COMMANDS:
        parts.append(f"## {command.name}\n\n```text\n{subs[command.name].format_help()}```\n")
    return "\n".join(parts)


def main(argv: list[str]) -> int:
    if argv == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page():
            print("docs/cli.md is stale: run python scripts/gen_cli_docs.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
