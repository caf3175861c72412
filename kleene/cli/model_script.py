"""``--model-script FILE.py:NAME``: a model written in Python."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kleene.cli.exits import UsageError
from kleene.planner.errors import did_you_mean

SHAPE = "write --model-script FILE.py:NAME, where NAME is a function that takes a request and returns the reply's text"


def load_model(argument: str) -> object:
    """What NAME is in FILE: a function becomes a ``FunctionModel`` called ``FILE.NAME``, anything else (a provider, a mapping) is as it is.

    The file runs as a module of its own with its folder at the end of the import path. Whatever goes wrong is a ``UsageError``.
    """
    name_of_file, _, name = argument.rpartition(":")
    if not name_of_file or not name.isidentifier():
        raise UsageError(f"--model-script {argument} names no object", hint=SHAPE)
    module = run_file(Path(name_of_file).expanduser())
    if not hasattr(module, name):
        public = [n for n in vars(module) if not n.startswith("_") and callable(vars(module)[n])]
        near = did_you_mean(name, public)
        raise UsageError(
            f"{name_of_file} has no {name}",
            hint=f"did you mean {near}?" if near else f"it has {', '.join(public) or 'no functions'}",
        )
    value = getattr(module, name)
    if not callable(value) or hasattr(value, "send"):
        return value
    from kleene.models import FunctionModel

    return FunctionModel(value, name=f"{Path(name_of_file).stem}.{name}")


def run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"--model-script: there is no file {path}", hint=SHAPE)
    spec = importlib.util.spec_from_file_location(f"kleene_model_script_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--model-script: {path} is not a Python file", hint=SHAPE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"--model-script: {path}{where(error, path)}: {type(error).__name__}: {error}") from error
    return module


def where(error: Exception, path: Path) -> str:
    lines = [
        f.lineno
        for f in traceback.extract_tb(error.__traceback__)
        if Path(f.filename) == path.resolve() or f.filename == str(path)
    ]
    return f", line {lines[-1]}" if lines else ""
