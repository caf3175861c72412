"""``setup``: keys and models of your own, asked for or given as flags, tried before they are kept."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kleene.cli.command import Command
from kleene.cli.exits import UsageError, misconfigured
from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.cli.invocation import Invocation
    from kleene.config import Access, Config
    from kleene.models.probe import Probe
    from kleene.models.provider import Provider

ANTHROPIC_TRIAL = "claude-haiku-5-5"
WELCOME = """\
Which models may Kleene use? Keys are tried with one tiny request and kept in your own configuration, for you alone.
  1  Anthropic
  2  OpenAI
  3  another server that speaks OpenAI's protocol (llama.cpp, Ollama, vLLM, a gateway)
  4  the small local model: no key, no network; good for yes/no questions, not for writing SQL
  5  done"""
LOCAL_MISSING = "The local model is not installed. pip install 'kleene[local]', then run setup again."


class Asker(Protocol):
    """Where questions go. Raises ``EOFError`` and ``KeyboardInterrupt`` where the person leaves."""

    def ask(self, question: str, *, secret: bool = False) -> str: ...

    def say(self, text: str) -> None: ...


class Console:
    """Questions on the terminal; a secret shows as stars."""

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession

        self._session: PromptSession[str] = PromptSession()

    def ask(self, question: str, *, secret: bool = False) -> str:
        return self._session.prompt(f"{question} ", is_password=secret).strip()

    def say(self, text: str) -> None:
        from prompt_toolkit import print_formatted_text

        print_formatted_text(text)


class Entry(NamedTuple):
    """What is to be kept of one provider. ``section`` is its table in the file, None fields are left as they are."""

    section: str
    api_key: str | None = None
    base_url: str | None = None
    model: str | None = None

    def values(self) -> dict[str, str]:
        fields = {"api_key": self.api_key, "base_url": self.base_url, "model": self.model}
        return {name: value for name, value in fields.items() if value}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for provider in ("anthropic", "openai"):
        parser.add_argument(f"--{provider}-key", metavar="KEY", help="the key; - reads it from stdin")
        parser.add_argument(f"--{provider}-base-url", metavar="URL", help="another endpoint than the vendor's own")
        parser.add_argument(f"--{provider}-model", metavar="NAME", help="one model for every alias")
    parser.add_argument("--web-search-provider", metavar="NAME", help="who searches the web")
    parser.add_argument("--web-search-key", metavar="KEY", help="the key for it; - reads it from stdin")
    parser.add_argument(
        "--local", action="store_true", help="let the local model be the proxy (the worker, without keys)"
    )
    parser.add_argument("--no-test", action="store_true", help="keep what is given without trying it")
    parser.add_argument("--show", action="store_true", help="show what is configured, keys masked, and change nothing")


def execute(inv: Invocation) -> int:
    if inv.args.show:
        return show(inv)
    entries = given(inv)
    searches = {
        name: value
        for name, value in (("provider", inv.args.web_search_provider), ("api_key", _key(inv, "web_search_key")))
        if value
    }
    if not entries and not searches and not inv.args.local:
        if not inv.terminal.can_ask:
            raise UsageError(
                "setup without flags asks questions and needs a terminal",
                hint="python -m kleene setup --anthropic-key - < key.txt; python -m kleene setup --help names the flags",
            )
        return dialogue(inv, Console())
    for entry in entries:
        if not inv.args.no_test:
            inv.terminal.say(said(entry, tried(inv, entry)))
        keep(inv, entry.section, entry.values())
    if searches:
        keep(inv, "web_search", searches)
    if inv.args.local:
        inv.terminal.say(use_local(inv))
    return 0


def given(inv: Invocation) -> list[Entry]:
    """What the flags give, one entry a provider. Raises ``UsageError`` on a key that none can be."""
    args = vars(inv.args)
    found = []
    for section in ("anthropic", "openai"):
        key = _key(inv, f"{section}_key")
        entry = Entry(section, key, args[f"{section}_base_url"], args[f"{section}_model"])
        if entry.values():
            found.append(entry)
    return found


def tried(inv: Invocation, entry: Entry) -> Probe:
    """Ask the model one tiny thing. Raises ``UsageError`` where the key or the URL cannot be, or the endpoint does not take them."""
    from kleene.models.probe import probe

    found = probe(provider_of(inv, entry))
    if not found.reached:
        raise UsageError(
            f"{entry.section} is not kept: {found.error}",
            hint=found.hint or "check key, URL and model; --no-test keeps them untried",
        )
    return found


def provider_of(inv: Invocation, entry: Entry) -> Provider:
    """The model that the key is tried with: the one that is configured, else the vendor's cheapest."""
    from kleene.models.build import DEFAULT_OPENAI_MODEL, make_provider

    with misconfigured():
        config = _config(inv)
        old: Access = getattr(config, entry.section)
        import attrs

        changed: dict[str, Any] = {entry.section: attrs.evolve(old, **entry.values())}
        config = attrs.evolve(config, **changed)
        default = ANTHROPIC_TRIAL if entry.section == "anthropic" else DEFAULT_OPENAI_MODEL
        return make_provider(f"{entry.section}:{entry.model or old.model or default}", config)


