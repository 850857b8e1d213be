"""broker-lite cluster: its id, its brokers, its controller."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, columns, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = client_parser("cluster", "Show the cluster: its id, its brokers and its controller.")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    return talk(args, lambda client: _show(client, args))


async def _show(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import describe_cluster

    found = await describe_cluster(client)
    brokers = sorted(found.brokers, key=lambda broker: broker.broker_id)
    if args.json:
        listed = [{"id": one.broker_id, "host": one.host, "port": one.port, "rack": one.rack} for one in brokers]
        facts = {"cluster_id": found.cluster_id, "controller": found.controller_id, "brokers": listed}
        print(json.dumps(facts, indent=2))
        return 0
    print(f"cluster {found.cluster_id}")
    rows = [
        (
            f"  {one.broker_id}",
            f"{one.host}:{one.port}",
            one.rack or "",
            "controller" if one.broker_id == found.controller_id else "",
        )
        for one in brokers
    ]
    print(columns([("  BROKER", "ADDRESS", "RACK", ""), *rows]))
    return 0
