"""broker-lite health: exit with 0 if a broker is ready. For healthchecks and scripts that wait.

The check of an image has no options and the environment of its broker, which may listen anywhere: so that is where it
looks, at a listener that asks for nothing if there is one.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker_lite.cli.image import as_in_the_image
from broker_lite.cli.parts import Parser, client_parser, talk
from broker_lite.config.listeners import Listener, format_address, opened
from broker_lite.config.sources import resolve
from broker_lite.errors import StartRefused

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = client_parser("health", "Exit with 0 if the broker answers as one that is ready, with 1 if not.")
    made.set_defaults(timeout=3.0, protected=None)
    own = None if os.environ.get("BROKER_LITE_BOOTSTRAP") else own_listener(os.environ)
    if own is not None:
        address = format_address("localhost" if own.everywhere else own.host, own.port)
        made.set_defaults(bootstrap=address, protected=None if own.protocol == "PLAINTEXT" else address)
    return made


def own_listener(environment: Mapping[str, str]) -> Listener | None:
    """Where a broker with this environment can be asked; None if it does not tell."""
    if not any(name.endswith("LISTENERS") for name in environment):
        return None
    try:
        settings, _ = resolve({}, as_in_the_image(environment), {})
        listeners = [listener for listener in opened(settings) if listener.port]
    except StartRefused:
        return None
    plain = [listener for listener in listeners if listener.protocol == "PLAINTEXT"]
    return next(iter(plain or listeners), None)


def run(args: argparse.Namespace) -> int:
    if args.protected == args.bootstrap and args.command_config is None:
        return _knock(args.bootstrap, args.timeout)

    async def ask(client: Client) -> int:
        answer = await client.metadata([])
        if not answer.brokers:
            print("broker-lite: the broker does not know itself yet", file=sys.stderr)
            return 1
        print(f"ready: broker {answer.brokers[0].node_id} of cluster {answer.cluster_id}")
        return 0

    return talk(args, ask)


def _knock(address: str, within: float) -> int:
    """Nobody told how to log in, but a broker opens its listeners when it is ready, and not before."""
    from broker_lite.client.views import parse_bootstrap

    try:
        socket.create_connection(parse_bootstrap(address)[0], within).close()
    except OSError as error:
        print(f"broker-lite: cannot connect to {address}: {error.strerror or error}", file=sys.stderr)
        return 1
    print(f"ready: {address} takes connections; BROKER_LITE_COMMAND_CONFIG may name a file that tells how to log in")
    return 0
