"""Effects on files: what is written is what was asked, nothing else changes, and nothing outside is reached."""

from __future__ import annotations

import datetime
import io
import os
import re
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Cancelled, ToolError
from kleene.planner.specs import Volatility
from kleene.tools.base import Limits, Tool, Work
from kleene.tools.building import docx_of, value_of, xlsx_of
from kleene.tools.jail import Jail
from kleene.tools.patching import nearest, patched, unified
from kleene.tools.sandbox import Sandbox
from kleene.tools.standard import APPEND_FILE, MKDIR, PATCH, REMOVE, WRITE_FILE
from tests.kleene.tools.work import needs_sandbox, refusal, shell, tree, use

docx = pytest.importorskip("docx")
openpyxl = pytest.importorskip("openpyxl")

WRITE, APPEND = WRITE_FILE, APPEND_FILE
EFFECTS: dict[str, Tool] = {tool.name: tool for tool in (WRITE, APPEND, PATCH, MKDIR, REMOVE)}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "write_file": ("x",),
    "append_file": ("x",),
    "patch": ("old", "new"),
    "mkdir": (),
    "remove": (),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def work(folder: Path) -> Work:
    return Work(Jail.of(folder))


def test_all_are_volatile_and_named_in_order() -> None:
    assert list(EFFECTS) == ["write_file", "append_file", "patch", "mkdir", "remove"]
    assert {tool.volatility for tool in EFFECTS.values()} == {Volatility.VOLATILE}


# Writing


def test_a_file_is_written_with_its_folders(work: Work, folder: Path) -> None:
    assert use(WRITE, work, "a/b/ü.md", "é\n") == [("a/b/ü.md", 3)]
    assert use(WRITE, work, "a/b/ü.md", "") == [("a/b/ü.md", 0)]
    assert use(MKDIR, work, "c/d") == use(MKDIR, work, "c/d") == [("c/d",)]
    assert use(REMOVE, work, "c/d") == [("c/d",)]
    assert tree(folder) == {"a/b/ü.md": ""} and (folder / "c").is_dir()


def test_a_mode_is_kept(work: Work, folder: Path) -> None:
    (folder / "run.sh").write_text("old\n")
    (folder / "run.sh").chmod(0o750)
    use(WRITE, work, "run.sh", "old\n")
    use(PATCH, work, "run.sh", "old", "new")
    use(APPEND, work, "run.sh", "more\n")
    assert (folder / "run.sh").read_text() == "new\nmore\n"
    assert stat.S_IMODE((folder / "run.sh").stat().st_mode) == 0o750


