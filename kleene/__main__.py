"""``python -m kleene`` and the console script ``kleene``."""

from __future__ import annotations

from kleene.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
