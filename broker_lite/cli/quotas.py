"""broker-lite quotas: how much clients may do a second."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, pair, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client

_KINDS = ("user", "client-id", "ip")
DEFAULT = "<default>"


def parser() -> Parser:
    made = Parser(prog="broker-lite quotas", description="Show and change what clients may do a second.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    listing = verbs.add_parser("list", help="all limits, or those of one entity")
    alter = verbs.add_parser("set", help="set limits")
    alter.add_argument("limits", metavar="KEY=NUMBER", type=_limit, nargs="+", help="as producer_byte_rate=1024")
    remove = verbs.add_parser("remove", help="remove limits")
    remove.add_argument("keys", metavar="KEY", nargs="+")
    for verb in (listing, alter, remove):
        for kind in _KINDS:
            verb.add_argument(f"--{kind}", metavar="NAME", help=f"{DEFAULT} is the default of its kind")
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def _limit(text: str) -> tuple[str, float]:
    key, value = pair(text)
    try:
        return key, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=NUMBER") from None


def run(args: argparse.Namespace) -> int:
    return talk(args, lambda client: (_list if args.verb == "list" else _alter)(client, args))


def _entity(args: argparse.Namespace) -> dict[str, str | None]:
    named = {kind: getattr(args, kind.replace("-", "_")) for kind in _KINDS}
    return {kind: None if name == DEFAULT else name for kind, name in named.items() if name is not None}


async def _list(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import describe_quotas

    found = await describe_quotas(client, _entity(args))
    if args.json:
        print(json.dumps([{"entity": entity, "limits": limits} for entity, limits in found], indent=2))
    elif found:
        rows = [
            (
                ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity.items()),
                key,
                str(int(limit)) if limit.is_integer() else str(limit),
            )
            for entity, limits in found
            for key, limit in limits.items()
        ]
        print(columns([("ENTITY", "LIMIT", "A SECOND"), *rows]))
    return 0


async def _alter(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import alter_quotas

    limits: dict[str, float | None] = dict(args.limits) if args.verb == "set" else dict.fromkeys(args.keys)
    await alter_quotas(client, _entity(args), limits)
    if args.json:
        print(json.dumps({"entity": _entity(args), "limits": limits}))
    else:
        print("set" if args.verb == "set" else "removed", ", ".join(limits))
    return 0
