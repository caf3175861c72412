"""``python -m kleene``: the program itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    """The workspace is often the current folder, and tools may write there."""
    for name in ("httpx", "bs4", "duckdb"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    (tmp_path / "page.html").write_text("<p>hello</p>")
    done = subprocess.run(
        [sys.executable, "-m", "kleene", "sql", "SELECT text FROM read('page.html')"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "hello" in done.stdout) == (0, True), done.stderr
