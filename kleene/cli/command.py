"""What a command is: its name, its help and the function that does it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation


class Command(NamedTuple):
    """``usage`` is what follows the command's name; ``examples`` are shell lines, each under a comment of its own.

    ``execute`` gives the exit code and may raise any ``KleeneError``. Heavy modules are imported in it, not before.
    """

    name: str
    summary: str
    usage: str
    description: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[Invocation], int]
