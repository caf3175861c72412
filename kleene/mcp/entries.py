"""Which servers there are: ``mcpServers`` files of the user and of the workspace, and which of the workspace's are trusted.

The user's file is ``mcp.json`` in the folder of their configuration; its servers are on. A workspace's is ``.mcp.json``, which comes with a
checkout and starts programs: each of its entries is off until the user trusts it (``kleene mcp add --project NAME``). The trust is kept with
the user's configuration, by workspace and name, as the digest of the entry: an entry that changes is off again. It speaks for the entry,
not for what the program that it names will do.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from kleene.config import config_dir, save_private
from kleene.planner.errors import ConfigError

USER_FILE = "mcp.json"
PROJECT_FILE = ".mcp.json"
TRUST_FILE = "mcp-trust.json"
FILE_BYTES = 1 << 20
SECTION = "mcpServers"


@attrs.frozen
class Entry:
    """One server as a file has it: a command to start, or a URL. ``written`` is the entry as it was read."""

    name: str
    written: Mapping[str, Any] = attrs.field(repr=False)
    scope: str = "user"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    disabled: bool = False

    @classmethod
    def read(cls, name: str, written: Any, scope: str, where: str) -> Entry:
        """Raises ``ConfigError`` for an entry that is none. Keys of other programs are left alone."""

        def wrong(key: str, wanted: str) -> ConfigError:
            return ConfigError(
                f"{where}: the server {name} has {key} = {_short(found.get(key))}", hint=f"give {wanted}"
            )

        found = written if isinstance(written, Mapping) else {}
        if not isinstance(written, Mapping):
            raise ConfigError(f"{where}: the server {name} is no object", hint='{"command": "...", "args": []}')
        if not re.search(r"[^\W_]", name):
            raise ConfigError(f"{where}: {name!r} cannot be a server's name", hint="name it with letters and digits")
        for key in ("command", "url", "cwd"):
            if not isinstance(found.get(key, ""), str):
                raise wrong(key, "a string")
        args = found.get("args", [])
        if not isinstance(args, list) or not all(isinstance(a, str) for a in args):
            raise wrong("args", "a list of strings")
        for key in ("env", "headers"):
            table = found.get(key) or {}
            if not isinstance(table, Mapping) or not all(isinstance(v, str) for v in table.values()):
                raise wrong(key, "an object of strings")
        command, url = found.get("command", ""), found.get("url", "")
        if bool(command) == bool(url):
            raise ConfigError(
                f"{where}: the server {name} has {'both a command and a url' if url else 'neither command nor url'}",
                hint='{"command": "...", "args": []} starts a program, {"url": "..."} names a server',
            )
        if url and (found.get("type") == "sse" or found.get("transport") == "sse"):
            raise ConfigError(
                f"{where}: the server {name} speaks the old SSE transport", hint="use its streamable HTTP url"
            )
        return cls(
            name,
            found,
            scope,
            command,
            tuple(args),
            dict(found.get("env") or {}),
            found.get("cwd", ""),
            url,
            dict(found.get("headers") or {}),
            found.get("disabled") is True,
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the entry as it was written."""
        return hashlib.sha256(json.dumps(self.written, sort_keys=True).encode()).hexdigest()

    @property
    def line(self) -> str:
        """What it starts or asks, on one line; values of ``env`` and ``headers`` are not shown."""
        names = [f"{k}=..." for k in self.env]
        return " ".join([*names, self.command, *self.args]) if self.command else self.url

    def expanded(self, environ: Mapping[str, str]) -> Entry:
        """The entry with ``${NAME}`` and ``${NAME:-default}`` filled in. Raises ``ConfigError`` for a variable that is not set."""

        def fill(text: str) -> str:
            return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", value, text)

        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            given = environ.get(name) or default
            if given is None:
                raise ConfigError(
                    f"the server {self.name} needs {name} in the environment", hint=f"set it, or write ${{{name}:-...}}"
                )
            return given

        return attrs.evolve(
            self,
            command=fill(self.command),
            args=tuple(map(fill, self.args)),
            env={k: fill(v) for k, v in self.env.items()},
            cwd=fill(self.cwd),
            url=fill(self.url),
            headers={k: fill(v) for k, v in self.headers.items()},
        )


