"""Packs: a TOML or JSON file of tasks with what decides them, read strictly.

    name = "logbook-hard"
    description = "..."
    license = "MIT"
    kind = "long-context"

    [[tasks]]
    id = "by-hand"
    task = "How many lines has notes.txt?"
    setup = ["printf 'a\\nb\\n' > notes.txt"]
    allow = ["shell"]
    verify = {oracle = "number", value = 2}

    [[tasks]]
    id = "made"
    from = {generator = "logbook", dial = 0.9, seed = 7}

A task with ``from`` keeps these three only; ``Pack.ready`` makes the rest of it when it is needed, the same bytes each time. Fields that the
task has itself stand before what the generator made.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import GenericAlias
from typing import Any, get_args

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from kleene.bench.generators import GENERATORS, generate
from kleene.bench.generators.example import Example
from kleene.bench.oracles.oolong import odd_ones
from kleene.bench.verify import ORACLES, Cell, Number, Oolong, Sat, Verify, oracle_name
from kleene.planner.errors import ConfigError, did_you_mean

NAMES = ("pack.toml", "pack.json")
DIFFICULTY = 1000.0
MAX_VARIABLES = 22
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@attrs.frozen
class Source:
    """The arguments of a generator: ``dial`` from 0 (easy) to 1, ``seed`` 0 or more."""

    generator: str
    dial: float
    seed: int


@attrs.frozen
class Task:
    """A task as its pack has it; None and empty for what is not there. ``context_file`` is a path from the pack's folder. ``setup`` are commands
    that run in the workspace before the task, ``check`` is one that must succeed before an answer is taken; ``continues`` names an earlier task
    whose workspace this one goes on in; ``allow`` are the tools with effects that the model may use; ``sql`` is the reference in CallSQL."""

    id: str
    task: str | None = None
    kind: str | None = None
    context: str | None = None
    context_file: str | None = None
    source: Source | None = None
    setup: tuple[str, ...] = ()
    continues: str | None = None
    check: str | None = None
    verify: Verify | None = None
    difficulty: float | None = None
    allow: tuple[str, ...] = ()
    sql: str | None = None


@attrs.frozen
class Ready:
    """A task with everything it needs: text and truth, the context read or made. ``folder`` is the pack's: what ``setup`` and an oracle's command
    may read besides the workspace."""

    id: str
    kind: str
    task: str
    context: str | None
    verify: Verify
    difficulty: float
    sql: str | None
    setup: tuple[str, ...] = ()
    check: str | None = None
    allow: tuple[str, ...] = ()
    folder: Path | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Pack:
    """``digest`` is the SHA-256 (hex) of the pack's file: results of another text of it are not mixed. ``folder`` holds its context files."""

    name: str
    description: str
    license: str
    kind: str
    tasks: tuple[Task, ...]
    folder: Path = Path()
    digest: str = ""

    def ready(self, task: Task) -> Ready:
        """Make or read what the task needs. Nothing of it is kept here. Raises ``ConfigError`` for a context file that cannot be read."""
        source, made = task.source, None
        if source is not None:
            made = generate(source.generator, source.dial, source.seed)
        verify = task.verify or (made.verify if made else None)
        text = task.task or (made.task if made else None)
        assert verify is not None and text is not None  # a pack without them is not read
        prior = made.difficulty if made else DIFFICULTY
        return Ready(
            id=task.id,
            kind=task.kind or (made.kind if made else self.kind),
            task=text,
            context=self._context(task, made),
            verify=verify,
            difficulty=prior if task.difficulty is None else task.difficulty,
            sql=task.sql or (made.sql if made else None),
            setup=task.setup or (made.setup if made else ()),
            check=task.check,
            allow=task.allow,
            folder=self.folder,
        )

    def _context(self, task: Task, made: Example | None) -> str | None:
        if task.context is not None:
            return task.context
        if task.context_file is None:
            return made.context if made else None
        path = self.folder / task.context_file
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"task {task.id}: {path} cannot be read: {error}", hint="context_file is a path from the pack's folder"
            ) from None

    def episodes(self) -> tuple[tuple[Task, ...], ...]:
        """The tasks by workspace: one that continues none, then those that go on from it, in the pack's order."""
        roots: dict[str, str] = {}
        found: dict[str, list[Task]] = {}
        for task in self.tasks:
            root = roots[task.continues] if task.continues else task.id
            roots[task.id] = root
            found.setdefault(root, []).append(task)
        return tuple(tuple(tasks) for tasks in found.values())


