"""broker-lite api-versions: which APIs a broker speaks, and which of them we know."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, columns, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = client_parser("api-versions", "Print the APIs and versions that a broker speaks.")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    async def show(client: Client) -> int:
        from broker_lite.wire.messages import modules

        names = {key: "".join(map(str.capitalize, name[4:].split("_"))) for key, name in modules().items()}
        spoken = sorted(client.offered.items())
        if args.json:
            listed = [{"key": key, "name": names.get(key), "min": low, "max": high} for key, (low, high) in spoken]
            print(json.dumps(listed, indent=2))
        else:
            rows = [(str(key), names.get(key, "?"), f"{low}-{high}") for key, (low, high) in spoken]
            print(columns([("KEY", "API", "VERSIONS"), *rows]))
        return 0

    return talk(args, show)
