"""How ``bench`` opens engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


def opener(inv: Invocation) -> Any:
    """Opens the engine of an attempt: the invocation's models and configuration, but a workspace, store and recording of its own."""
    from kleene.cli.exits import misconfigured
    from kleene.config import load_config

    args = inv.args
    with misconfigured():
        with_config = load_config(args.workspace, file=args.config)
        _ = inv.models  # a script is run once, before threads ask for it

    @contextmanager
    def open_engine(**given: Any) -> Iterator[Any]:
        engine = inv.open(config=with_config, mcp=False, **given)
        try:
            yield engine
        finally:
            engine.close()

    return open_engine
