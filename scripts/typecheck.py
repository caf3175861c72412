"""Run mypy over kleene, kleene.planner and kleene.udfs: ``python scripts/typecheck.py [mypy options]``.

mypy runs no import hooks, so it is shown build/typing/kleene, a folder of symlinks in which the three lie as they are imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPING = ROOT / "build" / "typing" / "kleene"
FLOORS = ("planner", "udfs")


def lay_out() -> None:
    """Make the folder's links agree with kleene/, planner/ and udfs/."""
    TYPING.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in (ROOT / "kleene").iterdir() if path.name != "__pycache__"}
    wanted |= {name: ROOT / name for name in FLOORS}
    for link in TYPING.iterdir():
        if link.name not in wanted or not link.is_symlink() or link.readlink() != wanted[link.name]:
            link.unlink()
    for name, path in wanted.items():
        if not (TYPING / name).is_symlink():
            (TYPING / name).symlink_to(path)


def main(argv: list[str]) -> int:
    lay_out()
    return subprocess.run([sys.executable, "-m", "mypy", *argv], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
