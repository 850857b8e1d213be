"""broker-lite configs: what is set for topics, brokers, loggers, groups and client metrics, and changing it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, pair, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client

_KINDS = ("topic", "broker", "logger", "group", "client-metrics")
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "start",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}


def parser() -> Parser:
    made = Parser(prog="broker-lite configs", description="Show and change configuration.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    describe = verbs.add_parser("describe", help="what is set; with --all every key")
    describe.add_argument("--all", action="store_true", help="also what nobody has set")
    alter = verbs.add_parser("alter", help="set, delete, append, subtract")
    for flag, about in (("--set", "set a key"), ("--append", "add to a list"), ("--subtract", "take from a list")):
        alter.add_argument(
            flag, metavar="KEY=VALUE", type=pair, action="append", default=[], help=f"{about}; repeatable"
        )
    alter.add_argument("--delete", metavar="KEY", action="append", default=[], help="back to the default; repeatable")
    alter.add_argument("--validate-only", action="store_true", help="change nothing, only say whether it would work")
    for verb in (describe, alter):
        verb.add_argument("kind", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS))
        verb.add_argument("name", metavar="NAME", nargs="?", default="", help="a broker without one is all brokers")
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    works = {"describe": _describe, "alter": _alter}
    return talk(args, lambda client: works[args.verb](client, args))


async def _describe(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import describe_configs

    found = await describe_configs(client, args.kind, args.name)
    if not args.all and args.kind != "logger":
        found = [config for config in found if config.config_source not in (4, 5)]
    if args.json:
        listed = [
            {
                "name": config.name,
                "value": config.value,
                "source": _SOURCES.get(config.config_source, "?"),
                "read_only": config.read_only,
                "sensitive": config.is_sensitive,
                "about": config.documentation,
            }
            for config in found
        ]
        print(json.dumps(listed, indent=2))
    elif found:
        rows = [
            (
                config.name,
                "(hidden)" if config.is_sensitive else "" if config.value is None else config.value,
                _SOURCES.get(config.config_source, "?"),
                "read-only" if config.read_only else "",
            )
            for config in found
        ]
        print(columns([("KEY", "VALUE", "FROM", ""), *rows]))
    return 0


async def _alter(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import APPEND, DELETE, SET, SUBTRACT, ConfigChange, alter_configs

    changes = [ConfigChange(key, SET, value) for key, value in args.set]
    changes += [ConfigChange(key, APPEND, value) for key, value in args.append]
    changes += [ConfigChange(key, SUBTRACT, value) for key, value in args.subtract]
    changes += [ConfigChange(key, DELETE) for key in args.delete]
    await alter_configs(client, args.kind, args.name, changes, validate_only=args.validate_only)
    done = {"resource": args.kind, "name": args.name, "changed": [change.key for change in changes]}
    if args.json:
        print(json.dumps(done))
    else:
        print(
            f"{'would change' if args.validate_only else 'changed'} {len(changes)} of {args.kind} {args.name}".rstrip()
        )
    return 0
