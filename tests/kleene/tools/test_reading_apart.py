"""Documents that libraries read are read in a process apart: hostile ones end, and nothing else with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

import kleene
from kleene.planner.errors import Cancelled, ToolError
from kleene.tools import searching
from kleene.tools.base import Work
from kleene.tools.documents import Source
from kleene.tools.reading_apart import MOST, Bounds, Readers
from kleene.tools.standard import READ, READ_PAGES, READ_TABLE, SEARCH
from tests.kleene.engines import CountingModel, engine
from tests.kleene.tools import making
from tests.kleene.tools.working import rows, work, write
from tests.patience import AT_ONCE_S, soon

BOMB = "<!--" * 200_000
"""Costs Python's HTML parser the square of its length: minutes."""


@pytest.fixture
def readers() -> Iterator[Readers]:
    made = Readers()
    yield made
    made.close()


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def text_of(readers: Readers, path: Path, *, check: Callable[[], None] = lambda: None, seconds: float = 60) -> str:
    with path.open("rb") as stream:
        return readers.text(Source(path.name, stream, check), seconds=seconds)


def failure(readers: Readers, path: Path, *, seconds: float = 60) -> ToolError:
    with pytest.raises(ToolError) as caught:
        text_of(readers, path, seconds=seconds)
    return caught.value


# One process for many files


def test_one_process_reads_many_files_and_none_is_there_before_the_first(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {f"{n}.html": f"<h1>{n}</h1>" for n in range(20)} | {"a.md": "# plain", "b.csv": "a,b\n1,2\n"})
    assert text_of(readers, tmp_path / "a.md") == "# plain"
    with (tmp_path / "b.csv").open("rb") as stream:
        assert [(t.name, list(t.rows)) for t in readers.tables(Source("b.csv", stream))] == [
            ("table 1", [(1, ["a", "b"]), (2, ["1", "2"])])
        ]
    assert readers.pids == ()
    seen = set()
    for n in range(20):
        assert text_of(readers, tmp_path / f"{n}.html") == f"# {n}"
        seen |= set(readers.pids)
    assert len(seen) == 1


def test_a_process_is_kept_however_large_the_program_is_that_started_it(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {"a.html": "<p>a</p>"})
    large = b"x" * (520 << 20)
    assert text_of(readers, tmp_path / "a.html") == "a"
    (first,) = readers.pids
    assert text_of(readers, tmp_path / "a.html") == "a"
    assert readers.pids == (first,) and large


def test_threads_get_their_own_files_back(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {f"{n}.html": f"<p>{'x' * (n * 997)} {n}</p>" for n in range(60)})

    def right(n: int) -> bool:
        return text_of(readers, tmp_path / f"{n}.html") == f"{'x' * (n * 997)} {n}".strip()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(60)))
    assert 1 <= len(readers.pids) <= MOST


def test_a_slow_file_does_not_keep_the_others_waiting(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {"bomb.html": BOMB, "good.html": "<p>good</p>"})
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Cancelled("stop")

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(text_of, readers, tmp_path / "bomb.html", check=check)
        assert soon(lambda: bool(readers.pids))
        assert text_of(readers, tmp_path / "good.html") == "good"
        stop.set()
        assert isinstance(slow.exception(10), Cancelled)
    assert len(readers.pids) == 1


def test_an_idle_process_ends_and_another_takes_its_place(tmp_path: Path) -> None:
    write(tmp_path, {"a.html": "<p>a</p>"})
    readers = Readers(Bounds(idle_s=0.1))
    assert text_of(readers, tmp_path / "a.html") == "a"
    (first,) = readers.pids
    assert soon(lambda: not lives(first))
    assert text_of(readers, tmp_path / "a.html") == "a"
    assert first not in readers.pids
    readers.close()
    assert text_of(readers, tmp_path / "a.html") == "a"
    assert readers.pids == ()


# What hostile files do


@pytest.mark.parametrize(
    "content", [BOMB, "<p>x <b>y</b>" * 300_000, "<table><tr><td>" * 100_000], ids=["comments", "long", "deep"]
)
def test_a_file_that_takes_for_ever_ends_at_its_limit(tmp_path: Path, readers: Readers, content: str) -> None:
    write(tmp_path, {"bomb.html": content, "good.html": "<p>good</p>"})
    text_of(readers, tmp_path / "good.html")
    begun = time.monotonic()
    error = failure(readers, tmp_path / "bomb.html", seconds=0.3)
    assert (error.kind, error.message) == ("timed out", "bomb.html could not be read in time")
    assert time.monotonic() - begun < AT_ONCE_S
    assert readers.pids == ()
    assert text_of(readers, tmp_path / "good.html") == "good"


