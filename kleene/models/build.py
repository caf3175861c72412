"""From what a user gave (a string, an object, a mapping, nothing) and the configuration to the handler that dispatch is given.

A provider is imported when the first call is routed to it: an engine that makes no call opens without an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kleene.config import STANDARD_ALIASES, AliasOptions, Config
from kleene.models.addresses import ANTHROPIC_URL, OPENAI_URL
from kleene.models.provider import Handler, Provider
from kleene.models.router import EMBED, Alias, Router, Source, sources_of
from kleene.planner.errors import ConfigError, did_you_mean

Models: TypeAlias = "str | Provider | Mapping[str, Source | Sequence[Source]] | None"
PROVIDERS = ("anthropic", "openai", "responses")
DEFAULT_OPENAI_MODEL = "gpt-5.4-mini"
DEFAULT_EMBEDDING_MODEL = "text-embedding-3-small"
_BOTH = "openai_compat"


def build_handler(
    models: Models,
    config: Config,
    *,
    record: str | Path | None = None,
    replay: str | Path | None = None,
    replay_strict: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Handler:
    """The ``CallHandler`` for a user's ``models``: None, ``"provider:MODEL"``, a provider object, or a mapping from alias to one of these or
    a list of them in failover order. None means what the configuration says; where that is nothing, the handler's ``route`` raises ``NoModel``.

    ``replay`` answers from a recording and needs no model; ``record`` writes one. Raises ``ConfigError`` on what cannot be understood;
    keys are asked for when a model is first routed to.
    """
    if replay is not None:
        from kleene.models.replay import Replay

        if record is not None:
            raise ConfigError("a run cannot be recorded and replayed at once", hint="leave --record or --replay out")
        return Replay(replay, replay_strict)
    router = Router(
        aliases_of(models, config), lambda text: make_provider(text, config), config.pricing, config.context_windows
    )
    if record is None:
        return router
    from kleene.models.replay import Recorder

    return Recorder(router, record, about)


def aliases_of(models: Models, config: Config) -> dict[str, Alias]:
    """Every alias that is defined: the configuration's, the user's over them. Raises ``ConfigError``."""
    found = _aliases_of(models, config)
    if EMBED not in found and (embedder := _embedder(found, config)) is not None:
        found[EMBED] = Alias((embedder,))
    return found


def _aliases_of(models: Models, config: Config) -> dict[str, Alias]:
    configured = {name: Alias(alias.candidates, alias.options) for name, alias in config.aliases.items()}
    if models is None:
        return {**_defaults(config), **configured}
    if isinstance(models, Mapping):
        if not models:
            raise ConfigError(
                "models= is an empty mapping", hint='write models={"worker": "anthropic:MODEL"}, or leave it out'
            )
        given = {str(name): Alias(tuple(_source(s) for s in sources_of(value))) for name, value in models.items()}
        for name, alias in given.items():
            if not alias.sources:
                raise ConfigError(f"alias {name} has no candidates", hint="give it one model or a list of models")
        return {**configured, **given}
    one = Alias(tuple(_source(s) for s in sources_of(models)))
    return {**configured, **dict.fromkeys(STANDARD_ALIASES, one)}


def make_provider(text: str, config: Config) -> Provider:
    """The provider for ``anthropic:MODEL``, ``openai:MODEL``, ``responses:MODEL``, ``local`` or ``local:FILE.gguf``. Raises ``ConfigError`` (``NoModel`` without a key)."""
    provider, colon, model = text.partition(":")
    if provider.strip() == "local":
        from kleene.models.local import Local

        return Local(model.strip() or None)
    provider = "openai" if provider == _BOTH else provider.strip()
    if not colon or not model.strip() or provider not in PROVIDERS:
        near = did_you_mean(provider, PROVIDERS)
        hint = f"write {near or 'anthropic'}:MODEL; providers are {', '.join(PROVIDERS)}; local is a small model in this process"
        raise ConfigError(f"{text!r} does not name a model", hint=hint)
    model = model.strip()
    if provider == "anthropic":
        from kleene.models.anthropic import Anthropic

        access = config.anthropic
        url = access.base_url or ANTHROPIC_URL
        return Anthropic(model, base_url=url, api_key=access.api_key or "", auth_token=access.auth_token)
    if provider == "openai":
        from kleene.models.openai import OpenAI

        return OpenAI(model, base_url=config.openai.base_url or OPENAI_URL, api_key=config.openai.api_key or "")
    from kleene.models.responses import Responses

    if config.responses.configured:
        return Responses(
            model, base_url=config.responses.base_url or OPENAI_URL, api_key=config.responses.api_key or ""
        )
    return Responses(model, base_url=config.openai.base_url or OPENAI_URL, api_key=config.openai.api_key or "")


def _defaults(config: Config) -> dict[str, Alias]:
    """What a key alone gives. Anthropic: a strong root, a middling worker and judge, a cheap proxy; others: one model for all.

    These models think unless they are told otherwise, and what they think counts against a call's ``max_tokens`` and its price: a call a row
    is asked with little effort, which lets them skip it.
    """
    if config.anthropic.configured:
        if config.anthropic.model:
            return dict.fromkeys(STANDARD_ALIASES, Alias((f"anthropic:{config.anthropic.model}",)))
        return {
            "root": Alias(("anthropic:claude-opus-5-5",), AliasOptions(effort="high")),
            "worker": Alias(("anthropic:claude-sonnet-5-5",), AliasOptions(effort="low")),
            "judge": Alias(("anthropic:claude-sonnet-5-5",), AliasOptions(effort="medium")),
            "proxy": Alias(("anthropic:claude-haiku-5-5",), AliasOptions(effort="low")),
        }
    for provider, access in (("openai", config.openai), ("responses", config.responses)):
        if access.configured:
            return dict.fromkeys(STANDARD_ALIASES, Alias((f"{provider}:{access.model or DEFAULT_OPENAI_MODEL}",)))
    return {}


def _embedder(aliases: Mapping[str, Alias], config: Config) -> Source | None:
    """Who makes vectors where no alias says so: the worker's own endpoint if it can, else OpenAI's where there is a key; None: nobody.

    OpenAI has models of their own for it; any other server of the openai wire is asked with the model it is configured with.
    """
    for name in ("worker", "root", *aliases):
        if name in aliases:
            source = aliases[name].sources[0]
            if not isinstance(source, str):
                at_home = getattr(source, "endpoint", "") == OPENAI_URL
                return source if source.capabilities.embeddings and not at_home else _openai_embedder(config)
            if source.partition(":")[0].strip() == "local":
                return source
            own_server = config.openai.base_url not in (None, OPENAI_URL)
            if source.partition(":")[0].strip() in ("openai", _BOTH) and own_server:
                return source
            break
    return _openai_embedder(config)


def _openai_embedder(config: Config) -> Source | None:
    own_server = config.openai.base_url not in (None, OPENAI_URL)
    return f"openai:{DEFAULT_EMBEDDING_MODEL}" if config.openai.api_key and not own_server else None


def _source(value: Any) -> Source:
    if isinstance(value, str):
        return value
    if hasattr(value, "send") and hasattr(value, "endpoint"):
        found: Provider = value
        return found
    hint = 'give "anthropic:MODEL", "openai:MODEL" or "responses:MODEL", a kleene.Anthropic, OpenAI or Responses, or kleene.FunctionModel(fn)'
    raise ConfigError(f"models= holds {type(value).__name__}, not a model", hint=hint)
