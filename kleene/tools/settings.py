"""What tools may do, as the user's configuration and the command line grant it. A workspace's own kleene.toml grants nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kleene.config import Config
from kleene.planner.errors import ConfigError, did_you_mean

_LISTS = ("allow_hosts", "env", "writable")
_SWITCHES = ("unsafe_shell", "shell_network")
MAX_SHELL_MS = 3_600_000
"""The most that a command may ask for."""


@attrs.frozen
class ToolSettings:
    """``allow_hosts``: hosts that the web tools may reach (``example.com``, ``*.example.com``, or ``host:port`` for private ones); ``env``: names of
    environment variables that the tool env shows; ``writable``: globs of workspace paths that may be written; ``unsafe_shell``: commands
    run without a sandbox where there is none; ``shell_network``: commands in the sandbox reach the network."""

    allow_hosts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    writable: tuple[str, ...] = ("**",)
    unsafe_shell: bool = False
    shell_network: bool = False

    @classmethod
    def of(cls, config: Config) -> ToolSettings:
        """The table ``[tools]`` of the user's own configuration. Raises ``ConfigError``.

        >>> ToolSettings.of(Config(trusted={"tools": {"allow_hosts": ["docs.python.org"]}})).allow_hosts
        ('docs.python.org',)
        """
        table = config.trusted.get("tools", {})
        if not isinstance(table, Mapping):
            raise ConfigError("tools is not a table", hint="write [tools] on a line of its own")
        return cls(**{key: _value(key, value) for key, value in table.items()})

    def granting(self, hosts: Sequence[str], *, unsafe_shell: bool) -> ToolSettings:
        """With what is granted for this engine alone."""
        return attrs.evolve(
            self, allow_hosts=(*self.allow_hosts, *hosts), unsafe_shell=self.unsafe_shell or unsafe_shell
        )


def ignored_tables(config: Config) -> tuple[str, ...]:
    """A note where a workspace tries to grant itself tools.

    >>> ignored_tables(Config(settings={"tools": {"unsafe_shell": True}}))
    ('[tools] in the workspace is passed over: what tools may do is set in your own configuration',)
    """
    if config.settings.get("tools", {}) == config.trusted.get("tools", {}):
        return ()
    return ("[tools] in the workspace is passed over: what tools may do is set in your own configuration",)


def _value(key: str, value: Any) -> Any:
    if key in _SWITCHES:
        if isinstance(value, bool):
            return value
        raise ConfigError(f"[tools] {key} is {value!r}, not true or false")
    if key in _LISTS:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ConfigError(f"[tools] {key} is {value!r}, not a list of texts", hint=f'{key} = ["..."]')
    near = did_you_mean(key, (*_LISTS, *_SWITCHES))
    raise ConfigError(
        f"[tools] has the unknown key {key}",
        hint=f"did you mean {near}?" if near else f"known here: {', '.join((*_LISTS, *_SWITCHES))}",
    )