def test_the_tools_end_with_the_statements_time_and_its_cancel(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {"bomb.html": BOMB})
    here = attrs.evolve(work(tmp_path, seconds=0.4), readers=readers)
    for tool in (READ, READ_PAGES, READ_TABLE):
        with pytest.raises(ToolError) as caught:
            rows(tool, here, "bomb.html")
        assert caught.value.kind == "timed out"
        assert readers.pids == ()
    cancelled: list[float] = []

    def is_cancelled() -> bool:
        if readers.pids and not cancelled and time.monotonic() - begun > 0.3:
            cancelled.append(time.monotonic())
        return bool(cancelled)

    begun = time.monotonic()
    with pytest.raises(Cancelled):
        rows(READ, attrs.evolve(work(tmp_path), readers=readers, cancelled=is_cancelled), "bomb.html")
    assert time.monotonic() - cancelled[0] < AT_ONCE_S
    assert readers.pids == ()


def test_deep_nesting_is_an_error_and_no_crash(tmp_path: Path, readers: Readers) -> None:
    write(tmp_path, {"deep.html": "<div>" * 5_000 + "x", "good.html": "<p>good</p>"})
    error = failure(readers, tmp_path / "deep.html")
    assert (error.kind, error.message) == ("too large", "deep.html is nested too deep to be read as an HTML page")
    assert text_of(readers, tmp_path / "good.html") == "good"


def test_a_bomb_of_memory_ends_at_the_limit(tmp_path: Path) -> None:
    paragraphs = b"<w:p/>" * 5_000_000
    body = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'
    write(tmp_path, {"a.docx": making.word(), "bomb.docx": making.word_with(body % paragraphs)})
    assert (tmp_path / "bomb.docx").stat().st_size < 200_000
    readers = Readers(Bounds(memory_bytes=400 << 20))
    try:
        assert failure(readers, tmp_path / "bomb.docx").kind in ("too large", "unsupported")
        assert text_of(readers, tmp_path / "a.docx").startswith("# Supply agreement")
    finally:
        readers.close()


