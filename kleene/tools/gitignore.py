"""What ``.gitignore`` files leave out, by the rules of gitignore(5). Only the workspace's own files count, not those of the user or of ``.git``."""

from __future__ import annotations

import re

import attrs

from kleene.tools.globs import translate

NAME = ".gitignore"
MAX_BYTES = 1 << 20
"""Of one ``.gitignore``; a longer one is not one."""


@attrs.frozen
class Rules:
    """The rules of one ``.gitignore``, the last first. ``base`` is its folder, with a slash at its end (empty: the workspace)."""

    base: str
    rules: tuple[tuple[re.Pattern[str], bool, bool], ...]
    """Pattern of the path from ``base``; whether it takes back; whether it means folders only."""

    @classmethod
    def of(cls, base: str, text: str) -> Rules:
        read = [rule for line in text.split("\n") if (rule := _rule(line.removesuffix("\r"))) is not None]
        return cls(base, tuple(reversed(read)))

    def decides(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored. False: taken back. None: nothing said. ``path`` is from the workspace and lies below ``base``.

        >>> rules = Rules.of("", "*.log\\n!keep.log\\nbuild/\\n/top")
        >>> [rules.decides(p, folder=False) for p in ("a/x.log", "a/keep.log", "build", "top", "a/top")]
        [True, False, None, True, None]
        >>> rules.decides("a/build", folder=True)
        True
        """
        inside = path[len(self.base) :]
        for pattern, takes_back, folders_only in self.rules:
            if (folder or not folders_only) and pattern.fullmatch(inside):
                return not takes_back
        return None


def ignored(rules: tuple[Rules, ...], path: str, *, folder: bool) -> bool:
    """Whether a path is left out, by the rules of its folders (outermost first); those nearer to it come before those farther off."""
    for one in reversed(rules):
        decided = one.decides(path, folder=folder)
        if decided is not None:
            return decided
    return False


def _rule(line: str) -> tuple[re.Pattern[str], bool, bool] | None:
    if line.startswith("#"):
        return None
    takes_back = line.startswith("!")
    pattern = _without_trailing_spaces(line[1:] if takes_back else line)
    folders_only = pattern.endswith("/")
    pattern = pattern[:-1] if folders_only else pattern
    if not pattern or (pattern.endswith("\\") and not pattern.endswith("\\\\")):
        return None
    rooted = "/" in pattern
    source = translate(pattern.removeprefix("/"))
    return re.compile(source if rooted else f"(?:.*/)?{source}", re.DOTALL), takes_back, folders_only


def _without_trailing_spaces(line: str) -> str:
    """Trailing spaces do not count, unless a backslash stands before them."""
    bare = line.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if slashes % 2 and bare != line else bare
