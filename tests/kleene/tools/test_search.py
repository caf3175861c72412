from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kleene.planner.errors import Cancelled, ToolError
from kleene.tools.base import Work
from kleene.tools.index import SearchIndex
from kleene.tools.jail import Jail
from kleene.tools.standard import SEARCH
from tests.kleene.tools.working import rows, work, write


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Work]:
    index = SearchIndex(str(tmp_path))
    yield attrs.evolve(work(tmp_path), index=index)
    index.close()


def paths(where: Path | Work, *arguments: object) -> list[str]:
    return [row[0] for row in rows(SEARCH, where, *arguments)]


def bm25(texts: dict[str, str], query: str) -> list[tuple[str, float]]:
    """The formula by hand."""
    words = {path: re.findall(r"[^\W_]+", text.lower()) for path, text in texts.items()}
    mean = max(1.0, sum(map(len, words.values())) / len(words))
    scores = {}
    for path, held in words.items():
        counts, total = Counter(held), 0.0
        for word in set(re.findall(r"[^\W_]+", query.lower())):
            n = sum(word in other for other in words.values())
            if counts[word]:
                weight = math.log(1 + (len(words) - n + 0.5) / (n + 0.5))
                total += weight * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * len(held) / mean))
        if total:
            scores[path] = round(total, 6)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


WORDS = st.lists(st.sampled_from(["cat", "dog", "Cat", "bird", "fish", "cow,", "\n", "dog_cat"]), max_size=15).map(
    " ".join
)


@settings(max_examples=8, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_files_are_ranked_by_bm25(tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str) -> None:
    named = {f"{i}.txt": text for i, text in enumerate(texts)}
    root = write(tmp_path_factory.mktemp("work"), named)
    found = rows(SEARCH, root, query, None, 99)
    scores = {row[0]: row[4] for row in found}
    assert scores == pytest.approx(dict(bm25(named, query)), abs=2e-6)
    assert list(scores) == sorted(scores, key=lambda path: (-scores[path], path))
    assert [row[3] for row in found] == list(range(1, len(found) + 1))


def test_each_file_comes_with_its_best_line(indexed: Work, tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.md": "cost\n\nrecall\n  the cost of a recall  \ncost of recall", "b.md": "recall", "c.md": "nothing"},
    )
    assert [row[:4] for row in rows(SEARCH, indexed, "recall cost?")] == [
        ("a.md", 4, "the cost of a recall", 1),
        ("b.md", 1, "recall", 2),
    ]
    assert paths(indexed, "recall", "b*") == ["b.md"]
    assert paths(indexed, "recall", None, 1) == ["b.md"]
    assert paths(indexed, "!?") == paths(indexed, "") == paths(indexed, "absent") == []


def test_words_are_compared_without_case_and_accents(indexed: Work, tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "Ein CAFÉ in Köln", "b.txt": "東京都に行く", "c.py": "def read_table(path): pass"})
    assert paths(indexed, "cafe koln") == ["a.txt"]
    assert paths(indexed, "京都") == ["b.txt"]
    assert paths(indexed, "table") == ["c.py"]


def test_what_changes_is_seen_and_what_does_not_is_not_read_again(indexed: Work, tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "apple", "b.txt": "apple pear", "d/c.txt": "apple"})
    assert sorted(paths(indexed, "apple")) == ["a.txt", "b.txt", "d/c.txt"]
    write(tmp_path, {"a.txt": "plum", "new.txt": "apple"})
    (tmp_path / "d" / "c.txt").unlink()
    assert sorted(paths(indexed, "apple")) == ["b.txt", "new.txt"]
    assert paths(indexed, "plum") == ["a.txt"]
    status = (tmp_path / "b.txt").stat()
    (tmp_path / "b.txt").write_bytes(b"grape fig.")
    os.utime(tmp_path / "b.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert paths(indexed, "pear") == ["b.txt"]  # same size, same time: not read again
    write(tmp_path, {".gitignore": "new.txt"})
    assert paths(indexed, "apple") == ["b.txt"]


def test_a_statement_looks_at_the_workspace_once(indexed: Work, tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "apple"})
    first = attrs.evolve(indexed, statement="s1")
    assert paths(first, "apple") == ["a.txt"]
    write(tmp_path, {"b.txt": "apple"})
    assert paths(first, "apple") == ["a.txt"]
    assert paths(attrs.evolve(indexed, statement="s2"), "apple") == ["a.txt", "b.txt"]
    write(tmp_path, {"c.txt": "apple"})
    assert paths(indexed, "apple") == ["a.txt", "b.txt", "c.txt"]


