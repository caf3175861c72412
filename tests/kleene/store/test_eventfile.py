"""kleene.store.eventfile: lines that a second process can trust."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kleene.store import read_events
from kleene.store.eventfile import EventFile, events_path, older


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.events.jsonl"


def event(n: object) -> dict[str, object]:
    return {"event": "RunStarted", "run": n}


def numbers(path: Path) -> list[object]:
    return [e["run"] for e in read_events(path)]


def test_events_come_back_in_order_and_the_file_is_private(path: Path) -> None:
    file = EventFile(path)
    file.append([event(1), event(2)])
    file.append([])
    file.append([event(3)])
    file.close()
    assert numbers(path) == [1, 2, 3]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_that_is_missing_has_no_events(path: Path) -> None:
    assert numbers(path) == []


@pytest.mark.parametrize(
    "text", ["a\nb", "\0", "\u2028", "\U0001f600", '"\\'], ids=["newline", "NUL", "separator", "emoji", "quotes"]
)
def test_any_text_stays_on_its_line(path: Path, text: str) -> None:
    file = EventFile(path)
    file.append([event(text), event(2)])
    file.close()
    assert numbers(path) == [text, 2]


def test_a_lone_surrogate_is_mended(path: Path) -> None:
    file = EventFile(path)
    file.append([event("a\ud83d"), event("\ud83d\ude00")])
    file.close()
    assert numbers(path) == ["a\ufffd", "\U0001f600"]


def test_a_torn_line_costs_only_itself(path: Path) -> None:
    path.write_bytes(b'{"event":"RunStarted","run":1}\n{"event":"RunSta')
    assert numbers(path) == [1]
    file = EventFile(path)
    file.append([event(2)])
    file.close()
    assert numbers(path) == [1, 2]


def test_a_write_that_broke_off_is_made_up_for_whatever_comes_between(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, write = EventFile(path), os.write

    def full(descriptor: int, data: bytes) -> int:
        write(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(os, "write", full)
        file.append([event(1)])
    file.append([])
    file.append([event(2)])
    file.close()
    assert numbers(path) == [2]


def test_lines_that_are_no_events_are_left_out(path: Path) -> None:
    path.write_bytes(b'[1]\n\n{"run":1}\n\xff\xfe\n{"event":"RunStarted","run":5}\n')
    assert numbers(path) == [5]


def test_a_full_file_moves_aside_and_is_still_read(path: Path) -> None:
    file = EventFile(path, rotate_bytes=100)
    for n in range(6):
        file.append([event(f"{n}" * 60)])
    file.close()
    assert [str(n)[0] for n in numbers(path)] == ["2", "3", "4", "5"]
    assert older(path).exists()


def test_two_writers_of_one_file_do_not_mix_lines(path: Path) -> None:
    first, second = EventFile(path, rotate_bytes=300), EventFile(path, rotate_bytes=300)
    for n in range(4):
        first.append([event(f"a{n}"), event(f"b{n}")])
        second.append([event(f"c{n}")])
    first.close()
    second.close()
    assert sorted(map(str, numbers(path))) == sorted(f"{c}{n}" for n in range(4) for c in "abc")


def test_a_file_that_was_removed_is_made_again(path: Path) -> None:
    file = EventFile(path)
    file.append([event(1)])
    path.unlink()
    file.append([event(2)])
    file.close()
    assert numbers(path) == [2]


def test_the_file_lies_beside_the_store() -> None:
    assert events_path(Path("x/run.duckdb")) == Path("x/run.events.jsonl")
    assert events_path(Path("x/store")) == Path("x/store.events.jsonl")
