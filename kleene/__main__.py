"""``python -m kleene`` and the console script ``kleene``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and sys.path[0] == os.getcwd():
    # Python looks in the current folder first. That is often the workspace, and a model that writes docx.py there must not be imported.
    sys.path.append(sys.path.pop(0))

from kleene.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