def test_a_huge_sheet_is_left_where_enough_was_read(tmp_path: Path, readers: Readers) -> None:
    write(
        tmp_path,
        {"huge.xlsx": making.sheet(b'<row><c t="inlineStr"><is><t>%s</t></is></c></row>' % (b"a" * 100) * 50_000)},
    )
    here = attrs.evolve(work(tmp_path, rows=2_000), readers=readers)
    with pytest.raises(ToolError) as caught:
        rows(READ_TABLE, here, "huge.xlsx", None, 0)
    assert (caught.value.kind, caught.value.message) == ("too large", "read_table gives more than 2,000 rows")
    assert soon(lambda: readers.pids == ())
    small = Readers(Bounds(output_bytes=1 << 20))
    with (tmp_path / "huge.xlsx").open("rb") as stream, pytest.raises(ToolError) as caught:
        for table in small.tables(Source("huge.xlsx", stream)):
            list(table.rows)
    assert (caught.value.kind, caught.value.message) == (
        "too large",
        "huge.xlsx could not be read: it holds more than 1 MiB",
    )
    small.close()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a library in the place of pypdf that does what a test says."""

    def put(code: str) -> None:
        folder = tmp_path / "lib"
        write(folder, {"pypdf.py": textwrap.dedent(code)})
        monkeypatch.syspath_prepend(str(folder))

    return put


def test_a_crash_is_the_error_of_one_file(tmp_path: Path, readers: Readers, library: Callable[[str], None]) -> None:
    library("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    write(tmp_path, {"a.pdf": b"%PDF-1.7", "good.html": "<p>good</p>"})
    text_of(readers, tmp_path / "good.html")
    error = failure(readers, tmp_path / "a.pdf")
    assert error.message == "a.pdf could not be read: the reader was ended by SIGSEGV"
    assert text_of(readers, tmp_path / "good.html") == "good"


def test_an_answer_that_is_none_is_an_error(tmp_path: Path, readers: Readers, library: Callable[[str], None]) -> None:
    """As from a reader that a file has taken over."""
    library(
        """
        import os, socket, sys
        line = socket.socket(fileno=int(sys.argv[1]))
        line.sendall((20).to_bytes(4, "little") + b'["text", {"a": "b"}]')
        os._exit(0)
        """
    )
    write(tmp_path, {"a.pdf": b"%PDF-1.7"})
    assert failure(readers, tmp_path / "a.pdf").message == "a.pdf could not be read: it has no such value"
    assert readers.pids == ()


def test_it_neither_writes_files_nor_sees_the_environment(
    tmp_path: Path, readers: Readers, library: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-secret")
    library(
        f"""
        import os
        from kleene.planner.errors import ToolError
        try:
            with open({str(tmp_path / "planted")!r}, "w") as file:
                file.write("x")
            said = "written"
        except OSError as error:
            said = error.strerror
        raise ToolError(f"{{said}}, {{'SECRET_KEY' in os.environ}}, {{os.getcwd()}}")
        """
    )
    write(tmp_path, {"a.pdf": b"%PDF-1.7"})
    assert failure(readers, tmp_path / "a.pdf").message == "File too large, False, /"


def test_modules_of_the_current_folder_are_not_imported(
    tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"bs4.py": "raise SystemExit", "markdownify.py": "raise SystemExit", "a.html": "<p>hello"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert text_of(readers, tmp_path / "a.html") == "hello"


# Nothing stays behind


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_neither_descriptors_nor_processes_are_left(tmp_path: Path) -> None:
    write(tmp_path, {"bomb.html": BOMB, "a.html": "<p>a</p>"})
    before = descriptors()
    readers = Readers()
    for _ in range(3):
        text_of(readers, tmp_path / "a.html")
        failure(readers, tmp_path / "bomb.html", seconds=0.05)
    text_of(readers, tmp_path / "a.html")
    (last,) = readers.pids
    readers.close()
    assert not lives(last)
    assert descriptors() == before
    forgotten = Readers()
    text_of(forgotten, tmp_path / "a.html")
    (last,) = forgotten.pids
    del forgotten
    assert not lives(last)
    assert descriptors() == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("busy", ["in Python", "holding the interpreter"])
def test_it_does_not_outlive_a_killed_kleene(tmp_path: Path, busy: str) -> None:
    write(tmp_path, {"bomb.html": BOMB, "a.pdf": b"%PDF-1.7"})
    write(tmp_path / "lib", {"pypdf.py": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')"})
    program = f"""
        import sys, threading, time
        sys.path.insert(0, {str(tmp_path / "lib")!r})
        from kleene.tools.documents import Source
        from kleene.tools.reading_apart import Readers
        readers = Readers()
        stream = open({str(tmp_path / ("bomb.html" if busy == "in Python" else "a.pdf"))!r}, "rb")
        threading.Thread(target=lambda: readers.text(Source(stream.name, stream)), daemon=True).start()
        while not readers.pids:
            time.sleep(0.01)
        time.sleep(1)
        print(*readers.pids, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert lives(pid)
        process.send_signal(signal.SIGKILL)
    assert soon(lambda: not lives(pid), 2)


# In statements, in the index, as a context


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_an_engine_has_one_process_from_the_first_document_to_its_close(tmp_path: Path) -> None:
    write(tmp_path, {f"{n}.html": f"<p>{n}</p>" for n in range(12)} | {"a.md": "plain"})

    def children() -> set[int]:
        found: set[int] = set()
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="utf-8") as file:
                found |= set(map(int, file.read().split()))
        return found

    before = children()
    with engine(CountingModel(), workspace=tmp_path) as (k, _):
        assert k.sql("SELECT text FROM read('a.md')").fetchall() == [("plain",)]
        assert children() == before
        sql = "SELECT sum(r.text::INT) FROM files('*.html') f, LATERAL read(f.path) r"
        assert k.sql(sql).fetchall() == [(66,)]
        assert 1 <= len(children() - before) <= MOST
    assert children() == before


def test_a_statement_that_is_cancelled_ends_the_reader(tmp_path: Path) -> None:
    write(tmp_path, {"bomb.html": BOMB})
    with engine(CountingModel(), workspace=tmp_path) as (k, _):
        timer = threading.Timer(0.5, k.cancel)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(Cancelled):
            k.sql("SELECT * FROM read('bomb.html')")
        assert time.monotonic() - begun < 5
        timer.join()


def test_a_hostile_document_does_not_keep_the_others_out_of_the_index(
    tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "DOCUMENT_SECONDS", 1.5)
    write(tmp_path, {"a.html": BOMB + "needle", "b.html": "<p>needle</p>", "c.txt": "needle"})
    here: Work = attrs.evolve(work(tmp_path), readers=readers)
    assert {row[0] for row in rows(SEARCH, here, "needle")} == {"b.html", "c.txt"}


def test_a_context_with_a_hostile_document_can_be_cancelled(tmp_path: Path) -> None:
    write(tmp_path, {"bomb.html": BOMB})
    with engine(CountingModel()) as (k, _):
        timer = threading.Timer(1.0, k.cancel)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(kleene.Cancelled):
            k.run("what is it?", context=[tmp_path / "bomb.html"])
        assert time.monotonic() - begun < 10
        timer.join()
