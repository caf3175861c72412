"""One frozen ``Config`` out of files and the environment.

``kleene.toml`` in the workspace lies over ``config.toml`` of the user (``$KLEENE_CONFIG_DIR``, else ``$XDG_CONFIG_HOME/kleene``, else
``~/.config/kleene``), and the environment over both, field by field. A workspace is not trusted with keys that are not its own: a base_url
set there goes without the keys of the user and the environment, or any checkout could send them anywhere.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from kleene.planner.errors import ConfigError, did_you_mean
from kleene.planner.specs import LongPrompts, Price

STANDARD_ALIASES = ("root", "worker", "proxy", "judge")
EFFORTS = ("low", "medium", "high", "max")
ENVIRONMENT = {
    ("anthropic", "api_key"): "ANTHROPIC_API_KEY",
    ("anthropic", "auth_token"): "ANTHROPIC_AUTH_TOKEN",
    ("anthropic", "base_url"): "ANTHROPIC_BASE_URL",
    ("openai", "api_key"): "OPENAI_API_KEY",
    ("openai", "base_url"): "OPENAI_BASE_URL",
    ("openai", "model"): "OPENAI_MODEL",
    ("web_search", "api_key"): "KLEENE_WEB_SEARCH_API_KEY",
    ("web_search", "provider"): "KLEENE_WEB_SEARCH_PROVIDER",
}
_SECTIONS = {
    "anthropic": ("api_key", "auth_token", "base_url", "model"),
    "openai": ("api_key", "base_url", "model"),
    "responses": ("api_key", "base_url", "model"),
    "web_search": ("api_key", "provider"),
}
_SECRETS = ("api_key", "auth_token")
_PRICING = (
    "input_per_mtok",
    "output_per_mtok",
    "cache_read_per_mtok",
    "cache_write_per_mtok",
    "batch_input_per_mtok",
    "batch_output_per_mtok",
    "context_window",
    "as_of",
    "source",
    "long",
)
_LONG = ("above", "input_per_mtok", "output_per_mtok", "cache_read_per_mtok", "cache_write_per_mtok")
_OPTIONS = ("effort", "temperature", "cache_prefix", "concurrency")


@attrs.frozen
class Access:
    """How a provider is reached. A field is None where nothing sets it. Keys do not show in ``repr``."""

    api_key: str | None = attrs.field(default=None, repr=False)
    auth_token: str | None = attrs.field(default=None, repr=False)
    base_url: str | None = None
    model: str | None = None
    provider: str | None = None

    @property
    def configured(self) -> bool:
        """A key, a token or a URL: a model's name alone is not enough."""
        return bool(self.api_key or self.auth_token or self.base_url)


@attrs.frozen
class AliasOptions:
    """What an alias asks of its models where the caller does not say. ``concurrency``: the most requests of the alias at a time."""

    effort: str | None = None
    temperature: float | None = None
    cache_prefix: bool | None = None
    concurrency: int | None = None


@attrs.frozen
class AliasConfig:
    """``candidates`` are model strings such as ``anthropic:MODEL``, in the order in which they are tried."""

    candidates: tuple[str, ...]
    options: AliasOptions = AliasOptions()


