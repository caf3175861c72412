"""Tools: what SQL can do in a workspace besides asking a model. Each is data (``Tool``) and a function over ``Work``; none knows the engine.

``standard`` declares those of Kleene without importing what they do; ``setup`` puts an engine's toolbox together.
"""

from __future__ import annotations
