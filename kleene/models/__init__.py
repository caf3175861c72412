"""Models: one request and one reply for every wire. Each name is loaded when it is first used, so that nothing heavy is imported for a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kleene.models.anthropic import Anthropic
    from kleene.models.build import build_handler
    from kleene.models.function_model import FunctionModel
    from kleene.models.local import Local
    from kleene.models.openai import OpenAI
    from kleene.models.replay import Recorder, Replay
    from kleene.models.responses import Responses
    from kleene.models.router import Router
    from kleene.udfs.protocols import Reply

__all__ = [
    "Anthropic",
    "FunctionModel",
    "Local",
    "OpenAI",
    "Recorder",
    "Replay",
    "Reply",
    "Responses",
    "Router",
    "build_handler",
]

_HOMES = {
    "Anthropic": "kleene.models.anthropic",
    "FunctionModel": "kleene.models.function_model",
    "Local": "kleene.models.local",
    "OpenAI": "kleene.models.openai",
    "Recorder": "kleene.models.replay",
    "Replay": "kleene.models.replay",
    "Reply": "kleene.udfs.protocols",
    "Responses": "kleene.models.responses",
    "Router": "kleene.models.router",
    "build_handler": "kleene.models.build",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
