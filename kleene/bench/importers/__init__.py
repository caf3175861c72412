"""Packs from other benches' files. Nothing is fetched: each importer reads what lies on the disk, strictly, and names file and row of what is wrong."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs
import cattrs

from kleene.bench.importers.cuad import cuad
from kleene.bench.importers.financebench import financebench
from kleene.bench.importers.finqa import finqa
from kleene.bench.importers.lab import lab
from kleene.bench.importers.oolong import oolong
from kleene.bench.importers.redlining import redlining
from kleene.bench.importers.target import Target
from kleene.bench.pack import Task, read_pack
from kleene.bench.verify import oracle_name
from kleene.planner.errors import ConfigError


@attrs.frozen
class Format:
    """``read`` gives the tasks one at a time and writes what they need into the target. ``license`` is that of the published data."""

    read: Callable[[Path, Target], Iterator[Task]]
    description: str
    license: str


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "cuad": Format(cuad, "CUAD v1: which kinds of clause a contract has.", "CC BY 4.0"),
        "financebench": Format(
            financebench, "FinanceBench: questions on filings, with their evidence.", "CC BY-NC 4.0"
        ),
        "finqa": Format(finqa, "FinQA: numbers worked out from a page of a report.", "CC BY 4.0"),
        "harvey-lab": Format(lab, "Harvey LAB: legal work with documents, judged by criteria.", "MIT"),
        "oolong": Format(oolong, "OOLONG-synth: counting labels over long windows of lines.", "MIT"),
        "redlining": Format(redlining, "UmaiTech redlining: clauses to be redrafted.", "CC BY 4.0"),
    }
)


def import_pack(
    format_: str, path: Path, out: Path, *, where: Mapping[str, str] | None = None, limit: int | None = None
) -> int:
    """Make the pack ``out``, a folder that is not there yet, and return how many tasks it has. ``where`` takes rows by the values of their
    fields, ``limit`` the first tasks. Raises ``ConfigError`` with the file and the row; then nothing is left of ``out``."""
    if not path.exists():
        raise ConfigError(f"there is no {path}", hint="give the file or folder that the bench publishes")
    if out.exists():
        raise ConfigError(f"{out} is there already", hint="give --out another folder, or remove it first")
    part = out.parent / f".{out.name}.part-{os.getpid()}"
    root = (path if path.is_dir() else path.parent).resolve()
    try:
        part.mkdir(parents=True)
        known = FORMATS[format_]
        tasks = list(itertools.islice(known.read(path, Target(part, root, where or {})), limit))
        if not tasks:
            raise ConfigError(f"{path} has no task" + (" of those that --where takes" if where else ""))
        body = {"name": format_, "description": known.description, "license": known.license, "kind": format_}
        body["tasks"] = [_written(task) for task in tasks]  # type: ignore[assignment]
        (part / "pack.json").write_text(json.dumps(body, ensure_ascii=False, indent=1) + "\n", "utf-8")
        read_pack(part)
        part.rename(out)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise ConfigError(f"the pack {out} cannot be written: {error.strerror or error}") from None
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return len(tasks)


def _written(task: Task) -> dict[str, object]:
    """A task as a pack's file has it, without what is left out."""
    fields: dict[str, object] = cattrs.Converter(omit_if_default=True).unstructure(attrs.evolve(task, verify=None))
    assert task.verify is not None
    return fields | {"verify": {"oracle": oracle_name(task.verify), **attrs.asdict(task.verify)}}
