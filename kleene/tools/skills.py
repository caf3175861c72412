"""Skills: how a kind of task is done here, in a ``SKILL.md`` of a folder that has the skill's name.

They are found in the workspace (``.kleene/skills``, ``.agents/skills``, ``.claude/skills``), with the user (``skills`` in the configuration,
``~/.agents/skills``), and here (``kleene/skills``); the first of a name counts, so that a project may say it better. A workspace's skill is text that
a checkout brought: it is shown to whoever asks for it, and grants nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from kleene.config import config_dir
from kleene.planner.errors import KleeneError
from kleene.tools.jail import Jail
from kleene.tools.private import Private

FILE = "SKILL.md"
BYTES = 64 << 10
DESCRIPTION = 200
MOST = 100
"""Skills of one folder."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
BUILT_IN = Path(__file__).resolve().parent.parent / "skills"
IN_WORKSPACE = (".kleene/skills", ".agents/skills", ".claude/skills")


@attrs.frozen
class Skill:
    """``scope``: project, user or built in. ``text``: what stands below the head of the file."""

    name: str
    description: str
    scope: str
    text: str = attrs.field(repr=False)


def read_skill(name: str, scope: str, text: str) -> Skill:
    """The skill of a file's text. Its head, between two lines ``---``, may say ``description:``, else the first line that says something does.

    >>> read_skill("a", "user", "---\\nname: a\\ndescription: 'How to a.'\\n---\\n# A\\n")
    Skill(name='a', description='How to a.', scope='user')
    """
    text = text.replace("\r\n", "\n")
    found = re.match(r"\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", text, re.DOTALL)
    head, body = (found[1], text[found.end() :]) if found else ("", text.removeprefix("\ufeff"))
    said = re.search(r"^description:[ \t]*(\S.*(?:\n[ \t]+\S.*)*)", head, re.MULTILINE)
    first = next((line for line in body.splitlines() if line.strip(" #")), "")
    description = said[1].strip("\"'>| \t") if said else first.strip(" #")
    shown = "".join(c if c.isprintable() else " " for c in " ".join(description.split())).strip()
    return Skill(
        name, shown if len(shown) <= DESCRIPTION else shown[: DESCRIPTION - 1] + "…", scope, body.strip() + "\n"
    )


def find_skills(workspace: str | Path, environ: Mapping[str, str] | None = None) -> dict[str, Skill]:
    """All skills by name, the first of a name. What cannot be read is left out."""
    found: dict[str, Skill] = {}
    for folder, scope in _folders(os.path.realpath(workspace), os.environ if environ is None else environ):
        for skill in _in_folder(folder, scope):
            found.setdefault(skill.name, skill)
    return dict(sorted(found.items()))


def _folders(root: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for place in IN_WORKSPACE:
        path = os.path.join(root, place)
        if os.path.realpath(path) == path:  # a link of a checkout could show any folder
            yield path, "project"
    yield str(config_dir(environ) / "skills"), "user"
    if environ.get("HOME"):
        yield os.path.join(environ["HOME"], ".agents", "skills"), "user"
    yield str(BUILT_IN), "built in"


def _in_folder(folder: str, scope: str) -> Iterator[Skill]:
    try:
        names = sorted(name for name in os.listdir(folder) if NAME.fullmatch(name))[:MOST]
        jail = Jail.of(folder, (), Private())  # no link, pipe or device, and no file without an end
    except (OSError, KleeneError):
        return
    for name in names:
        with suppress(KleeneError):
            yield read_skill(name, scope, jail.read(f"{name}/{FILE}", BYTES).decode("utf-8", "replace"))


class SkillTexts(Mapping[str, str]):
    """The texts of skills by name, looked for when the first is wanted."""

    def __init__(self, find: Callable[[], Mapping[str, Skill]]):
        self._find = find
        self._found: Mapping[str, Skill] | None = None

    def _skills(self) -> Mapping[str, Skill]:
        if self._found is None:
            self._found = self._find()
        return self._found

    def __getitem__(self, name: str) -> str:
        return self._skills()[name].text

    def __iter__(self) -> Iterator[str]:
        return iter(self._skills())

    def __len__(self) -> int:
        return len(self._skills())
