"""The runner itself: what it reads, and that it fails where a page is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import PageError, blocks_of
from tests.docs.compare import same
from tests.docs.running import Page, check_syntax, kleene_arguments, shown
from tests.docs.screen import seen
from tests.docs.test_pages import compared, rewritten

PAGE = """\
<!-- run
```python file=m.py
def answer(request):
    return request.prompt.upper()
```
-->
```console
$ kleene repl --store :memory: --model-script m.py:answer
```
```sql
SELECT llm('a') AS said;
```
```text output
wrong
```
```python
print(1 + 1)
```
```text output
3
```
```console
$ echo one; echo two
one
```
"""


def test_every_difference_is_found_and_can_be_written_into_the_page(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(tmp_path)
    found = compared(page, blocks_of(PAGE, "p"))
    assert [d.block.line for d in found] == [13, 19, 22]
    assert found[0].real.startswith("┌──────┐\n│ said │\n") and [d.real for d in found[1:]] == ["2\n", "one\ntwo\n"]
    again = blocks_of(rewritten(PAGE, found), "p")
    assert compared(Page(tmp_path), again) == []


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("```sql\nSELECT 1;\n```", "no prompt is open"),
        ("```console\nhello\n```", "output before the first command"),
        ("```console\n$ kleene sql\n```", "the arguments are not Kleene's"),
        ("    indented", "has no language"),
        ("```\nwhat\n```", "is none of those"),
        ("```console\n$ kleene sql \"SELECT 'Hello!'\"\n```", "within double quotes"),
        ("```ruby\nputs 1\n```", "is none of those"),
        ("```sql not run:\nSELECT 1\n```", "is none of those"),
    ],
)
def test_what_cannot_be_run_is_an_error_of_the_page(tmp_path: Path, block: str, says: str, capsys) -> None:
    with pytest.raises(PageError, match=says):
        compared(Page(tmp_path), blocks_of(block, "p"))


@pytest.mark.parametrize(
    "block",
    [
        "```console\n$ false\n```",
        "```bash\nkleene sql 'SELECT nothing' --store :memory:\n```",
        "```python\nraise ValueError\n```",
        "```json not run: why\n{\n```",
        "```toml not run: why\na = \n```",
        "```sql not run: why\nSELECT (\n```",
        "```bash not run: why\nkleene sql --nonsense\n```",
    ],
)
def test_a_block_that_fails_fails_the_page(tmp_path: Path, monkeypatch, block: str, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((Exception, SystemExit)):
        compared(Page(tmp_path), blocks_of(block, "p"))


def test_an_error_that_the_page_shows_is_right(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "```console\n$ cat nothing\ncat: ...\n$ cat nothing | wc -l\n...\n0\n```"
    assert compared(Page(tmp_path), blocks_of(text, "p")) == []


@pytest.mark.parametrize(
    ("expected", "real", "is_same"),
    [
        ("0.1 s\n", "12.7 s\n", True),
        ("run 20261130-101500-a1b2c3\n", "run 20250101-000000-000000\n", True),
        ("a...c\n", "abc\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("2 requests\n", "3 requests\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_a_page_is_the_same_to_the_letter_but_for_times_names_and_ellipses(
    expected: str, real: str, is_same: bool
) -> None:
    assert same(expected, real) is is_same


def test_progress_that_is_taken_away_is_not_seen() -> None:
    assert seen("row\n\x1b[?25l⠋ 1 of 9 calls\n\r\x1b[1A\x1b[2Kdone\n") == "row\ndone\n"


@pytest.mark.parametrize(
    ("typed", "argv"),
    [
        ("kleene sql 'SELECT 1'", ["sql", "SELECT 1"]),
        ("python -m kleene --version  # which?", ["--version"]),
        ("kleene sql - | jq .", None),
        ("ls", None),
        ("kleene sql '1 | 2'", ["sql", "1 | 2"]),
    ],
)
def test_which_lines_are_kleenes_own(typed: str, argv: list[str] | None) -> None:
    assert kleene_arguments(typed) == argv


def test_a_backslash_goes_on_in_the_next_line() -> None:
    [block] = blocks_of("```bash\nkleene sql \\\n  'SELECT 1'\n# a remark\nls\n```", "p")
    assert [typed for typed, _ in shown(block)] == ["kleene sql \\\n  'SELECT 1'", "ls"]
    check_syntax(block)
