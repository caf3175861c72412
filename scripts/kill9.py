"""Kill a process at random moments of a statement and look what it cost: ``python scripts/kill9.py [--moments 50] [--prompts 2000]``.

A loopback server counts: each prompt must be answered at most once, plus what was in flight; the store must open; the re-run must be right.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kill9 import kill_at, moments


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for share in moments(options.moments, options.seed):
        with tempfile.TemporaryDirectory() as folder:
            killed = kill_at(share, Path(folder), options.prompts, delay_s=0.005)
        failed += bool(killed.problems)
        print(
            f"killed at {share:4.0%}: {killed.answered} answered, {killed.twice} of them twice in the end, re-run {killed.requests} calls "
            f"and {killed.memo_hits} hits: {'; '.join(killed.problems) or 'right'}",
            flush=True,
        )
    print(f"{options.moments - failed} of {options.moments} right")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
