from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools.matching import Matcher, compiled, required
from kleene.tools.standard import GREP, LINES
from kleene.tools.texts import BLOCK
from tests.kleene.tools.working import rows, work, write


def failed(*arguments: object, **limits: float) -> ToolError:
    with pytest.raises(ToolError) as caught:
        tool, root, *rest = arguments
        rows(tool, work(root, **limits), *rest)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\nb", ["", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb", ["a\rb"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\x0cc\n".encode(), ["a\u2028b\x0cc"]),
        ("ä\nb".encode("utf-16"), ["ä", "b"]),
        ("ä\n\nb\n".encode("utf-16-be").join([b"\xfe\xff", b""]), ["ä", "", "b"]),
        ("ä\nb\n".encode("utf-32"), ["ä", "b"]),
        (b"caf\xe9\n", ["café"]),
        ("日本\n".encode(), ["日本"]),
        (b"a\0b" + b"x" * 10, None),
    ],
    ids=repr,
)
def test_lines_of_any_encoding(tmp_path: Path, content: bytes, lines: list[str] | None) -> None:
    write(tmp_path, {"a.txt": content})
    if lines is None:
        assert failed(LINES, tmp_path, "a.txt").kind == "unsupported"
        assert rows(GREP, tmp_path, "") == []
        return
    assert rows(LINES, tmp_path, "a.txt") == list(enumerate(lines, 1))
    assert rows(GREP, tmp_path, "") == [("a.txt", n, text) for n, text in enumerate(lines, 1)]


def test_a_range_of_lines(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "".join(f"line {i}\n" for i in range(1, 11))})
    assert rows(LINES, tmp_path, "a.txt", 9) == [(9, "line 9"), (10, "line 10")]
    assert rows(LINES, tmp_path, "a.txt", 2, 3) == [(2, "line 2"), (3, "line 3")]
    assert rows(LINES, tmp_path, "a.txt", None, 1) == [(1, "line 1")]
    assert rows(LINES, tmp_path, "a.txt", 5, 4) == rows(LINES, tmp_path, "a.txt", 99) == []
    assert failed(LINES, tmp_path, "a.txt", 0).message == "lines are counted from 1, not 0"


def test_lines_of_a_document_point_to_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.pdf": b"%PDF-1.7"})
    error = failed(LINES, tmp_path, "a.pdf")
    assert (error.kind, error.hint) == ("unsupported", "read documents with read(path) or read_pages(path)")


def test_lines_over_the_edges_of_blocks_are_whole(tmp_path: Path) -> None:
    lines = ["x" * (BLOCK // 3 + i) + "é" for i in range(7)] + ["", "end"]
    write(tmp_path, {"a.txt": "\n".join(lines)})
    assert rows(LINES, tmp_path, "a.txt") == list(enumerate(lines, 1))
    assert rows(GREP, tmp_path, "end|^$") == [("a.txt", 8, ""), ("a.txt", 9, "end")]


def test_a_line_longer_than_a_block(tmp_path: Path) -> None:
    long = "é" * BLOCK + "needle"
    write(tmp_path, {"a.txt": f"one\n{long}\nlast needle"})
    assert rows(LINES, tmp_path, "a.txt") == [(1, "one"), (2, long), (3, "last needle")]
    assert [row[1] for row in rows(GREP, tmp_path, "needle")] == [2, 3]
    assert failed(LINES, tmp_path, "a.txt", file_bytes=1000).kind == "too large"


LINES_OF_TEXT = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=12), max_size=12)
PATTERNS = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "a.c",
            "^",
            "$",
            "^$",
            r"\d+",
            r"\ba",
            "a|b",
            "(?i)AB",
            "(?i)k",
            r"a\Z",
            r"\Aa",
            "a(?=b)",
            "(?<!a)b",
            r"(.)\1",
            "[^a]",
            r"\s",
        ]
    ),
    st.text("ab.*+?()|[]^$\\", max_size=5),
)


