"""``doctor``: whether models, store and sandbox are there and work, one line each."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kleene.cli.command import Command
from kleene.cli.exits import Exit

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.models.provider import Handler
    from kleene.udfs.protocols import Route

COLUMNS = ("part", "state", "detail")
BWRAP = ("bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true")


class Finding(NamedTuple):
    """``state``: ok, absent (optional, or made when it is needed), failed (will not work) or none (nothing is configured)."""

    part: str
    state: str
    detail: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--offline", action="store_true", help="send nothing: say what is configured, do not try it")


def execute(inv: Invocation) -> int:
    from kleene.rendering.rows import text_table

    found = [*models(inv), local_model(), store(inv), sandbox()]
    inv.write(text_table(COLUMNS, [(f.part, f.state, f.detail) for f in found]))
    states = {f.state for f in found}
    return Exit.FAILED if "failed" in states else Exit.NO_MODEL if "none" in states else Exit.DONE


def models(inv: Invocation) -> list[Finding]:
    """One line a model, with the aliases it stands for. Unless ``--offline``, each is asked one tiny thing."""
    from kleene.cli.handlers import handler_of, routes_of
    from kleene.models.probe import probe_routes
    from kleene.planner.errors import KleeneError, NoModel

    try:
        handler = handler_of(inv)
        aliases: dict[Route, list[str]] = {}
        for alias in handler.known_aliases() or ("worker",):
            for route in routes_of(handler, alias):
                same = next((r for r in aliases if _same(r, route)), route)
                aliases.setdefault(same, []).append(alias)
    except NoModel as error:
        return [Finding("model", "none", f"{error.message}: kleene setup")]
    except KleeneError as error:
        return [Finding("model", "failed", error.message)]
    asked = () if inv.args.offline else tuple(r for r in aliases if _can_be_tried(handler, r))
    probes = dict(zip(asked, probe_routes(handler, asked), strict=True)) if asked else {}
    found = []
    for route, names in aliases.items():
        what = f"{route.provider}:{route.model} at {route.endpoint}"
        probe = probes.get(route)
        if probe is None:
            found.append(Finding(f"model {', '.join(names)}", "ok", f"{what}, not asked"))
            continue
        state = "ok" if probe.reached else "failed"
        said = f"answered in {probe.seconds:.1f} s" if probe.error is None else probe.error
        if probe.degraded:
            said += f" ({probe.degraded})"
        found.append(Finding(f"model {', '.join(names)}", state, f"{what}: {said}"))
    return found


def _same(one: Route, other: Route) -> bool:
    import attrs

    embeds = [r.alias == "embed" for r in (one, other)]
    return embeds[0] == embeds[1] and attrs.evolve(one, alias="") == attrs.evolve(other, alias="")


def _can_be_tried(handler: Handler, route: Route) -> bool:
    """A recording has only what was recorded, and a function of the user's may not expect to be asked."""
    return hasattr(handler, "health") and not route.is_function


def local_model() -> Finding:
    from kleene.models.local import Local
    from kleene.planner.errors import ConfigError

    try:
        return Finding("local model", "ok", f"{Local().model} is installed; --model proxy=local uses it")
    except ConfigError as error:
        return Finding("local model", "absent", f"{error.message}: {error.hint}")


def store(inv: Invocation) -> Finding:
    from kleene.planner.errors import KleeneError
    from kleene.store.readonly import open_readonly

    place = inv.store
    if not place.exists():
        return Finding("store", "absent", f"{place} is made by the first run{_unwritable(place)}")
    said: list[str] = []
    try:
        con = open_readonly(place, say=said.append)
    except KleeneError as error:
        return Finding("store", "failed", error.message)
    try:
        size = place.stat().st_size / 1e6
        if said:
            return Finding("store", "ok", f"{place} ({size:.1f} MB): {said[0]}")
        [[count]] = con.execute("SELECT count(*) FROM memo").fetchall()
        answers = f"{count:,} answer{'' if count == 1 else 's'}"
        return Finding("store", "ok", f"{place} ({size:.1f} MB) keeps {answers}")
    finally:
        con.close()


def _unwritable(place: Path) -> str:
    folder = next(f for f in (*place.absolute().parents,) if f.exists())
    return "" if os.access(folder, os.W_OK) else f", but {folder} cannot be written"


def sandbox() -> Finding:
    """Whether bubblewrap runs a program without a network and without writing: what shell tools need."""
    import subprocess

    if shutil.which(BWRAP[0]) is None:
        return Finding("sandbox", "absent", "bubblewrap (bwrap) is not installed: shell tools are off")
    try:
        done = subprocess.run(BWRAP, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("sandbox", "failed", f"bubblewrap does not run: {error}")
    if done.returncode:
        return Finding("sandbox", "failed", f"bubblewrap does not run: {' '.join(done.stderr.split())}")
    return Finding("sandbox", "ok", "bubblewrap runs programs without network and without writing")


COMMAND = Command(
    name="doctor",
    summary="check models, store and sandbox, one line each",
    usage="[--offline] [OPTIONS]",
    description="""\
Say whether each configured model answers (one tiny request each, of at most 16 tokens), whether the local model is
installed, whether the store opens, and whether bubblewrap can run a sandbox. Exit code 0 when all that is configured works,
1 when something does not, 4 when no model is configured.""",
    examples="""\
# is everything there?
python -m kleene doctor

# the same without a request
python -m kleene doctor --offline""",
    add_arguments=add_arguments,
    execute=execute,
)
