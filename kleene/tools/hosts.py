"""Which hosts the web tools may reach, by name and by address.

Two questions are asked of each connection, at the start and at every redirect: is the host of the URL on the allow-list, and is the address
that its name stands for a public one? The name is resolved once and the answer is what is connected to: a name that means something else a
moment later gains nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import attrs
import httpx

from kleene.planner.errors import ConfigError, ToolError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

DEFAULT_PORTS = {"http": 80, "https": 443}
METADATA = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"))
)
"""Where clouds answer with credentials (AWS, Google and Azure; AWS; Alibaba; Azure's wire server, which is a public address)."""
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"(0x[0-9a-f]*|\d+)", re.IGNORECASE)


@attrs.frozen
class Entry:
    """One entry of the allow-list: a host's name, ``.name`` for all hosts below it, an empty name for all hosts, or a network of addresses.
    Without ``port``: 80 and 443, whichever the scheme's own is."""

    name: str | None = None
    network: Network | None = None
    port: int | None = None

    def covers_port(self, scheme: str, port: int) -> bool:
        return port == (DEFAULT_PORTS.get(scheme) if self.port is None else self.port)

    def names(self, host: str) -> bool:
        if self.name is None:
            return False
        return not self.name or host == self.name or (self.name.startswith(".") and host.endswith(self.name))

    def holds(self, address: Address) -> bool:
        """Metadata and link-local addresses are held only by an entry that names them alone."""
        if self.network is None or self.network.version != address.version or address not in self.network:
            return False
        return self.network.num_addresses == 1 or not (address in METADATA or address.is_link_local)


LOOPBACK = ("127.0.0.0/8", "::1/128")


@attrs.frozen
class HostRules:
    """The allow-list. Empty: nothing may be reached."""

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> HostRules:
        """Reads ``--allow-host`` and the configuration: ``example.com``, ``*.example.com`` (the hosts below), ``*`` (all public hosts),
        ``127.0.0.1``, ``10.0.0.0/8``, ``[::1]:8080``, ``localhost:8080``. A private address is reached only where an entry holds the address
        itself; ``localhost`` is one for 127.0.0.0/8 and ::1. Raises ``ConfigError`` for an entry that is none of these.
        """
        return cls(tuple(entry for text in texts for entry in _entries(text)))

    def check_url(self, url: httpx.URL) -> None:
        """Raises ``ToolError`` (access denied) where the URL's host is not on the list, as a name or as an address."""
        host, port = host_of(url), port_of(url)
        address = as_address(host)
        for entry in self.entries:
            matches = (
                entry.names(host)
                if address is None
                else entry.holds(address) or (entry.name == "" and is_public(address))
            )
            if matches and entry.covers_port(url.scheme, port):
                return
        shown = host if port == DEFAULT_PORTS.get(url.scheme) else f"{host if ':' not in host else f'[{host}]'}:{port}"
        raise ToolError(
            f"{shown} is not on the list of hosts that may be reached",
            kind="access denied",
            hint=f"allow it with --allow-host {shown}" if is_plain(address) else None,
        )

    def check_addresses(self, host: str, addresses: Iterable[Address], port: int) -> None:
        """Raises ``ToolError`` (access denied) where one of the addresses of a host is neither public nor itself on the list."""
        for address in addresses:
            allowed = any(entry.holds(address) and entry.port in (None, port) for entry in self.entries)
            if not is_public(address) and not allowed:
                named = "" if as_address(host) == address else f" (of {host})"
                raise ToolError(
                    f"{address}{named} is {kind_of(address)}, which is not reached",
                    kind="access denied",
                    hint=f"if it is meant: --allow-host {address}" if is_plain(address) else None,
                )


def is_plain(address: Address | None) -> bool:
    """Whether to tell how an address is allowed: who wants a metadata service knows it already."""
    return address is None or not (address in METADATA or address.is_link_local)


