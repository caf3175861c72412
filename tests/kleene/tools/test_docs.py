"""The page says what the tools are."""

from __future__ import annotations

from pathlib import Path

from kleene.tools.base import Limits, Tool
from kleene.tools.documents.archive import MAX_UNPACKED
from kleene.tools.standard import READ_TOOLS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "tools.md").read_text(encoding="utf-8")


def signature(tool: Tool) -> str:
    needed = ", ".join(p.name for p in tool.params[: tool.required])
    optional = [p.name for p in tool.params[tool.required :]]
    inner = ""
    for name in reversed(optional):
        inner = f"{', ' if needed or name is not optional[0] else ''}{name}" + (f" {inner}" if inner else "")
        inner = f"[{inner}]"
    return f"{tool.name}({needed}{' ' if needed and inner else ''}{inner})"


def test_every_tool_is_on_the_page() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and "(" in line]
    for tool, row in zip(READ_TOOLS, rows, strict=True):
        columns = ", ".join(p.name for p in tool.columns)
        assert row.startswith(f"| `{signature(tool)}` | `{columns}`"), (signature(tool), columns)


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    limits = Limits()
    assert f"reads at most {limits.file_bytes >> 20} MiB of a file" in PAGE
    assert f"at most {limits.rows:,} rows, and ends after {limits.seconds:g}\nseconds" in PAGE
    assert f"more than {MAX_UNPACKED >> 20} MiB" in PAGE
