"""Functions that are imported when they are first called."""

from __future__ import annotations

import importlib
from typing import Any, Generic, TypeVar

import attrs

R_co = TypeVar("R_co", covariant=True)


@attrs.frozen
class Lazy(Generic[R_co]):
    """The function ``name`` of a module, which is imported by the first call.

    A tool is declared for every engine and most are never used: what they do would cost each start half a second of imports.

    >>> basename: Lazy[str] = Lazy("os.path", "basename")
    >>> basename("a/b")
    'b'
    """

    module: str
    name: str

    def __call__(self, *arguments: Any) -> R_co:
        result: R_co = self.function(*arguments)
        return result

    @property
    def function(self) -> Any:
        """The function itself. Raises ``ImportError`` and ``AttributeError`` where there is none."""
        return getattr(importlib.import_module(self.module), self.name)
