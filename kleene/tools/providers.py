"""Which search services there are (``providers.toml``), and which one is asked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import attrs
import cattrs

from kleene.planner.errors import ConfigError, did_you_mean


@attrs.frozen
class Provider:
    """A row of ``providers.toml``, which says what the fields mean."""

    url: str
    method: str
    key_header: str
    key_format: str
    variable: str
    most: int
    characters: int
    request: dict[str, Any]
    results: str
    title: list[str]
    link: list[str]
    snippet: list[str]


@attrs.frozen
class Service:
    """A provider and the key to it. The key does not show in ``repr``."""

    name: str
    provider: Provider
    key: str = attrs.field(repr=False)


def load_providers() -> dict[str, Provider]:
    """Reads the file that comes with Kleene."""
    text = resources.files("kleene.tools").joinpath("providers.toml").read_text(encoding="utf-8")
    return cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text), dict[str, Provider])


def choose(
    providers: Mapping[str, Provider], name: str | None, key: str | None, environ: Mapping[str, str]
) -> Service | None:
    """The service to ask: by name with its key, or the first whose own variable (``BRAVE_API_KEY``, ...) is set; a key without a name is Brave's.

    None where there is no key. Raises ``ConfigError`` for a name that is unknown.
    """
    if name is not None and name not in providers:
        near = did_you_mean(name, providers)
        raise ConfigError(
            f"{name!r} is no search provider",
            hint=f"did you mean {near!r}?" if near else f"known are {', '.join(providers)}",
        )
    if name is None and key:
        name = next(iter(providers))
    for known in [name] if name is not None else providers:
        found = key or environ.get(providers[known].variable)
        if found:
            return Service(known, providers[known], found.strip())
    return None