@attrs.frozen
class Config:
    """Everything that files and the environment say about models. ``settings`` holds the tables of other parts as they were read, ``trusted``
    those of the user's own files alone: what a workspace may not grant itself.

    ``files`` are those that were read; ``warnings`` are said once to the user; ``pinned`` names settings that the environment decides.
    """

    anthropic: Access = Access()
    openai: Access = Access()
    responses: Access = Access()
    web_search: Access = Access()
    aliases: Mapping[str, AliasConfig] = attrs.field(factory=dict)
    pricing: Mapping[str, Price] = attrs.field(factory=dict)
    context_windows: Mapping[str, int] = attrs.field(factory=dict)
    settings: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    trusted: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()

    @property
    def configured(self) -> bool:
        """Whether any model can be reached."""
        return bool(self.aliases) or any(a.configured for a in (self.anthropic, self.openai, self.responses))


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the user's configuration; it need not exist."""
    env = os.environ if environ is None else environ
    if env.get("KLEENE_CONFIG_DIR"):
        return Path(env["KLEENE_CONFIG_DIR"])
    if env.get("XDG_CONFIG_HOME"):
        return Path(env["XDG_CONFIG_HOME"]) / "kleene"
    return Path(env.get("HOME") or Path.home()) / ".config" / "kleene"


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of what can be had again (``$KLEENE_CACHE_DIR``, else ``$XDG_CACHE_HOME/kleene``, else ``~/.cache/kleene``); it need not exist."""
    env = os.environ if environ is None else environ
    if env.get("KLEENE_CACHE_DIR"):
        return Path(env["KLEENE_CACHE_DIR"])
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "kleene"
    return Path(env.get("HOME") or Path.home()) / ".cache" / "kleene"


def load_config(
    workspace: str | Path = ".", *, environ: Mapping[str, str] | None = None, file: str | Path | None = None
) -> Config:
    """Read the configuration. ``file`` takes the place of the user's file and must exist. Raises ``ConfigError`` with the file and the key."""
    env = os.environ if environ is None else environ
    user = Path(file) if file is not None else config_dir(env) / "config.toml"
    if file is not None and not user.is_file():
        raise ConfigError(f"there is no configuration file {user}", hint="check --config")
    layers = [_Layer.read(user, trusted=True)]
    router = env.get("KLEENE_ROUTER_TOML") or layers[0].table.get("router")
    if isinstance(router, str) and router:
        layers.append(_Layer.read(user.parent / router, trusted=True, must_exist=True))
    layers.append(_Layer.read(Path(workspace) / "kleene.toml", trusted=False))
    return _merged([layer for layer in layers if layer.found], env)


def mask(secret: str | None) -> str:
    """A key as it may be shown: its first and last characters where it is long enough.

    >>> mask("sk-0123456789abcdef"), mask("short"), mask(None)
    ('sk-0...cdef', '***', 'not set')
    """
    if not secret:
        return "not set"
    return f"{secret[:4]}...{secret[-4:]}" if len(secret) >= 16 else "***"


def save_access(
    section: str,
    values: Mapping[str, str],
    *,
    environ: Mapping[str, str] | None = None,
    file: str | Path | None = None,
) -> Path:
    """Write fields of one section into the user's file (or ``file``), keeping all else; a new folder is 0700, the file 0600. Returns the file.

    Comments in the file are kept; a field that stands there is replaced. Raises ``ConfigError`` where the file is no TOML.
    """
    path = Path(file) if file is not None else config_dir(environ) / "config.toml"
    layer = _Layer.read(path, trusted=True)
    lines = path.read_text(encoding="utf-8").splitlines() if layer.found else []
    text = "\n".join(_with_fields(lines, section, values)) + "\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} cannot take [{section}] {', '.join(values)}: {error}", hint="write it there yourself"
        ) from None
    save_private(path, text)
    return path


