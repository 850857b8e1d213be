"""What `serve --sasl-user` and `--tls` mean in keys and listeners."""

from __future__ import annotations

import argparse

from broker_lite.config import broker as keys
from broker_lite.config import security
from broker_lite.config.listeners import opened, parse_listener
from broker_lite.config.sources import Settings
from broker_lite.errors import StartRefused
from broker_lite.shapes import replace

_ADDRESSES = (keys.LISTENERS, keys.ADVERTISED_LISTENERS)


def protocol_of(args: argparse.Namespace, flags: dict[str, str]) -> str:
    """The protocol of listeners that have no name of their own. What the two say, one of which was given, goes into
    `flags`."""
    if args.sasl_user:
        security.users_from(",".join(args.sasl_user))
        flags[security.SASL_USERS.name] = ",".join(args.sasl_user)
    if args.tls is not None:
        flags.setdefault(security.SSL_KEYSTORE_LOCATION.name, str(args.tls / "server.pem"))
        flags.setdefault(security.SSL_TRUSTSTORE_LOCATION.name, str(args.tls / "ca.pem"))
        return "SASL_SSL" if args.sasl_user else "SSL"
    return "SASL_PLAINTEXT"


def listeners_of(settings: Settings, protocol: str) -> dict[str, str]:
    """Whoever protects the broker and says nothing of listeners here means the plain one that there is. Those that
    were given names stay as they are: somebody has decided which of them are protected."""
    found = opened(settings)
    if [listener.name for listener in found] == ["PLAINTEXT"]:
        plain = {key.name: [parse_listener(text) for text in settings.get(key)] for key in _ADDRESSES}
        return {
            name: ",".join(str(replace(one, name=protocol) if one.name == "PLAINTEXT" else one) for one in listeners)
            for name, listeners in plain.items()
            if listeners
        }
    for wanted, there in (("SASL", [one.has_sasl for one in found]), ("SSL", [one.has_tls for one in found])):
        if wanted in protocol and not any(there):
            names = ", ".join(f"{listener.name} ({listener.protocol})" for listener in found)
            raise StartRefused(f"{protocol} is asked for, but no listener speaks {wanted}: there are {names}")
    return {}
