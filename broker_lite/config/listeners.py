"""Addresses: where the broker listens and what it tells clients.

`NAME://HOST:PORT`; the name may be left out on the command line and is then PLAINTEXT, PLAINTEXT_2, …; an empty host
is every interface; an IPv6 address stands in brackets; port 0 is any free port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address

from broker_lite.config.broker import (
    ADVERTISED_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
)
from broker_lite.config.key import Key
from broker_lite.config.security import PROTOCOLS
from broker_lite.config.sources import Settings, Source
from broker_lite.errors import StartRefused
from broker_lite.shapes import dataclass, replace

_ADDRESS = re.compile(
    r"(?:(?P<name>[A-Za-z0-9._-]+)://)?(?:\[(?P<v6>[0-9A-Fa-f:.%a-z]*)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>[0-9]{1,5})"
)
_EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    """Empty is every interface."""
    port: int
    protocol: str = "PLAINTEXT"
    """One of `PROTOCOLS`."""

    @property
    def has_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def local(self) -> bool:
        """Nobody but this machine can reach it."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    @property
    def everywhere(self) -> bool:
        return self.host in _EVERY_INTERFACE

    def __str__(self) -> str:
        return f"{self.name}://{format_address(self.host, self.port)}"


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listener(text: str, *, default_name: str = "PLAINTEXT") -> Listener:
    """StartRefused if `text` is not an address."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        raise StartRefused(
            f"{text!r} is not a listener: expected NAME://HOST:PORT, for example PLAINTEXT://127.0.0.1:9092"
        )
    return Listener((found["name"] or default_name).upper(), found["v6"] or found["host"] or "", int(found["port"]))


def named(texts: Iterable[str], protocol: str = "PLAINTEXT") -> list[str]:
    """Addresses from the command line, each with a name of its own: that of the protocol, if it does not say."""
    out: list[str] = []
    for text in texts:
        default = protocol if not out else f"{protocol}_{len(out) + 1}"
        out.append(str(parse_listener(text, default_name=default)))
    return out


def opened(settings: Settings) -> list[Listener]:
    """The listeners to open: those of `listeners` that are not a controller's."""
    controllers = {name.upper() for name in settings.get(CONTROLLER_LISTENER_NAMES)}
    found = [parse_listener(text) for text in settings.get(LISTENERS)]
    found = [listener for listener in found if listener.name not in controllers]
    if not found:
        raise StartRefused("there is no listener to open: every one in `listeners` is a controller's, or there is none")
    names = [listener.name for listener in found]
    for name in names:
        if names.count(name) > 1:
            raise StartRefused(f"two listeners are called {name}; each needs a name of its own")
    protocols = _protocols(settings)
    return [replace(listener, protocol=_protocol(listener.name, protocols)) for listener in found]


def advertised(settings: Settings, listeners: Sequence[Listener]) -> dict[str, Listener]:
    """What clients are told, by listener name. Port 0 stands for the port that the listener got.

    A listener that nobody advertises is told by its name, if it was given one: a certificate may be made out to it.
    A client on a listener that is missing here is told the address it came in by.  If a stronger source than the one
    that advertises has named the listeners, what was advertised for others does not count: an image may bring defaults.
    """
    controllers = {name.upper() for name in settings.get(CONTROLLER_LISTENER_NAMES)}
    names = {listener.name for listener in listeners}
    outvoted = _source(settings, ADVERTISED_LISTENERS) < _source(settings, LISTENERS)
    found: dict[str, Listener] = {}
    for text in settings.get(ADVERTISED_LISTENERS):
        listener = parse_listener(text)
        if listener.name in controllers or (outvoted and listener.name not in names):
            continue
        if listener.name not in names:
            raise StartRefused(
                f"advertised.listeners names {listener.name}, but the listeners are {', '.join(sorted(names))}"
            )
        if listener.everywhere:
            raise StartRefused(f"advertised.listeners has {listener}, an address that no client can connect to")
        if listener.name in found:
            raise StartRefused(f"advertised.listeners names {listener.name} twice")
        found[listener.name] = listener
    for listener in listeners:
        if listener.name not in found and not listener.everywhere and not _is_number(listener.host):
            found[listener.name] = listener
    return found


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _source(settings: Settings, key: Key[object]) -> Source:
    return settings.explain(key)[0].source


def _protocols(settings: Settings) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in settings.get(LISTENER_SECURITY_PROTOCOL_MAP):
        name, colon, protocol = entry.rpartition(":")
        if not colon:
            raise StartRefused(f"listener.security.protocol.map has {entry!r}; expected NAME:PROTOCOL")
        if protocol.strip().upper() not in PROTOCOLS:
            raise StartRefused(f"listener.security.protocol.map has {entry!r}; protocols are {', '.join(PROTOCOLS)}")
        pairs[name.strip().upper()] = protocol.strip().upper()
    return pairs


def _protocol(name: str, protocols: Mapping[str, str]) -> str:
    """What the map says; else a name that begins with a protocol's, as SASL_SSL_2, is one of these."""
    if name in protocols:
        return protocols[name]
    return next(
        (one for one in sorted(PROTOCOLS, key=len, reverse=True) if re.fullmatch(f"{one}(_[0-9]+)?", name)), "PLAINTEXT"
    )
