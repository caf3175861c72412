"""README.md and every page of docs/: each block is run as its reader would run it, and what it prints is compared with the page.

``pytest tests/docs --update-fixtures`` writes what is really printed into the pages.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest
from markdown_it import MarkdownIt

from kleene.cli.parser import COMMANDS
from tests.docs.blocks import Block, read_page
from tests.docs.compare import same
from tests.docs.running import Page, Step, check_syntax, shown

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# Blocks that are read and not run, by their reasons: a new one is a decision, not an accident. (Those of docs/mcp.md run in tests/kleene/mcp.)
NOT_RUN = {
    "installs packages": 4,
    "needs a key": 10,
    "takes minutes": 8,
    "on results of your own": 5,
    "a pattern": 2,
    "starts programs of others": 1,
    "run below as a command": 1,
}


@attrs.frozen
class Difference:
    """What a page shows, and what was printed in its place."""

    block: Block
    typed: str
    expected: str
    real: str

    def __str__(self) -> str:
        diff = difflib.unified_diff(self.expected.splitlines(), self.real.splitlines(), "page", "run", lineterm="")
        return "\n".join([f"{self.block.where}: {self.typed.strip()}", *diff])


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty folder to stand in, no configuration, no key, a terminal of 100 columns without colours."""
    for name in [n for n in os.environ if n.startswith(("ANTHROPIC_", "OPENAI_", "KLEENE_", "OTEL_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    for name, value in {
        "HOME": str(tmp_path),
        "KLEENE_CONFIG_DIR": str(tmp_path / "config"),
        "CHECKOUT": str(ROOT),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    page = Page(folder)
    yield page
    page.close_shell()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]  # the next page has a file of this name of its own


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_every_block_does_what_the_page_shows(path: Path, page: Page, update_fixtures: bool) -> None:
    blocks = read_page(path, str(path.relative_to(ROOT)))
    differences = compared(page, blocks)
    if update_fixtures and differences:
        path.write_text(rewritten(path.read_text(encoding="utf-8"), differences), encoding="utf-8")
    assert not differences, "\n\n".join(map(str, differences))


def compared(page: Page, blocks: list[Block]) -> list[Difference]:
    """Run all blocks. A block may fail only where the page shows how it does."""
    found: list[Difference] = []
    steps: list[Step] = []
    for number, block in enumerate(blocks):
        if block.output:
            real = "".join(step.printed for step in steps)
            if not same(block.text, real):
                found.append(Difference(block, "the output", block.text, real))
            continue
        if block.reason is not None:
            check_syntax(block)
            steps = []
            continue
        steps = page.run(block)
        answered = number + 1 < len(blocks) and blocks[number + 1].output
        for step, (typed, expected) in zip(steps, shown(block) or [(block.text, "")], strict=bool(steps)):
            if expected and not same(expected, step.printed):
                found.append(Difference(block, typed, expected, step.printed))
            if step.failed and not expected and not answered:
                raise AssertionError(f"{block.where}: {typed} failed:\n{step.printed}")
    return found


def rewritten(text: str, differences: list[Difference]) -> str:
    """The page with what was printed in the places where it shows something else."""
    lines = text.splitlines(keepends=True)
    for difference in reversed(differences):
        head, body = "".join(lines[: difference.block.line]), "".join(lines[difference.block.line :])
        at = 0 if difference.block.output else body.index(difference.typed)
        body = body[:at] + body[at:].replace(difference.expected, difference.real.rstrip("\n") + "\n", 1)
        lines = (head + body).splitlines(keepends=True)
    return "".join(lines)


def test_what_is_not_run_says_why() -> None:
    counted = Counter(
        block.reason for path, name in zip(PAGES, NAMES, strict=True) for block in read_page(path, name) if block.reason
    )
    assert dict(counted) == NOT_RUN


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_links_and_commands_in_the_prose_exist(path: Path) -> None:
    """Relative links lead to files and headings, `kleene COMMAND` in backticks to a command."""
    commands = {command.name for command in COMMANDS}
    for token in MarkdownIt().enable("table").parse(path.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "link_open":
                check_link(path, str(child.attrs["href"]))
            elif child.type == "code_inline":
                named = re.match(r"(?:python -m )?kleene ([a-z]+)", child.content)
                assert named is None or named[1] in commands, f"{path.name}: there is no command {child.content}"


def check_link(path: Path, href: str) -> None:
    if re.match(r"[a-z]+:", href):
        return
    file, _, anchor = href.partition("#")
    target = (path.parent / file).resolve() if file else path
    assert target.exists(), f"{path.name} links to {href}, which is not there"
    if anchor:
        assert anchor in anchors(target), f"{path.name} links to {href}: there is no such heading"


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [
        str(p.relative_to(ROOT / "docs"))
        for p in PAGES[1:]
        if p.name != "index.md" and f"({p.relative_to(ROOT / 'docs')})" not in index
    ]
    assert not missing