def _entries(text: str) -> Iterable[Entry]:
    rest, port = text.strip().lower(), None
    with_port = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]+):(\d{1,5})", rest)
    if with_port and 0 < int(with_port[2]) < 65536:
        rest, port = with_port[1], int(with_port[2])
    if rest == "*":
        return [Entry("", port=port)]
    rest = rest[1:-1] if rest.startswith("[") and rest.endswith("]") else rest.rstrip(".")
    try:
        return [Entry(network=ipaddress.ip_network(rest), port=port)]
    except ValueError:
        pass
    bare = rest.removeprefix("*.")
    if not is_name(bare):
        raise ConfigError(
            f"{text!r} names no host",
            hint="allowed hosts are written example.com, *.example.com, *, 10.0.0.0/8, localhost:8080 (no scheme, no path)",
        )
    entry = Entry(rest.removeprefix("*"), port=port)
    local = [Entry(network=ipaddress.ip_network(n), port=port) for n in LOOPBACK] if bare == "localhost" else []
    return [entry, *local]


def is_name(host: str) -> bool:
    """Whether a host is a name in letters, digits and hyphens that no resolver takes for a number.

    >>> [is_name(h) for h in ("a.example.com", "xn--bcher-kva.de", "2130706433", "0x7f.1", "127.0.0.010", "a..b", "ex ample")]
    [True, True, False, False, False, False, False]
    """
    labels = host.split(".")
    return len(host) <= 253 and all(map(_NAME.fullmatch, labels)) and not _NUMBER.fullmatch(labels[-1])


def as_address(host: str) -> Address | None:
    """A host that is an address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def parse_url(text: str) -> httpx.URL:
    """A URL that may be fetched: http or https, a host by name or by a plainly written address, no user.

    Raises ``ToolError`` (invalid arguments) for anything else: addresses in decimal, octal or hex among them, which resolvers understand and
    readers do not.
    """
    shown = text if len(text) <= 200 else text[:197] + "..."
    if re.search(r"[\x00-\x20\x7f\\]", text):
        raise _invalid(f"{shown!r} is no URL: it holds a space, a backslash or a control character")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise _invalid(f"{shown!r} is no URL: {error}") from None
    if url.scheme not in DEFAULT_PORTS:
        raise _invalid(f"{shown!r} is no http or https URL", hint="give a whole one: https://example.com/page")
    if url.userinfo:
        raise _invalid(
            "the URL names a user or a password, which is not sent", hint="leave out what stands before the @"
        )
    host = host_of(url)
    if "%" in host or (as_address(host) is None and not is_name(host)):
        raise _invalid(f"{host!r} is no host: a name, or an address like 192.0.2.1 or [2001:db8::1]")
    if not 0 < port_of(url) < 65536:
        raise _invalid(f"{port_of(url)} is no port")
    return url.copy_with(fragment=None)


def host_of(url: httpx.URL) -> str:
    """The host in the form that is compared and resolved: small letters, ASCII, no dot at the end, no brackets."""
    return url.raw_host.decode("ascii").lower().rstrip(".").strip("[]")


def port_of(url: httpx.URL) -> int:
    return DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def _invalid(message: str, *, hint: str | None = None) -> ToolError:
    return ToolError(message, kind="invalid arguments", hint=hint)


# Addresses


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, and the one that it carries inside if it carries one."""
    return kind_of(address) is None


def kind_of(address: Address) -> str | None:
    """What an address is that is not public; None for a public one.

    >>> [kind_of(as_address(a)) for a in ("127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "169.254.169.254", "1.1.1.1")]
    ['a loopback address', 'a private address', 'a loopback address', 'a metadata address', None]
    """
    inner = carried(address)
    if inner is not None:
        return kind_of(inner)
    for name in ("metadata", "unspecified", "loopback", "link-local", "multicast", "private"):
        if address in METADATA if name == "metadata" else getattr(address, f"is_{name.replace('-', '_')}"):
            return f"{'an' if name[0] in 'aeiou' else 'a'} {name} address"
    return None if address.is_global and not address.is_reserved else "no public address"


def carried(address: Address) -> IPv4Address | None:
    """The IPv4 address inside of an IPv6 one: mapped, compatible, NAT64 (RFC 6052, RFC 8215), 6to4, Teredo."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    number = int(address)
    if 1 < number < 1 << 32 or any(address in ipaddress.ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48")):
        return IPv4Address(number & 0xFFFFFFFF)
    return None