def valid(pattern: str) -> bool:
    try:
        compiled(pattern)
    except ToolError:
        return False
    return True


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(LINES_OF_TEXT, st.lists(st.sampled_from(["a", "ab", "abc", "AB", "K", "K", "ſ", "b a", "aa", " "]))),
        max_size=3,
    ),
    PATTERNS.filter(valid),
)
def test_grep_finds_what_a_loop_finds(files: list[list[str]], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(
            Path(folder), {f"{i}.txt": "".join(f"{line}\n" for line in lines) for i, lines in enumerate(files)}
        )
        expected = [
            (f"{i}.txt", n, line)
            for i, lines in enumerate(files)
            for n, line in enumerate(lines, 1)
            if compiled(pattern).search(line)
        ]
        assert rows(GREP, root, pattern) == expected


@settings(max_examples=200, deadline=None)
@given(PATTERNS.filter(valid), st.text("abAB (k)K\u212a", max_size=8))
def test_a_required_text_is_in_every_match(pattern: str, line: str) -> None:
    literal = required(pattern, compiled(pattern).flags)
    match = compiled(pattern).search(line)
    if literal is None or (literal.any_case and not line.isascii()):
        return
    holds = literal.text in (line.lower() if literal.any_case else line)
    assert holds or match is None
    if literal.whole:
        assert holds == (match is not None)


def test_grep_looks_only_where_the_glob_means_and_git_does_not_ignore(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "skip/",
            "a.py": "x = 1",
            "a.md": "x",
            "skip/b.py": "x",
            "s/c.py": "y\nx",
            "b.bin": b"x\0",
            "e.py": "",
        },
    )
    assert rows(GREP, tmp_path, "x", "*.py") == [("a.py", 1, "x = 1"), ("s/c.py", 2, "x")]
    assert rows(GREP, tmp_path, "x", "skip/**") == [("skip/b.py", 1, "x")]
    assert rows(GREP, tmp_path, "x", "b.bin") == []
    (tmp_path / "link.txt").symlink_to("a.md")
    (tmp_path / "out.txt").symlink_to("/etc/passwd")
    assert rows(GREP, tmp_path, ".", "*.txt") == []


@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "(?P<n>a)(?P<n>b)", "a{2,1}", "\\", "(?<=a+)b", "x" * 10_001])
def test_a_pattern_that_cannot_be_read(tmp_path: Path, pattern: str) -> None:
    error = failed(GREP, tmp_path, pattern)
    assert error.kind == "invalid arguments"
    assert ("is no regular expression: " in error.message) == (len(pattern) <= 10_000)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*!", r"(a|aa)+!"])
def test_a_catastrophic_pattern_ends_at_the_time_limit(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, {"a.txt": "ok\n" + "a" * 60 + "b!\n"})
    start = time.monotonic()
    assert failed(GREP, tmp_path, pattern, seconds=0.2).kind == "timed out"
    assert time.monotonic() - start < 5


def test_a_line_without_what_every_match_holds_is_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a" * 60})
    assert rows(GREP, work(tmp_path, seconds=5), r"(a|a)*!") == []


def test_a_cancelled_grep_ends_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a" * 40 + "!"})
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    busy = attrs.evolve(work(tmp_path), cancelled=stop.is_set)
    start = time.monotonic()
    with pytest.raises(Cancelled):
        rows(GREP, busy, "(a+)+$")
    assert time.monotonic() - start < 5
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        for child in children.read_text().split():
            assert b"removesuffix" not in Path(f"/proc/{child}/cmdline").read_bytes()


def test_a_matcher_whose_process_is_killed_says_so(tmp_path: Path) -> None:
    with Matcher.of("a+b", work(tmp_path)) as matcher:
        matcher.literal = None
        assert list(matcher.lines("aab\nc\nab")) == [0, 2]
        process = matcher._process
        assert isinstance(process, subprocess.Popen)
        process.kill()
        process.wait()
        with pytest.raises(ToolError, match="ended"):
            matcher.lines("aab\n" * 100_000)
    assert process.returncode is not None


def test_a_result_above_its_limits_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "line of text\n" * 100})
    assert failed(GREP, tmp_path, "line", rows=99).message == "grep gives more than 99 rows"
    assert failed(GREP, tmp_path, "line", result_bytes=1_000).message == "grep gives more than 1,000 bytes"
    assert len(rows(GREP, work(tmp_path, rows=100), "line")) == 100