def read_pack(path: str | Path) -> Pack:
    """A pack from its file, or from the ``pack.toml`` or ``pack.json`` of a folder. Raises ``ConfigError`` that names the place and the fix."""
    file = _file(Path(path))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the pack {file} cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
        body = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        language = "JSON" if file.suffix == ".json" else "TOML"
        raise ConfigError(
            f"{file} is not {language}: {error}", hint="check quotes, commas and brackets at that place"
        ) from None
    try:
        pack: Pack = _converter().structure(body, Pack)
    except (cattrs.BaseValidationError, cattrs.StructureHandlerNotFoundError, TypeError) as error:
        raise _unreadable(file, error) from None
    pack = attrs.evolve(pack, folder=file.parent, digest=hashlib.sha256(data).hexdigest())
    _check(pack, file)
    return pack


def _file(path: Path) -> Path:
    if path.is_dir():
        found = [path / name for name in NAMES if (path / name).is_file()]
        if len(found) != 1:
            have = "both" if found else "none"
            raise ConfigError(f"{path} has {have} of {' and '.join(NAMES)}", hint="a pack is a folder with one of them")
        return found[0]
    if not path.is_file():
        raise ConfigError(f"there is no pack {path}", hint="give a pack's folder or its file, as tasks/packs/terminal")
    if path.suffix not in (".toml", ".json"):
        raise ConfigError(f"{path} is no pack", hint="a pack's file ends in .toml or .json")
    return path


# Reading: what is not of the declared type is an error, never converted.


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for plain in (str, int, float, bool):
        converter.register_structure_hook(plain, _strictly(plain))
    converter.register_structure_hook_func(lambda kind: kind == Cell, _cell)
    converter.register_structure_hook_factory(
        lambda kind: getattr(kind, "__origin__", None) is tuple, lambda kind: _list(converter, kind)
    )
    converter.register_structure_hook_func(
        lambda kind: kind in (Verify, Verify | None), lambda value, _: _verify(converter, value)
    )
    classes: dict[Any, dict[str, Any]] = {
        Pack: {"folder": override(omit=True), "digest": override(omit=True)},
        Task: {"source": override(rename="from")},
        Source: {},
        **{oracle: {} for oracle in ORACLES},
    }
    for kind, fields in classes.items():
        made = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True, **fields)
        converter.register_structure_hook(kind, _table(made))
    return converter


