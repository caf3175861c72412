"""Packs are read strictly, and what they generate is made when it is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kleene.bench.pack import Pack, Ready, Source, read_pack
from kleene.bench.verify import Exact, Human, Judge, Number, Oolong, Redline, Sat, Shell, Verify
from kleene.planner.errors import ConfigError

HEAD = 'name = "small"\ndescription = "A pack."\nlicense = "MIT"\nkind = "counting"\n'
TASK = '[[tasks]]\nid = "a"\ntask = "How many?"\nverify = {oracle = "number", value = 3}\n'


def packed(folder: Path, body: str, *, head: str = HEAD) -> Pack:
    (folder / "pack.toml").write_text(head + body, "utf-8")
    return read_pack(folder)


def ready(pack: Pack, number: int = 0) -> Ready:
    return pack.ready(pack.tasks[number])


def test_a_task_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Grüße\n", "utf-8")
    pack = packed(
        tmp_path,
        TASK
        + 'context_file = "notes.txt"\nsetup = ["true"]\ncheck = "test -f a"\ndifficulty = 1234\nallow = ["shell"]\n'
        + 'sql = "SELECT 3"\nkind = "own"\n',
    )
    assert (pack.name, pack.description, pack.license, pack.kind) == ("small", "A pack.", "MIT", "counting")
    assert ready(pack) == Ready(
        "a", "own", "How many?", "Grüße\n", Number(3.0), 1234.0, "SELECT 3", ("true",), "test -f a", ("shell",)
    )


def test_what_is_left_out_comes_from_the_pack(tmp_path: Path) -> None:
    assert ready(packed(tmp_path, TASK)) == Ready("a", "counting", "How many?", None, Number(3.0), 1000.0, None)


def test_a_generated_task_is_made_when_it_is_needed(tmp_path: Path) -> None:
    pack = packed(
        tmp_path, "tasks = [" + ", ".join(f'{{id = "t{n}", from = {{generator = "logbook", dial = 1, seed = {n}}}}}' for n in range(1000)) + "]"
    )  # fmt: skip
    assert pack.tasks[7].source == Source("logbook", 1.0, 7)
    assert all(task.context is None for task in pack.tasks)
    assert ready(pack, 7) == ready(pack, 7) != ready(pack, 8)
    assert (ready(pack).kind, ready(pack).difficulty, len(ready(pack).context or "") > 90_000) == (
        "logbook",
        1600.0,
        True,
    )


def test_a_tasks_own_fields_stand_before_the_generated_ones(tmp_path: Path) -> None:
    pack = packed(
        tmp_path,
        '[[tasks]]\nid = "a"\nfrom = {generator = "puzzle", dial = 0, seed = 1}\ntask = "Own."\ncontext = ""\ndifficulty = 1\n'
        'kind = "k"\nsql = "SELECT 1"\nverify = {oracle = "human"}\n',
    )
    assert ready(pack) == Ready("a", "k", "Own.", "", Human(), 1.0, "SELECT 1")


def test_json_is_read_as_toml_is(tmp_path: Path) -> None:
    body: dict[str, Any] = {"name": "small", "description": "", "license": "MIT", "kind": "k"}
    body["tasks"] = [{"id": "a", "task": "?", "verify": {"oracle": "exact", "rows": [["x", None, 1, 2.5, True], []]}}]
    (tmp_path / "pack.json").write_text(json.dumps(body), "utf-8")
    assert ready(read_pack(tmp_path)).verify == Exact((("x", None, 1, 2.5, True), ()))
    assert read_pack(tmp_path / "pack.json") == read_pack(tmp_path)


@pytest.mark.parametrize(
    ("text", "verify"),
    [
        ('{oracle = "exact", rows = [["a", 2026-01-05]]}', Exact((("a", "2026-01-05"),))),
        ('{oracle = "number", value = -1.5, tolerance = 0.1}', Number(-1.5, 0.1)),
        ('{oracle = "sat", variables = 2, clauses = [[1, -2]]}', Sat(2, ((1, -2),))),
        ('{oracle = "shell", command = "test -f a"}', Shell("test -f a")),
        ('{oracle = "judge", rubric = "r", reference = "f"}', Judge("r", "f")),
        ('{oracle = "oolong", kind = "label", gold = ["a", "b"]}', Oolong("label", ("a", "b"))),
        ('{oracle = "redline", original = "a", reference = "b"}', Redline("a", "b")),
        ('{oracle = "human"}', Human()),
    ],
)
def test_every_oracle_is_read(tmp_path: Path, text: str, verify: Verify) -> None:
    assert ready(packed(tmp_path, f'[[tasks]]\nid = "a"\ntask = "?"\nverify = {text}\n')).verify == verify


def test_episodes_are_chains_of_tasks(tmp_path: Path) -> None:
    body = "".join(
        f'[[tasks]]\nid = "{name}"\ntask = "?"\nverify = {{oracle = "human"}}\n' + (f'continues = "{before}"\n' if before else "")
        for name, before in [("a", ""), ("b", ""), ("c", "a"), ("d", "c"), ("e", "b")]
    )  # fmt: skip
    pack = packed(tmp_path, body)
    assert [[task.id for task in episode] for episode in pack.episodes()] == [["a", "c", "d"], ["b", "e"]]


def test_the_digest_is_of_the_file(tmp_path: Path) -> None:
    one = packed(tmp_path, TASK).digest
    assert one == packed(tmp_path, TASK).digest != packed(tmp_path, TASK + "# more\n").digest


DOCS = "docs/bench.md has the fields of a pack, a task and each oracle"


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (TASK + "checks = 'x'\n", "there is no field checks (did you mean check?) at tasks[0]", DOCS),
        (TASK + "allow = 'x'\n", "a list is needed, not a text at tasks[0].allow", DOCS),
        (TASK + "setup = [3]\n", "a text is needed, not a whole number at tasks[0].setup[0]", DOCS),
        (TASK + "difficulty = true\n", "a number is needed, not true or false at tasks[0].difficulty", DOCS),
        ('[[tasks]]\ntask = "?"\n', "a field is missing at tasks[0].id", DOCS),
        (TASK.replace('"number"', '"numbr"'), "there is no oracle 'numbr': number? at tasks[0].verify", DOCS),
        (TASK.replace("value", "vlue"), "there is no field vlue (did you mean value?) at tasks[0].verify (and 1 more)", DOCS),
        (TASK.replace('{oracle = "number", value = 3}', "3"), '{oracle = "...", ...} is needed at tasks[0].verify', DOCS),
        (TASK + TASK, "task a: the id stands twice", "give each task an id of its own"),
        (TASK.replace('"a"', '"a/b"'), "task a/b: 'a/b' is no id", "letters, digits, dots, dashes and underscores, without blanks"),
        (TASK + 'continues = "a"\n', "task a: it continues a, which is no earlier task", "name a task that stands above it"),
        (TASK + TASK.replace('"a"', '"alpha2"') + TASK.replace('"a"', '"b"') + 'continues = "alpha"\n', "task b: it continues alpha, which is no earlier task", "did you mean alpha2?"),
        (TASK + 'context = "x"\ncontext_file = "pack.toml"\n', "task a: it has context and context_file", "leave one of them out"),
        (TASK + 'context_file = "gone.txt"\n', "task a: there is no file gone.txt", "paths start in FOLDER"),
        ('[[tasks]]\nid = "a"\ntask = "?"\n', "task a: it has no verify", "write verify, or from = {generator, dial, seed}"),
        ('[[tasks]]\nid = "a"\nfrom = {generator = "logbok", dial = 0.5, seed = 1}\n', "task a: there is no generator logbok", "did you mean logbook?"),
        ('[[tasks]]\nid = "a"\nfrom = {generator = "graph", dial = 1.5, seed = 1}\n', "task a: dial is 1.5", "dial is a number from 0 (easy) to 1"),
        ('[[tasks]]\nid = "a"\nfrom = {generator = "graph", dial = nan, seed = 1}\n', "task a: dial is nan", "dial is a number from 0 (easy) to 1"),
        ('[[tasks]]\nid = "a"\nfrom = {generator = "graph", dial = 1, seed = -1}\n', "task a: seed is -1", "seed is a whole number, 0 or more"),
        (TASK.replace("value = 3", "value = nan"), "task a: verify has no finite value with a finite tolerance of 0 or more", "verify = {oracle, value, tolerance}"),
        (TASK.replace("value = 3", "value = 3, tolerance = inf"), "task a: verify has no finite value with a finite tolerance of 0 or more", "verify = {oracle, value, tolerance}"),
        (TASK.replace('"number", value = 3', '"sat", variables = 2, clauses = [[3]]'), "task a: a clause names no variable of its own", "literals are 1 to 2, or minus that"),
        (TASK.replace('"number", value = 3', '"sat", variables = 23, clauses = []'), "task a: verify has 23 variables", "1 to 22 can be searched through"),
        (TASK.replace('"number", value = 3', '"oolong", kind = "word", gold = []'), "task a: verify has kind 'word' and 0 gold answers", "kind is one of label, date, id, comparison, number, gold a list"),
        (TASK.replace('"number", value = 3', '"oolong", kind = "number", gold = ["3", "abc"]'), "task a: verify has 'abc' in gold, which is no number", "a number in digits, a date as YYYY-MM-DD"),
        ("tasks = []", "tasks: there are none", "a pack has at least one [[tasks]]"),
        ("tasks = {", "is not TOML", "check quotes, commas and brackets at that place"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, body: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        packed(tmp_path, body)
    said = caught.value.message
    assert said.startswith(f"{tmp_path / 'pack.toml'}")
    assert said.endswith(f": {message}") or (message == "is not TOML" and message in said)
    assert caught.value.hint == hint.replace("FOLDER", str(tmp_path))


def test_a_pack_that_is_not_there(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path, f"{tmp_path} has none of pack.toml and pack.json"),
        (tmp_path / "x.toml", f"there is no pack {tmp_path / 'x.toml'}"),
    ]:
        with pytest.raises(ConfigError) as caught:
            read_pack(path)
        assert caught.value.message == message


def test_a_pack_of_another_shape(tmp_path: Path) -> None:
    (tmp_path / "pack.json").write_text("[]", "utf-8")
    with pytest.raises(ConfigError):
        read_pack(tmp_path)