def test_an_index_that_is_not_done_in_time_is_gone_on_with(
    indexed: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kleene.tools import index as module

    monkeypatch.setattr(module, "BATCH_CHARACTERS", 10)
    write(tmp_path, {f"{i}.txt": "apple" for i in range(6)})
    left = [8]

    def cancelled() -> bool:  # the time is over after so many looks
        left[0] -= 1
        return False

    class Late(Work):
        def check(self) -> None:
            if left[0] <= 0:
                raise ToolError("late", kind="timed out")
            super().check()

    late = Late(indexed.workspace, cancelled=cancelled, index=indexed.index, statement="s1")
    with pytest.raises(ToolError) as caught:
        rows(SEARCH, late, "apple")
    assert caught.value.message == "the workspace's index is not done yet"
    assert caught.value.hint == "what was read is kept: search again to go on"
    with indexed.index.session(lambda: None) as session:  # type: ignore[union-attr]
        ((kept,),) = session.connection.execute("SELECT count(*) FROM files").fetchall()
    assert 0 < kept < 6
    assert len(paths(attrs.evolve(indexed, statement="s1"), "apple")) == 6


def test_binary_and_large_files_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.bin": b"apple\0", "b.txt": "apple " * 100, "c.txt": "apple", "bad.pdf": b"%PDF- apple", ".git/x": "apple"},
    )
    assert paths(work(tmp_path, file_bytes=500), "apple") == ["c.txt"]


def test_documents_are_searched_by_their_text(indexed: Work, tmp_path: Path) -> None:
    pytest.importorskip("docx")
    from tests.kleene.tools import making

    write(tmp_path, {"a.docx": making.word(), "b.txt": "term"})
    found = rows(SEARCH, indexed, "signed agreement")
    assert [row[:3] for row in found] == [("a.docx", 1, "# Supply agreement")]


def test_the_index_is_kept(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "apple"})
    for expected in (["a.txt"], ["a.txt", "b.txt"]):
        index = SearchIndex(str(tmp_path))
        assert paths(Work(Jail.of(tmp_path), index=index), "apple") == expected
        index.close()
        write(tmp_path, {"b.txt": "apple"})
    assert (tmp_path / ".kleene" / "search.duckdb").is_file()


@pytest.mark.parametrize(
    "content", [b"", b"no database" * 1_000, "another"], ids=["empty", "garbage", "another database"]
)
def test_an_index_that_cannot_be_used_is_made_anew(tmp_path: Path, content: bytes | str) -> None:
    write(tmp_path, {"a.txt": "apple", ".kleene/search.duckdb": b""})
    path = tmp_path / ".kleene" / "search.duckdb"
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        import duckdb

        with duckdb.connect(path) as connection:
            connection.execute("CREATE TABLE files(x INT); CREATE TABLE version AS SELECT 0 AS number")
    index = SearchIndex(str(tmp_path))
    assert paths(Work(Jail.of(tmp_path), index=index), "apple") == ["a.txt"]
    index.close()


def test_an_index_that_another_process_has_is_made_in_memory(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "apple", ".kleene/x": ""})
    program = f"import duckdb, sys; c = duckdb.connect({str(tmp_path / '.kleene' / 'search.duckdb')!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        index = SearchIndex(str(tmp_path))
        assert paths(Work(Jail.of(tmp_path), index=index), "apple") == ["a.txt"]
        index.close()
        other.stdin.close()


def test_an_index_folder_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    write(root, {"a.txt": "apple"})
    outside.mkdir()
    (root / ".kleene").symlink_to(outside)
    index = SearchIndex(str(root))
    assert paths(Work(Jail.of(root), index=index), "apple") == ["a.txt"]
    index.close()
    assert list(outside.iterdir()) == []


def test_threads_share_an_index(indexed: Work, tmp_path: Path) -> None:
    write(tmp_path, {f"{i}.txt": f"apple word{i}" for i in range(30)})
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda i=i: found.append(paths(indexed, f"word{i}"))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[f"{i}.txt"] for i in range(8)]


def test_a_search_that_waits_can_be_cancelled(indexed: Work) -> None:
    assert indexed.index is not None
    with indexed.index.session(lambda: None):
        with pytest.raises(Cancelled):
            rows(SEARCH, Work(indexed.workspace, cancelled=lambda: True, index=indexed.index), "x")


def test_bad_arguments(tmp_path: Path) -> None:
    for arguments in (("x", None, 0), ("x", "")):
        with pytest.raises(ToolError) as caught:
            rows(SEARCH, tmp_path, *arguments)
        assert caught.value.kind == "invalid arguments"
