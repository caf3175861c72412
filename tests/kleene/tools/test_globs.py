from __future__ import annotations

import pytest

from kleene.planner.errors import ToolError
from kleene.tools.globs import Globs

PATHS = [
    "a.md",
    "docs/a.md",
    "docs/b/c.md",
    "docs/b/c.MD",
    "src/x.py",
    "src/x.pyi",
    "src/[1].txt",
    "src/y z/ü.txt",
    ".hidden",
    "a\nb.md",
]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("**", PATHS),
        ("*", PATHS),
        ("*.md", ["a.md", "docs/a.md", "docs/b/c.md", "a\nb.md"]),
        ("./*.md", ["a.md", "a\nb.md"]),
        ("docs/*.md", ["docs/a.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/b/c.md"]),
        ("docs/**", ["docs/a.md", "docs/b/c.md", "docs/b/c.MD"]),
        ("docs/", ["docs/a.md", "docs/b/c.md", "docs/b/c.MD"]),
        ("**/b/*", ["docs/b/c.md", "docs/b/c.MD"]),
        ("*.{py,pyi}", ["src/x.py", "src/x.pyi"]),
        ("src/x.{py,{pyi,c}}", ["src/x.py", "src/x.pyi"]),
        ("?.md", ["a.md", "docs/a.md", "docs/b/c.md"]),
        ("[!a].md", ["docs/b/c.md"]),
        ("c.[mM][dD]", ["docs/b/c.md", "docs/b/c.MD"]),
        ("[a-b].md", ["a.md", "docs/a.md"]),
        (r"src/\[1\].txt", ["src/[1].txt"]),
        ("src/[[]1].txt", ["src/[1].txt"]),
        ("ü.txt", ["src/y z/ü.txt"]),
        (".*", [".hidden"]),
        ("[", []),
        ("[z-a].md", []),
        ("a.md/", []),
        ("src/[^/]*", ["src/x.py", "src/x.pyi", "src/[1].txt"]),
        ("src[/]x.py", []),
        ("{a", []),
    ],
)
def test_what_a_glob_means(pattern: str, matched: list[str]) -> None:
    globs = Globs.of(pattern)
    assert [path for path in PATHS if globs.match(path)] == matched


def test_no_pattern_means_nothing() -> None:
    assert not Globs.of().match("a")


@pytest.mark.parametrize("pattern", ["", "{a,b}" * 20], ids=["empty", "too many"])
def test_a_glob_that_cannot_be_read(pattern: str) -> None:
    with pytest.raises(ToolError) as caught:
        Globs.of(pattern)
    assert caught.value.kind == "invalid arguments"