def test_line_ends_are_those_of_the_file(work: Work, folder: Path) -> None:
    path = folder / "dos.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    use(APPEND, work, "dos.txt", "three\nfour\n")
    assert path.read_bytes() == b"one\r\ntwo\r\nthree\r\nfour\r\n"
    use(PATCH, work, "dos.txt", "two\nthree\n", "2\n3\n")
    assert path.read_bytes() == b"one\r\n2\r\n3\r\nfour\r\n"
    assert use(WRITE, work, "dos.txt", "a\nb\n") == [("dos.txt", 6)]
    assert path.read_bytes() == b"a\r\nb\r\n"
    use(WRITE, work, "dos.txt", "a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n"


def test_bytes_that_are_no_utf8_stay_as_they_are(work: Work, folder: Path) -> None:
    (folder / "latin").write_bytes(b"\xef\xbb\xbfcaf\xe9 old \xff\n")
    use(PATCH, work, "latin", "old", "né")
    assert (folder / "latin").read_bytes() == b"\xef\xbb\xbfcaf\xe9 n\xc3\xa9 \xff\n"
    (folder / "binary").write_bytes(b"old\0")
    assert refusal(PATCH, work, "binary", "old", "new").message == "binary is no text"


def test_what_is_too_large_is_not_written(work: Work, folder: Path) -> None:
    work = attrs.evolve(work, limits=Limits(file_bytes=10))
    (folder / "a").write_text("12345 old\n")
    for effect, arguments in ((WRITE, ("x" * 11,)), (APPEND, ("xy",)), (PATCH, ("old", "newer"))):
        assert refusal(effect, work, "a", *arguments).kind == "too large"
    assert (folder / "a").read_text() == "12345 old\n" and os.listdir(folder) == ["a"]


@pytest.mark.parametrize("name", sorted(EFFECTS))
@pytest.mark.parametrize(
    "path",
    ["../out", "/etc/hosts", "link", "dir/x", ".git/config", ".GIT/x", ".kleene/x", "pipe", "hard", "", ".", "a\0b", "/dev/full", "../../x", "x" * 300],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused(work: Work, folder: Path, name: str, path: str) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("old")
    (folder / "link").symlink_to(outside / "secret")
    (folder / "dir").symlink_to(outside)
    os.link(outside / "secret", folder / "hard")
    os.mkfifo(folder / "pipe")
    (folder / ".git").mkdir()
    before = sorted(os.listdir(folder))
    # A link, a pipe and one of a file's names are removed as such: what they stand for stays.
    if (name, path) not in [("remove", p) for p in ("link", "pipe", "hard")]:
        refusal(EFFECTS[name], work, path, *ARGUMENTS[name])
        assert sorted(os.listdir(folder)) == before
    assert tree(outside) == {"secret": "old"}


def test_only_the_write_list_is_written(folder: Path) -> None:
    work = Work(Jail.of(folder, ("out/**",)))
    (folder / "a").write_text("old")
    for name, arguments in ARGUMENTS.items():
        error = refusal(EFFECTS[name], work, "a", *arguments)
        assert (error.kind, error.hint) == ("access denied", "writable here: out/**")
    use(WRITE, work, "out/a", "x")
    assert tree(folder) == {"a": "old", "out/a": "x"}


@needs_sandbox
def test_links_that_a_command_plants_are_not_followed(work: Work, folder: Path) -> None:
    target = folder.parent / "target"
    target.mkdir()
    (target / "notes.md").write_text("old")
    (folder / "deep").mkdir()
    command = f"ln -s {target}/notes.md notes.md; ln -s {target} out; ln -s ../.. deep/up; ln -s . here; ls -l"
    use(shell(Sandbox()), work, command)
    for path in ("notes.md", "out/notes.md", "deep/up/target/notes.md", "here/notes.md"):
        for name, arguments in ARGUMENTS.items():
            if (name, path) != ("remove", "notes.md"):
                assert refusal(EFFECTS[name], work, path, *arguments).kind in (
                    "access denied",
                    "io",
                    "invalid arguments",
                )
    assert tree(target) == {"notes.md": "old"}


# Patching


def test_a_patch_gives_a_unified_diff(work: Work, folder: Path) -> None:
    (folder / "a.py").write_text("one\ntwo\nthree\n")
    assert use(PATCH, work, "a.py", "two", "2") == [
        ("a.py", 1, "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    ]


def test_a_patch_against_a_file_that_changes_meanwhile_is_refused(
    work: Work, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_text("old")
    opened = Jail.open

    def open_and_lose(self: Jail, path: str) -> Any:
        file = opened(self, path)
        (folder / "b").write_text("changed")
        (folder / "b").rename(folder / "a")
        return file

    monkeypatch.setattr(Jail, "open", open_and_lose)
    assert refusal(PATCH, work, "a", "old", "new").message == "a changed since it was read"
    assert (folder / "a").read_text() == "changed"


CODE = "class A:\n\tdef f(self):\n\t\treturn “it’s”\n\n\tdef g(self):\n\t\treturn 1\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "made"),
    [
        (CODE, "    return 1", "    return 2", CODE.replace("1", "2")),
        (CODE, 'def f(self):\n    return "it\'s"', "def f(self):\n    return 0", CODE.replace("return “it’s”", "    return 0").replace("\t\t    ", "\t    ")),
        (CODE, "  def g(self):\n    return 1\n", "", CODE.replace("\tdef g(self):\n\t\treturn 1\n", "")),
        (CODE, "def g(self):\n\treturn 1", "def g(self):\n\tx = 1\n\n\treturn x", CODE.replace("\t\treturn 1", "\t\tx = 1\n\n\t\treturn x")),
        ("a  b c\n", "a b", "x", "x c\n"),
        ("He said “yes” and\nleft.\n", 'said "yes" and left', "went", "He went.\n"),
        ("a\r\nb\r\nc\r\n", "a b", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\nc\n", "a\nb\n", "x\n", "x\nc\n"),
        ("x = 1 # a\n", "x =  1", "x = 2", "x = 2 # a\n"),
        ("a b\nlast", "a  b\nlast", "z\n", "z\n"),
    ],
)  # fmt: skip
def test_a_piece_is_found_loosely(text: str, old: str, new: str, made: str) -> None:
    done = patched(text, old, new)
    assert (done.text, done.exact) == (made, False)


def test_to_the_letter_comes_before_loosely() -> None:
    assert patched("a  b\na b\n", "a b", "x").text == "a  b\nx\n"


@pytest.mark.parametrize(
    ("text", "old", "said", "hint"),
    [
        ("a\nb\na\n", "a", "old occurs 2 times in f: on lines 1, 3", "give more of the lines around the one that is meant"),
        ("aaa", "aa", "old occurs 2 times in f: on lines 1, 1", "give more of the lines around the one that is meant"),
        ("a b\na  b\n", "a\tb", "old occurs 2 times in f but for white space and quotes: on lines 1, 2", "give more of the lines around the one that is meant"),
        ("x\n" * 5000, "x", "old occurs 1,000 or more times in f: on lines 1, 2, 3, 4, 5, 6, 7, 8, ...", "give more of the lines around the one that is meant"),
        ("one\n  def f(x):\n    return x\ntwo\n", "def f(y):\n  return y", "old does not occur in f; the nearest lines are:\n2:   def f(x):\n3:     return x", "give the lines as they are in the file, without line numbers"),
        ("", "a", "old does not occur in f", "read the file again"),
        ("a", " \n", "old is empty", "use write_file or append_file, or give the lines to replace"),
        ("a", "a", "old and new are the same", None),
    ],
)  # fmt: skip
def test_a_piece_that_is_not_there_once_is_refused(text: str, old: str, said: str, hint: str | None) -> None:
    with pytest.raises(ToolError) as caught:
        patched(text, old, old if said.endswith("the same") else "z", name="f")
    assert (caught.value.message, caught.value.hint, caught.value.kind) == (said, hint, "invalid arguments")


LINES = st.text(st.sampled_from("ab \t\n'“"), max_size=25)


@settings(max_examples=60)
@given(LINES, LINES, LINES)
@example("aab", "ab", "b")
def test_an_exact_patch_is_a_replacement(text: str, old: str, new: str) -> None:
    assume(old.strip() and old != new)
    places = sum(text.startswith(old, at) for at in range(len(text)))
    if places == 1:
        assert patched(text, old, new).text == text.replace(old, new)
    elif places > 1:
        with pytest.raises(ToolError):
            patched(text, old, new)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["f(x)", "“a”", "it’s", "1", "é"]), min_size=1, max_size=6), st.data())
def test_a_loose_patch_changes_the_piece_alone(words: list[str], data: st.DataObject) -> None:
    def spaced() -> str:
        parts = [w + data.draw(st.sampled_from([" ", "  ", "\n", "\t", "\r\n"])) for w in words]
        return "".join(parts).strip()

    plain = str.maketrans("“”’", '""' + "'")
    before, piece, after = "before( ", spaced(), " )after\r\n"
    done = patched(before + piece + after, spaced().translate(plain), "NEW")
    assert done.text == before + "NEW" + after


@settings(max_examples=15)
@given(st.lists(st.text("ab", max_size=2), max_size=12), st.text("ab\n", max_size=6), st.booleans())
def test_a_diff_applies(lines: list[str], new: str, ends: bool) -> None:
    before = "\n".join([*lines, "PLACE"]) + ("\n" if ends else "")
    after = patched(before, "PLACE", new).text
    if before == after:
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f").write_bytes(before.encode())
        diff = unified(before, after, "f")
        subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=diff.encode(), cwd=folder, check=True)
        assert Path(folder, "f").read_bytes() == after.encode()


def test_the_nearest_lines_of_a_long_file_are_found_quickly() -> None:
    text = "".join(f"line {n} of the file with words\n" for n in range(6_000)).replace("line 5000 of", "the needle of")
    assert nearest(text, "the needle, of the file") == 5_000


# Office files


MARKDOWN = """# Title

Some **bold**, *italic*, ~~gone~~, `code` and a [link](https://example.com/a).

- one
- two
  - deep
1. first

> quoted

| a | b |
|---|---|
| 1 | **x** |

```python
if x:
    pass
```
"""


def test_a_word_file_is_built_from_markdown(work: Work, folder: Path) -> None:
    assert use(WRITE, work, "a.DOCX", MARKDOWN)[0][0] == "a.DOCX"
    document = docx.Document(str(folder / "a.DOCX"))
    assert [(p.style.name, p.text) for p in document.paragraphs] == [
        ("Heading 1", "Title"),
        ("Normal", "Some bold, italic, gone, code and a link."),
        ("List Bullet", "one"),
        ("List Bullet", "two"),
        ("List Bullet 2", "deep"),
        ("List Number", "first"),
        ("Quote", "quoted"),
        ("Normal", "if x:\n    pass"),
    ]
    runs = {run.text: run for run in document.paragraphs[1].runs}
    assert runs["bold"].bold and runs["italic"].italic and runs["gone"].font.strike
    assert [(link.text, link.url) for link in document.paragraphs[1].hyperlinks] == [("link", "https://example.com/a")]
    assert [[cell.text for cell in row.cells] for row in document.tables[0].rows] == [["a", "b"], ["1", "x"]]


def text_of(data: bytes) -> str:
    return "\n".join(p.text for p in docx.Document(io.BytesIO(data)).paragraphs)


@settings(max_examples=8)
@given(st.text(st.sampled_from("ab*_`#>-1.|[]()<>!~\\\n \t\0\x1b\ufffeé😀"), max_size=60))
def test_any_text_makes_a_word_file(text: str) -> None:
    back = text_of(docx_of(text))
    assert not re.search(r"[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", back)
    if not re.search(r"[\[<`~]", text):  # else some of it may be a link's target, a tag or a language's name
        assert [c for c in back if c in "abé😀"] == [c for c in text if c in "abé😀"]


@pytest.mark.parametrize(
    "text",
    ["> " * 5_000 + "x", "- " * 5_000 + "x", "*" * 20_000 + "x", "[" * 100_000, "![](" * 100_000, "<" * 20_000],
)
def test_deep_nesting_makes_a_word_file_too(text: str) -> None:
    back = text_of(docx_of(text))
    assert back.count("x") == text.count("x")
    assert back.count("[") == text.count("[") or text.startswith("!")


def sheets(data: bytes) -> dict[str, list[tuple[Any, ...]]]:
    book = openpyxl.load_workbook(io.BytesIO(data))
    assert all(cell.data_type != "f" for page in book for row in page for cell in row)
    return {page.title: list(page.iter_rows(values_only=True)) for page in book}


def test_an_excel_file_is_built_from_csv(work: Work, folder: Path) -> None:
    text = 'id,name,when\n007,"a ""b"", c",2026-01-31\n-1.5,=1+1,TRUE\n,é,12345678901234567890\n'
    use(WRITE, work, "out/a.xlsx", text)
    assert sheets((folder / "out" / "a.xlsx").read_bytes()) == {
        "Sheet1": [
            ("id", "name", "when"),
            ("007", 'a "b", c', datetime.datetime(2026, 1, 31)),
            (-1.5, "=1+1", True),
            (None, "é", "12345678901234567890"),
        ]
    }


def test_an_excel_file_is_built_from_the_tables_of_markdown() -> None:
    table = "| a | b |\n|---|:-:|\n| 1 | *x* |\n"
    assert sheets(xlsx_of(f"# Sales: 2026/1\n\n{table}\ntext\n\n{table}")) == {
        "Sales  2026 1": [("a", "b"), (1, "x")],
        "Sales  2026 1 2": [("a", "b"), (1, "x")],
    }


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a;b\n1;2\n", [("a", "b"), (1, 2)]),
        ("a\tb,c\td\n", [("a", "b,c", "d")]),
        ("\ufeffa,b\r\n", [("a", "b")]),
        ("", []),
    ],
)
def test_other_separators_are_seen(text: str, rows: list[tuple[Any, ...]]) -> None:
    assert sheets(xlsx_of(text)) == {"Sheet1": rows}


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.dates(), st.text()).map(str))
def test_a_value_is_what_was_written_or_its_text(text: str) -> None:
    value = value_of(text)
    if isinstance(value, float):
        assert float(text) == value
    elif value is not None:
        assert str(value) == text or (isinstance(value, bool) and str(value).upper() == text)


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("a.pdf", "x", "a .pdf file cannot be built from text"),
        ("a.pptx", "x", "a .pptx file cannot be built from text"),
        ("a.xlsx", '"' + "x" * 32_768 + '"', "a cell of row 1 has 32,768 characters; it holds 32,767"),
        ("a.xlsx", "," * 16_384, "a sheet holds 1,048,576 rows of 16,384 columns; there are more"),
    ],
)
def test_what_cannot_be_built_is_refused(work: Work, folder: Path, path: str, text: str, said: str) -> None:
    assert refusal(WRITE, work, path, text).message == said
    assert refusal(APPEND, work, "a.docx", "x").message == "nothing can be appended to a.docx"
    assert os.listdir(folder) == []


def test_building_ends_with_the_statement(work: Work) -> None:
    for path, text in (("a.docx", "# a\n\n" * 9), ("a.xlsx", "a,b\n" * 9)):
        with pytest.raises(Cancelled):
            use(WRITE, attrs.evolve(work, cancelled=lambda: True), path, text)


# Dry runs


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("write_file", ("notes.md", "ü" * 602), "write notes.md (1,204 bytes)"),
        ("append_file", ("notes.md", "x"), "append to notes.md (1 byte)"),
        ("patch", ("a.py", "x\n  = 1", "y" * 50), "patch a.py: 'x\\\\n = 1' -> '" + "y" * 40 + "... (10 more)'"),
        ("mkdir", ("a/b",), "make folder a/b"),
        ("remove", ("a",), "remove a"),
        ("write_file", (None, None), "write None (0 bytes)"),
        ("patch", (), "patch None: 'None' -> 'None'"),
    ],
)
def test_a_dry_run_says_what_would_be_done(name: str, arguments: tuple[Any, ...], said: str) -> None:
    assert EFFECTS[name].describe(arguments) == said
