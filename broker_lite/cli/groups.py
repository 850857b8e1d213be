"""broker-lite groups: list, describe, move and delete consumer groups."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, number, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client
    from broker_lite.ids import TopicPartition


def parser() -> Parser:
    made = Parser(prog="broker-lite groups", description="List, describe, move and delete consumer groups.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    listing = verbs.add_parser("list", help="all groups and their states")
    describe = verbs.add_parser("describe", help="members, offsets and lag")
    reset = verbs.add_parser("reset", help="move a group that has no members")
    reset.add_argument("--topic", metavar="TOPIC[:N,N]", action="append", help="repeatable (default: all it has)")
    to = reset.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true")
    to.add_argument("--to-latest", action="store_true")
    to.add_argument("--to-offset", metavar="N", type=number(64))
    to.add_argument(
        "--to-time", metavar="MS", type=number(64), help="the first record not older; milliseconds since 1970"
    )
    to.add_argument("--shift-by", metavar="N", type=number(64), help="forward, or back if negative")
    reset.add_argument("--dry-run", action="store_true", help="only show where it would go")
    delete = verbs.add_parser("delete", help="forget groups without members, and their offsets")
    delete.add_argument("names", metavar="GROUP", nargs="+")
    for verb in (describe, reset):
        verb.add_argument("name", metavar="GROUP")
    for verb in (listing, describe, reset, delete):
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    works = {"list": _list, "describe": _describe, "reset": _reset, "delete": _delete}
    return talk(args, lambda client: works[args.verb](client, args))


async def _list(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.groups import list_groups

    found = await list_groups(client)
    if args.json:
        listed = [{"group": one.group_id, "type": one.group_type, "state": one.group_state} for one in found]
        print(json.dumps(listed, indent=2))
    elif found:
        print(
            columns([("GROUP", "TYPE", "STATE"), *((one.group_id, one.group_type, one.group_state) for one in found)])
        )
    return 0


async def _describe(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.groups import committed, describe_group, ends

    view = await describe_group(client, args.name)
    offsets = await committed(client, args.name)
    owners = {tp: member for member in view.members for tp in member.assigned}
    partitions = sorted({*offsets, *owners})
    last = await ends(client, partitions)
    rows = [(tp, offsets.get(tp), last[tp], owners.get(tp)) for tp in partitions]
    if args.json:
        facts = {
            "group": view.group,
            "type": view.kind,
            "state": view.state,
            "assignor": view.protocol,
            "members": [
                {
                    "id": one.member_id,
                    "client_id": one.client_id,
                    "host": one.host,
                    "assigned": list(map(str, one.assigned)),
                }
                for one in view.members
            ],
            "partitions": [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "offset": offset,
                    "end": end,
                    "lag": _lag(offset, end),
                    "member": owner.member_id if owner else None,
                }
                for tp, offset, end, owner in rows
            ],
        }
        print(json.dumps(facts, indent=2))
        return 0
    print(f"{view.group}  {view.kind}  {view.state}  {len(view.members)} member{'s' * (len(view.members) != 1)}")
    if rows:
        shown = [
            (f"  {tp}", _text(offset), _text(end), _text(_lag(offset, end)), owner.client_id if owner else "")
            for tp, offset, end, owner in rows
        ]
        print(columns([("  PARTITION", "OFFSET", "END", "LAG", "CLIENT"), *shown]))
    return 0


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if offset is None or end is None else max(0, end - offset)


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)


async def _reset(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.groups import commit, committed, list_groups
    from broker_lite.errors import StartRefused

    state = next((one.group_state for one in await list_groups(client) if one.group_id == args.name), "")
    if state not in ("", "Empty", "Dead"):
        raise StartRefused(f"the group {args.name} has members, it is {state}: it can be moved when they have left")
    now = await committed(client, args.name)
    wanted = await _wanted(client, args, sorted(now))
    if not wanted:
        raise StartRefused(f"the group {args.name} has no offsets yet: say with --topic what it is to read")
    target = await _target(client, args, wanted, now)
    if not args.dry_run:
        await commit(client, args.name, target)
    if args.json:
        moved = [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in target.items()]
        print(json.dumps(moved, indent=2))
    elif target:
        rows = [(str(tp), _text(now.get(tp)), str(offset)) for tp, offset in target.items()]
        print(columns([("PARTITION", "FROM", "TO"), *rows]))
    return 0


async def _wanted(client: Client, args: argparse.Namespace, known: list[TopicPartition]) -> list[TopicPartition]:
    from broker_lite.errors import StartRefused
    from broker_lite.ids import TopicPartition

    if not args.topic:
        return known
    found: list[TopicPartition] = []
    for text in args.topic:
        name, colon, numbers = text.partition(":")
        if colon and not all(number.isdecimal() for number in numbers.split(",")):
            raise StartRefused(f"--topic {text!r} is not TOPIC[:N,N]")
        indexes = map(int, numbers.split(",")) if colon else sorted((await client.topic(name)).leaders)
        found += [TopicPartition(name, index) for index in indexes]
    return found


async def _target(
    client: Client, args: argparse.Namespace, wanted: list[TopicPartition], now: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where each partition goes, never outside its log."""
    from broker_lite.client.client import EARLIEST, LATEST

    target: dict[TopicPartition, int] = {}
    for topic in sorted({tp.topic for tp in wanted}):
        indexes = sorted(tp.partition for tp in wanted if tp.topic == topic)
        first = await client.list_offsets(topic, EARLIEST, indexes)
        last = await client.list_offsets(topic, LATEST, indexes)
        at = {} if args.to_time is None else await client.list_offsets(topic, args.to_time, indexes)
        for tp in (tp for tp in wanted if tp.topic == topic):
            low, high = first[tp.partition].offset, last[tp.partition].offset
            goal = high
            if args.to_earliest:
                goal = low
            elif args.to_offset is not None:
                goal = args.to_offset
            elif args.shift_by is not None:
                goal = now.get(tp, low) + args.shift_by
            elif args.to_time is not None and at[tp.partition].offset >= 0:
                goal = at[tp.partition].offset
            target[tp] = min(max(goal, low), high)
    return target


async def _delete(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.groups import delete_group

    for name in args.names:
        await delete_group(client, name)
        if not args.json:
            print(f"deleted {name}")
    if args.json:
        print(json.dumps(args.names))
    return 0
