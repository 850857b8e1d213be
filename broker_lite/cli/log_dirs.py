"""broker-lite log-dirs: what lies in the brokers' data folders."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, columns, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = client_parser("log-dirs", "Show the data folders of all brokers, and the size of each partition.")
    made.add_argument("topics", metavar="TOPIC", nargs="*", help="only these")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    return talk(args, lambda client: _show(client, args))


async def _show(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import describe_log_dirs

    folders = [
        {
            "broker": node,
            "folder": folder.log_dir,
            "total_bytes": folder.total_bytes,
            "usable_bytes": folder.usable_bytes,
            "partitions": {
                f"{topic.name}-{part.partition_index}": part.partition_size
                for topic in sorted(folder.topics, key=lambda topic: topic.name)
                if not args.topics or topic.name in args.topics
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            },
        }
        for node, found in (await describe_log_dirs(client)).items()
        for folder in found
    ]
    if args.json:
        print(json.dumps(folders, indent=2))
        return 0
    for folder in folders:
        print(f"broker {folder['broker']}  {folder['folder']}")
        sizes = folder["partitions"]
        assert isinstance(sizes, dict)
        if sizes:
            print(columns([("  PARTITION", "BYTES"), *((f"  {name}", str(size)) for name, size in sizes.items())]))
    return 0
