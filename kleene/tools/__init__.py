"""Tools: what SQL can do in a workspace besides asking a model. Each is data (``Tool``) and a function over ``Work``; none knows the engine."""

from __future__ import annotations

from kleene.tools.base import Limits, Tool, Work
from kleene.tools.jail import Jail

__all__ = ["Jail", "Limits", "Tool", "Work"]
