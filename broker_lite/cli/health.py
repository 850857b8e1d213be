"""broker-lite health: exit with 0 if a broker is ready. For healthchecks and scripts that wait."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = client_parser("health", "Exit with 0 if the broker answers as one that is ready, with 1 if not.")
    made.set_defaults(timeout=3.0)
    return made


def run(args: argparse.Namespace) -> int:
    async def ask(client: Client) -> int:
        answer = await client.metadata([])
        if not answer.brokers:
            print("broker-lite: the broker does not know itself yet", file=sys.stderr)
            return 1
        print(f"ready: broker {answer.brokers[0].node_id} of cluster {answer.cluster_id}")
        return 0

    return talk(args, ask)
