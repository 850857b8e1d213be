"""broker-lite topics: list, create, describe, delete."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, number, pair, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client
    from broker_lite.client.views import FoundOffset, TopicView


def parser() -> Parser:
    made = Parser(prog="broker-lite topics", description="List, create, describe and delete topics.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    listing = verbs.add_parser("list", help="the names of all topics")
    listing.add_argument("--internal", action="store_true", help="also Kafka's own")

    create = verbs.add_parser("create", help="make a topic")
    create.add_argument("name", metavar="NAME")
    create.add_argument(
        "--partitions", metavar="N", type=number(32), help="how many (default: the broker's num.partitions)"
    )
    create.add_argument(
        "--replication-factor", metavar="N", type=number(16), help="copies (default: the broker decides)"
    )
    create.add_argument("--config", metavar="KEY=VALUE", type=pair, action="append", default=[], help="repeatable")
    create.add_argument("--if-not-exists", action="store_true", help="do nothing if there is one already")

    describe = verbs.add_parser("describe", help="partitions, offsets and settings")
    describe.add_argument("names", metavar="NAME", nargs="*", help="all topics if there is none")

    delete = verbs.add_parser("delete", help="delete topics and all their records")
    delete.add_argument("names", metavar="NAME", nargs="+")
    delete.add_argument("--if-exists", action="store_true", help="do nothing where there is none")

    for verb in (listing, create, describe, delete):
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    works = {"list": _list, "create": _create, "describe": _describe, "delete": _delete}
    return talk(args, lambda client: works[args.verb](client, args))


async def _list(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.topics import list_topics

    names = [topic.name for topic in await list_topics(client) if args.internal or not topic.is_internal]
    print(json.dumps(names) if args.json else "\n".join(names), end="\n" if names or args.json else "")
    return 0


async def _create(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.topics import create_topic
    from broker_lite.errors import BrokerError, ErrorCode
    from broker_lite.ids import TopicId, format_topic_id

    try:
        made = await create_topic(
            client,
            args.name,
            partitions=args.partitions,
            replication_factor=args.replication_factor,
            configs=dict(args.config),
        )
    except BrokerError as error:
        if args.if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return 0
        raise
    topic_id = format_topic_id(TopicId(made.topic_id))
    if args.json:
        print(json.dumps({"name": made.name, "id": topic_id, "partitions": made.num_partitions}))
    else:
        print(f"created {made.name} with {made.num_partitions} partition{'s' * (made.num_partitions != 1)}")
    return 0


async def _delete(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.topics import delete_topic
    from broker_lite.errors import BrokerError, ErrorCode

    gone: list[str] = []
    for name in args.names:
        try:
            await delete_topic(client, name)
        except BrokerError as error:
            if args.if_exists and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise
        gone.append(name)
        if not args.json:
            print(f"deleted {name}")
    if args.json:
        print(json.dumps(gone))
    return 0


async def _describe(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.client import EARLIEST, LATEST
    from broker_lite.client.topics import list_topics, own_configs

    topics = await list_topics(client, args.names or None)
    facts: list[dict[str, object]] = []
    for topic in topics:
        starts = await client.list_offsets(topic.name, EARLIEST)
        ends = await client.list_offsets(topic.name, LATEST)
        configs = await own_configs(client, topic.name)
        if args.json:
            facts.append(_facts(topic, starts, ends, configs))
        else:
            print(_text(topic, starts, ends, configs))
    if args.json:
        print(json.dumps(facts, indent=2))
    return 0


def _facts(
    topic: TopicView, starts: dict[int, FoundOffset], ends: dict[int, FoundOffset], configs: dict[str, str] | None
) -> dict[str, object]:
    from broker_lite.ids import TopicId, format_topic_id

    return {
        "name": topic.name,
        "id": format_topic_id(TopicId(topic.topic_id)),
        "internal": topic.is_internal,
        "configs": configs,
        "partitions": [
            {
                "partition": part.index,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": part.replicas,
                "isr": part.isr,
                "start": starts[part.index].offset,
                "end": ends[part.index].offset,
            }
            for part in topic.partitions
        ],
    }


def _text(
    topic: TopicView, starts: dict[int, FoundOffset], ends: dict[int, FoundOffset], configs: dict[str, str] | None
) -> str:
    from broker_lite.ids import TopicId, format_topic_id

    count = len(topic.partitions)
    head = f"{topic.name}  {count} partition{'s' * (count != 1)}  id {format_topic_id(TopicId(topic.topic_id))}"
    settings = "".join(f"\n  {key}={value}" for key, value in sorted((configs or {}).items()))
    rows: list[tuple[str, ...]] = [("  PARTITION", "START", "END", "LEADER", "REPLICAS", "ISR")]
    rows += [
        (
            f"  {part.index}",
            str(starts[part.index].offset),
            str(ends[part.index].offset),
            str(part.leader),
            ",".join(map(str, part.replicas)),
            ",".join(map(str, part.isr)),
        )
        for part in topic.partitions
    ]
    return f"{head}{settings}\n{columns(rows)}"