def said(entry: Entry, probe: Probe) -> str:
    if probe.error is not None:
        return f"{entry.section}: the key is accepted, though {probe.error}"
    return f"{entry.section}: answered in {probe.seconds:.1f} s"


def keep(inv: Invocation, section: str, values: dict[str, str]) -> None:
    from kleene.config import save_access

    with misconfigured():
        path = save_access(section, values, file=inv.args.config)
    inv.terminal.say(f"[{section}] {', '.join(values)} kept in {path}")


def use_local(inv: Invocation) -> str:
    """Make the local model the proxy, or the worker where there is no other model; what was done, in a sentence."""
    from kleene.models.local import Local

    with misconfigured():
        Local()
        config = _config(inv)
        has_keys = any(access.configured for access in (config.anthropic, config.openai, config.responses))
        alias = "proxy" if has_keys else "worker"
        keep(inv, "aliases", {alias: "local"})
    if has_keys:
        return "The local model is the proxy: PROXY cascades and model := 'proxy' use it."
    return "The local model answers every call. It cannot write SQL: run needs a larger model."


def dialogue(inv: Invocation, asker: Asker) -> int:
    """Ask until the person is done. What is entered is tried, and kept where it works or the person wants it all the same."""
    asker.say(WELCOME)
    while True:
        try:
            choice = asker.ask("1-5:")
            if choice in ("", "5"):
                return 0
            if choice == "4":
                asker.say(use_local(inv) if local_is_installed() else LOCAL_MISSING)
            elif choice in ("1", "2", "3"):
                _enter(inv, asker, choice)
            else:
                asker.say("Type a number from 1 to 5.")
        except EOFError:
            return 0
        except ConfigError as error:
            asker.say(error.render())


def _enter(inv: Invocation, asker: Asker, choice: str) -> None:
    section = "anthropic" if choice == "1" else "openai"
    url = model = None
    if choice == "3":
        url = asker.ask("Base URL, such as http://127.0.0.1:8080/v1:")
        model = asker.ask("Model name:")
    key = asker.ask("Key (empty: none):" if choice == "3" else "Key:", secret=True)
    entry = Entry(section, _checked(key, f"the {section} key"), url or None, model or None)
    if not entry.values():
        asker.say("Nothing was entered.")
        return
    try:
        asker.say(said(entry, tried(inv, entry)))
    except ConfigError as error:
        asker.say(error.render())
        if asker.ask("Keep it all the same? [y/N]").casefold() not in ("y", "yes"):
            return
    keep(inv, section, entry.values())


def local_is_installed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


def show(inv: Invocation) -> int:
    """Print every field that is set, keys masked, and where it is from."""
    from kleene.rendering.rows import text_table

    with misconfigured():
        rows = list(_fields(_config(inv)))
    inv.write(text_table(("name", "value", "source"), rows))
    return 0


def _fields(config: Config) -> list[tuple[str, str, str]]:
    from kleene.config import ENVIRONMENT, mask

    files = ", ".join(str(f) for f in config.files)
    found = []
    for section in ("anthropic", "openai", "responses", "web_search"):
        access = getattr(config, section)
        for name in ("api_key", "auth_token", "base_url", "model", "provider"):
            value = getattr(access, name)
            if value is not None:
                variable = ENVIRONMENT.get((section, name))
                source = variable if variable in config.pinned else files
                found.append((f"{section}.{name}", mask(value) if name in ("api_key", "auth_token") else value, source))
    found += [(f"aliases.{name}", ", ".join(alias.candidates), files) for name, alias in config.aliases.items()]
    return found


def _config(inv: Invocation) -> Config:
    from pathlib import Path

    from kleene.config import load_config

    file = inv.args.config
    return load_config(inv.args.workspace, file=file if file and Path(file).exists() else None)


def _key(inv: Invocation, name: str) -> str | None:
    value = vars(inv.args)[name]
    if value == "-":
        value = inv.terminal.stdin.readline()
    return None if value is None else _checked(value, f"--{name.replace('_', '-')}")


def _checked(key: str, what: str) -> str | None:
    from kleene.models.http import checked_key

    with misconfigured():
        return checked_key(key, what)


COMMAND = Command(
    name="setup",
    summary="enter keys and try them, or show what is configured",
    usage="[--show | --anthropic-key KEY | --openai-key KEY ...] [OPTIONS]",
    description="""\
Ask which models Kleene may use, try each key with one tiny request, and keep it in ~/.config/kleene/config.toml (or in
--config FILE), readable by you alone. With flags nothing is asked: what is given is tried and kept, or the exit code is 2.
A variable of the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, ...) goes before what is kept. Keys given as arguments can
be seen by other programs of this machine while the command runs: - reads a key from stdin instead.""",
    examples="""\
# be asked
python -m kleene setup

# in a script
echo "$KEY" | python -m kleene setup --anthropic-key -

# a server of your own
python -m kleene setup --openai-base-url http://127.0.0.1:8080/v1 --openai-model qwen3

# what is configured?
python -m kleene setup --show""",
    add_arguments=add_arguments,
    execute=execute,
)