def _table(structure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(value: Any, kind: Any) -> Any:
        return structure(_strictly(dict)(value, kind), kind)

    return checked


def _list(converter: cattrs.Converter, kind: Any) -> Callable[[Any, Any], Any]:
    items: Any = GenericAlias(list, get_args(kind)[:1])

    def structure(value: Any, _: Any) -> Any:
        return tuple(converter.structure(_strictly(list)(value, kind), items))

    return structure


def _strictly(kind: type) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise TypeError(f"{_word(kind)} is needed, not {_word(type(value))}")
        return value

    return structure


def _cell(value: Any, _: Any) -> Cell:
    if value is not None and type(value) not in (str, int, float, bool):
        if hasattr(value, "isoformat"):  # a date of TOML
            return str(value)
        raise TypeError(f"a text, a number or true or false is needed, not {_word(type(value))}")
    return value  # type: ignore[no-any-return]


def _verify(converter: cattrs.Converter, value: Any) -> Verify:
    kinds = {oracle_name(kind): kind for kind in ORACLES}
    if type(value) is not dict or "oracle" not in value:
        raise TypeError('{oracle = "...", ...} is needed')
    if value["oracle"] not in kinds:
        near = did_you_mean(str(value["oracle"]), kinds)
        raise TypeError(f"there is no oracle {value['oracle']!r}: " + (f"{near}?" if near else ", ".join(kinds)))
    fields = {name: given for name, given in value.items() if name != "oracle"}
    return converter.structure(fields, kinds[value["oracle"]])


_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


def _word(kind: type) -> str:
    return _WORDS.get(kind, f"a value of type {kind.__name__}")


def _unreadable(file: Path, error: BaseException) -> ConfigError:
    problems = cattrs.transform_error(error, format_exception=_said) if isinstance(error, cattrs.BaseValidationError) else [str(error)]  # fmt: skip
    problems.sort(
        key=lambda problem: not problem.startswith("there is no field")
    )  # a misspelt field is a missing one too
    first = problems[0].replace(" @ $", " at ", 1).replace("at .", "at ")
    more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
    return ConfigError(f"{file}: {first}{more}", hint="docs/bench.md has the fields of a pack, a task and each oracle")


def _said(error: BaseException, kind: type | None) -> str:
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [("from" if f.name == "source" else f.name) for f in attrs.fields(error.cl)]
        near = {name: did_you_mean(name, known) for name in sorted(error.extra_fields)}
        return "there is no field " + ", ".join(f"{n} (did you mean {m}?)" if m else n for n, m in near.items())
    if isinstance(error, KeyError):
        return "a field is missing"
    return str(error)


# Checking: what a type does not say.


def _check(pack: Pack, file: Path) -> None:
    def wrong(where: str, what: str, hint: str) -> ConfigError:
        return ConfigError(f"{file}: {where}: {what}", hint=hint)

    if not _ID.fullmatch(pack.name):
        raise wrong(
            "name", f"{pack.name!r} is no name", "letters, digits, dots, dashes and underscores, without blanks"
        )
    if not pack.tasks:
        raise wrong("tasks", "there are none", "a pack has at least one [[tasks]]")
    seen: set[str] = set()
    for number, task in enumerate(pack.tasks, 1):
        where = f"task {task.id or number}"
        if not _ID.fullmatch(task.id):
            raise wrong(where, f"{task.id!r} is no id", "letters, digits, dots, dashes and underscores, without blanks")
        if task.id in seen:
            raise wrong(where, "the id stands twice", "give each task an id of its own")
        if task.continues is not None and task.continues not in seen:
            near = did_you_mean(task.continues, seen)
            raise wrong(
                where,
                f"it continues {task.continues}, which is no earlier task",
                f"did you mean {near}?" if near else "name a task that stands above it",
            )
        seen.add(task.id)
        for what, hint in _problems(pack, file, task):
            raise wrong(where, what, hint)


def _problems(pack: Pack, file: Path, task: Task) -> list[tuple[str, str]]:
    found = []
    if task.context is not None and task.context_file is not None:
        found.append(("it has context and context_file", "leave one of them out"))
    if task.context_file is not None and not (file.parent / task.context_file).is_file():
        found.append((f"there is no file {task.context_file}", f"paths start in {file.parent}"))
    if task.source is None:
        for name, value in (("task", task.task), ("verify", task.verify)):
            if not value:
                found.append((f"it has no {name}", f"write {name}, or from = {{generator, dial, seed}}"))
    else:
        found += _source_problems(task.source)
    if task.verify is not None:
        found += _verify_problems(task.verify)
    return found


def _source_problems(source: Source) -> list[tuple[str, str]]:
    found = []
    if source.generator not in GENERATORS:
        near = did_you_mean(source.generator, GENERATORS)
        hint = f"did you mean {near}?" if near else f"the generators are {', '.join(GENERATORS)}"
        found.append((f"there is no generator {source.generator}", hint))
    if not 0.0 <= source.dial <= 1.0:
        found.append((f"dial is {source.dial}", "dial is a number from 0 (easy) to 1"))
    if source.seed < 0:
        found.append((f"seed is {source.seed}", "seed is a whole number, 0 or more"))
    return found


def _verify_problems(verify: Verify) -> list[tuple[str, str]]:
    if isinstance(verify, Number) and not (0.0 <= verify.tolerance < math.inf and abs(verify.value) < math.inf):
        return [
            ("verify has no finite value with a finite tolerance of 0 or more", "verify = {oracle, value, tolerance}")
        ]
    if isinstance(verify, Oolong):
        kinds = ("label", "date", "id", "comparison", "number")
        if verify.kind not in kinds or not verify.gold:
            return [(f"verify has kind {verify.kind!r} and {len(verify.gold)} gold answers", f"kind is one of {', '.join(kinds)}, gold a list")]  # fmt: skip
        if odd := odd_ones(verify.kind, verify.gold):
            return [(f"verify has {odd[0]!r} in gold, which is no {verify.kind}", "a number in digits, a date as YYYY-MM-DD")]  # fmt: skip
    if isinstance(verify, Sat):
        literals = [literal for clause in verify.clauses for literal in clause]
        if not 0 < verify.variables <= MAX_VARIABLES:
            return [(f"verify has {verify.variables} variables", f"1 to {MAX_VARIABLES} can be searched through")]
        if not all(0 < abs(literal) <= verify.variables for literal in literals):
            return [("a clause names no variable of its own", f"literals are 1 to {verify.variables}, or minus that")]
    return []