@attrs.frozen
class Found:
    """``on``: the servers to be used, by name. ``off``: those that are not, with the reason. ``notes`` are told to the user."""

    on: Mapping[str, Entry] = attrs.field(factory=dict)
    off: tuple[tuple[Entry, str], ...] = ()
    notes: tuple[str, ...] = ()


UNTRUSTED = "not trusted"
CHANGED = "changed since it was trusted"


def user_file(environ: Mapping[str, str] | None = None) -> Path:
    return config_dir(environ) / USER_FILE


def find_entries(workspace: str | Path, environ: Mapping[str, str] | None = None) -> Found:
    """The user's servers, and the workspace's that are trusted; where both have one of a name, the workspace's.

    Raises ``ConfigError`` for a file of the user's that cannot be read. A workspace's file that cannot is a note.
    """
    on = {e.name: e for e in read_entries(user_file(environ), "user")}
    off = [(e, "disabled") for e in on.values() if e.disabled]
    on = {n: e for n, e in on.items() if not e.disabled}
    notes: list[str] = []
    try:
        project = read_entries(Path(workspace) / PROJECT_FILE, "project")
    except ConfigError as error:
        project, notes = [], [f"{error.message}: its servers are off"]
    trusted = trusted_digests(workspace, environ)
    for entry in project:
        if entry.disabled:
            off.append((entry, "disabled"))
        elif trusted.get(entry.name) == entry.digest:
            on[entry.name] = entry
        else:
            off.append((entry, CHANGED if entry.name in trusted else UNTRUSTED))
    asked = [e.name for e, why in off if why in (UNTRUSTED, CHANGED)]
    if asked:
        notes.append(
            f"{PROJECT_FILE} of this workspace names MCP servers that are off: {', '.join(map(printable, asked))}. "
            f"python -m kleene mcp list shows what they start, mcp add --project NAME trusts one"
        )
    return Found(on, tuple(off), tuple(notes))


def read_entries(path: Path, scope: str) -> list[Entry]:
    """The servers of a file, none where there is no file. Raises ``ConfigError``."""
    return [Entry.read(name, written, scope, str(path)) for name, written in _section(_load(path), path).items()]


def add_entry(path: Path, name: str, written: Mapping[str, Any]) -> Entry:
    """Put a server into a file, in place of one of that name; all else stays. Raises ``ConfigError``."""
    entry = Entry.read(name, written, "", str(path))
    whole = _load(path)
    whole[SECTION] = {**_section(whole, path), name: dict(written)}
    save_private(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    return entry


def remove_entry(path: Path, name: str) -> bool:
    """Take a server out of a file; whether it was there."""
    whole = _load(path)
    section = dict(_section(whole, path))
    if section.pop(name, None) is None:
        return False
    whole[SECTION] = section
    save_private(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    return True


def trusted_digests(workspace: str | Path, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The digests of a workspace's entries that the user trusts, by name."""
    found = _load(config_dir(environ) / TRUST_FILE).get(_key(workspace), {})
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


def trust(workspace: str | Path, name: str, digest: str | None, environ: Mapping[str, str] | None = None) -> None:
    """Trust an entry of a workspace as it is now; ``digest`` None no longer."""
    path = config_dir(environ) / TRUST_FILE
    whole = _load(path)
    found = {k: v for k, v in trusted_digests(workspace, environ).items() if k != name}
    if digest is not None:
        found[name] = digest
    whole[_key(workspace)] = found
    save_private(path, json.dumps({k: v for k, v in whole.items() if v}, indent=2) + "\n")


def printable(text: str) -> str:
    """A name out of a file that is not trusted, as it may be shown: without control characters, cut at 60.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(c if c.isprintable() else "?" for c in text)[:60]


def _key(workspace: str | Path) -> str:
    return os.path.realpath(workspace)


def _load(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():  # a pipe would wait for its writer
            return {}
        with open(path, "rb") as source:
            data = source.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise ConfigError(f"{path} is larger than {FILE_BYTES:,} bytes")
        whole = json.loads(data.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(whole, dict):
        raise ConfigError(f"{path} is no JSON object", hint=f'{{"{SECTION}": {{}}}}')
    return whole


def _section(whole: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    section = whole.get(SECTION, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: {SECTION} is no object", hint='{"mcpServers": {"time": {"command": "..."}}}')
    return section


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