def save_private(path: Path, text: str) -> None:
    """Replace a file of the user's by one with this text that nobody else may read; a new folder is 0700, the file 0600."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, path)


@attrs.frozen
class _Layer:
    path: Path
    table: Mapping[str, Any]
    trusted: bool
    found: bool

    @classmethod
    def read(cls, path: Path, *, trusted: bool, must_exist: bool = False) -> _Layer:
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            if must_exist:
                raise ConfigError(
                    f"there is no configuration file {path}", hint="check KLEENE_ROUTER_TOML or router ="
                ) from None
            return cls(path, {}, trusted, False)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {path}: {error}") from None
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not TOML: {error}", hint="check quotes and brackets at that place") from None
        if "openai_compat" in table:
            table.setdefault("openai", table.pop("openai_compat"))
        return cls(path, table, trusted, True)


def _merged(layers: list[_Layer], env: Mapping[str, str]) -> Config:
    warnings: list[str] = []
    sections = {name: _access(name, layers, env, warnings) for name in _SECTIONS}
    aliases: dict[str, AliasConfig] = {}
    pricing: dict[str, Price] = {}
    windows: dict[str, int] = {}
    settings: dict[str, Any] = {}
    trusted: dict[str, Any] = {}
    for layer in layers:
        if layer.trusted and _has_secret(layer) and (warning := _loose(layer.path)):
            warnings.append(warning)
        for name, table in _table(layer, "aliases").items():
            aliases[name] = _alias(layer.path, name, table)
        for model, table in _table(layer, "pricing").items():
            _price(layer.path, model, table, pricing, windows)
        others = {
            k: v for k, v in layer.table.items() if k not in _SECTIONS and k not in ("aliases", "pricing", "router")
        }
        settings |= others
        trusted |= others if layer.trusted else {}
    pinned = tuple(variable for variable in ENVIRONMENT.values() if env.get(variable))
    files = tuple(layer.path for layer in layers)
    return Config(
        **sections,
        aliases=aliases,
        pricing=pricing,
        context_windows=windows,
        settings=settings,
        trusted=trusted,
        files=files,
        warnings=tuple(warnings),
        pinned=pinned,
    )


def _access(section: str, layers: list[_Layer], env: Mapping[str, str], warnings: list[str]) -> Access:
    """The fields of a section, the last layer winning. A URL out of a workspace loses the keys that are not from there."""
    values: dict[str, str] = {}
    origin: dict[str, _Layer | None] = {}
    for layer in layers:
        for key, value in _table(layer, section).items():
            _known(layer.path, f"[{section}]", key, _SECTIONS[section])
            if not isinstance(value, str):
                raise ConfigError(f"{layer.path}: [{section}] {key} is {value!r}, not a string")
            values[key], origin[key] = value, layer
    for (name, key), variable in ENVIRONMENT.items():
        if name == section and env.get(variable):
            values[key], origin[key] = env[variable], None
    source = origin.get("base_url")
    if source is not None and not source.trusted:
        for secret in _SECRETS:
            if secret in values and origin[secret] is not source:
                del values[secret]
                warnings.append(
                    f"{source.path} sets [{section}] base_url: your own {secret} is not sent there; put the base_url into your own "
                    f"configuration or the environment if it should be"
                )
    return Access(**values)


def _table(layer: _Layer, name: str) -> Mapping[str, Any]:
    table = layer.table.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{layer.path}: {name} is not a table", hint=f"write [{name}] on a line of its own")
    return table


def _known(path: Path, section: str, key: str, known: tuple[str, ...]) -> None:
    if key not in known:
        near = did_you_mean(key, known)
        hint = f"did you mean {near}?" if near else f"known here: {', '.join(known)}"
        raise ConfigError(f"{path}: {section} has the unknown key {key}", hint=hint)


def _alias(path: Path, name: str, table: Any) -> AliasConfig:
    where = f"[aliases.{name}]"
    if isinstance(table, str):
        return AliasConfig((table,))
    if isinstance(table, list):
        table = {"candidates": table}
    if not isinstance(table, dict):
        raise ConfigError(
            f"{path}: {where} is not a table", hint=f'write {where} and under it candidates = ["anthropic:MODEL"]'
        )
    for key in table:
        _known(path, where, key, ("candidates", "options", *_OPTIONS))
    found = table.get("candidates")
    candidates = tuple(_candidate(path, where, c) for c in (found if isinstance(found, list) and found else [found]))
    options = {**{k: table[k] for k in _OPTIONS if k in table}, **table.get("options", {})}
    for key in options:
        _known(path, f"{where} options", key, _OPTIONS)
    if options.get("effort") is not None and options["effort"] not in EFFORTS:
        raise ConfigError(f"{path}: {where} effort is {options['effort']!r}", hint=f"one of {', '.join(EFFORTS)}")
    _check_numbers(f"{path}: {where}", options)
    return AliasConfig(candidates, AliasOptions(**options))


def _check_numbers(where: str, options: Mapping[str, Any]) -> None:
    concurrency = options.get("concurrency", 1)
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise ConfigError(f"{where} concurrency is {concurrency!r}, not a whole number of 1 or more")
    temperature = options.get("temperature", 0)
    if not isinstance(temperature, int | float) or isinstance(temperature, bool):
        raise ConfigError(f"{where} temperature is {temperature!r}, not a number")
    if not isinstance(options.get("cache_prefix", True), bool):
        raise ConfigError(f"{where} cache_prefix is {options['cache_prefix']!r}, not true or false")


def _candidate(path: Path, where: str, candidate: Any) -> str:
    if isinstance(candidate, dict) and {"provider", "model"} <= set(candidate):
        return f"{candidate['provider']}:{candidate['model']}"
    if isinstance(candidate, str) and candidate.strip():
        return candidate.strip()
    raise ConfigError(
        f"{path}: {where} has no candidates", hint='write candidates = ["anthropic:MODEL", "openai:MODEL"]'
    )


def _price(path: Path, model: str, table: Any, pricing: dict[str, Price], windows: dict[str, int]) -> None:
    where = f'[pricing."{model}"]'
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {where} is not a table")
    for key, value in table.items():
        _known(path, where, key, _PRICING)
        if key not in ("as_of", "source", "long"):
            _amount(path, where, key, value)
    if "context_window" in table:
        windows[model] = int(table["context_window"])
    if "input_per_mtok" in table or "output_per_mtok" in table:
        pricing[model] = Price(
            float(table.get("input_per_mtok", 0)),
            float(table.get("output_per_mtok", 0)),
            table.get("cache_read_per_mtok"),
            table.get("cache_write_per_mtok"),
            str(table.get("as_of", "")),
            str(table.get("source", path)),
            table.get("batch_input_per_mtok"),
            table.get("batch_output_per_mtok"),
            _long(path, f'[pricing."{model}".long]', table["long"]) if "long" in table else None,
        )
    elif any(key.endswith("_per_mtok") or key == "long" for key in table):
        raise ConfigError(f"{path}: {where} has neither input_per_mtok nor output_per_mtok")


def _long(path: Path, where: str, table: Any) -> LongPrompts:
    """What requests with long prompts cost."""
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {where} is not a table")
    for key, value in table.items():
        _known(path, where, key, _LONG)
        _amount(path, where, key, value)
    for key in _LONG[:3]:
        if key not in table:
            raise ConfigError(f"{path}: {where} has no {key}", hint="above is in tokens of the prompt")
    return LongPrompts(
        int(table["above"]),
        float(table["input_per_mtok"]),
        float(table["output_per_mtok"]),
        table.get("cache_read_per_mtok"),
        table.get("cache_write_per_mtok"),
    )


def _amount(path: Path, where: str, key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ConfigError(f"{path}: {where} {key} is {value!r}, not a number of 0 or more")


def _has_secret(layer: _Layer) -> bool:
    return any(secret in _table(layer, section) for section in _SECTIONS for secret in _SECRETS)


def _loose(path: Path) -> str | None:
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{path} holds keys and others may read it (mode {mode:04o}): chmod 600 it" if mode & 0o077 else None


def _with_fields(lines: list[str], section: str, values: Mapping[str, str]) -> list[str]:
    """The lines of a TOML file with the fields of a section set."""
    heading = f"[{section}]"
    starts = [i for i, line in enumerate(lines) if line.strip() == heading]
    if not starts:
        lines = [*lines, *([""] if lines else []), heading]
        starts = [len(lines) - 1]
    begin = starts[0] + 1
    end = next((i for i in range(begin, len(lines)) if lines[i].lstrip().startswith("[")), len(lines))
    kept = [line for line in lines[begin:end] if line.partition("=")[0].strip() not in values]
    while kept and not kept[-1].strip():
        kept.pop()
    fields = [f"{key} = {_toml_string(value)}" for key, value in values.items()]
    return [*lines[:begin], *kept, *fields, *([""] if end < len(lines) else []), *lines[end:]]


def _toml_string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04X}" for c in escaped) + '"'
