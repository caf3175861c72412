from __future__ import annotations

from tests.kleene.cli.conftest import nothing_is_configured

__all__ = ["nothing_is_configured"]
