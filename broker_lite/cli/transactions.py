"""broker-lite transactions: list, describe, find who holds up readers, abort."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, number, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client


def parser() -> Parser:
    made = Parser(prog="broker-lite transactions", description="List, describe and abort transactions.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    listing = verbs.add_parser("list", help="all transactional ids and their states")
    listing.add_argument("--state", metavar="STATE", action="append", help="only these, as Ongoing; repeatable")
    describe = verbs.add_parser("describe", help="one transactional id")
    describe.add_argument("name", metavar="TRANSACTIONAL_ID")
    producers = verbs.add_parser("producers", help="who writes to a partition")
    abort = verbs.add_parser("abort", help="abort a transaction that nobody will end")
    abort.add_argument(
        "--start-offset", metavar="OFFSET", type=number(64), required=True, help="as `producers` tells it"
    )
    for verb in (producers, abort):
        verb.add_argument("topic", metavar="TOPIC")
        verb.add_argument("--partition", metavar="N", type=number(32), required=True)
    for verb in (listing, describe, producers, abort):
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    works = {"list": _list, "describe": _describe, "producers": _producers, "abort": _abort}
    return talk(args, lambda client: works[args.verb](client, args))


async def _list(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.transactions import list_transactions

    found = await list_transactions(client, args.state)
    if args.json:
        listed = [
            {"id": one.transactional_id, "state": one.transaction_state, "producer_id": one.producer_id}
            for one in found
        ]
        print(json.dumps(listed, indent=2))
    elif found:
        rows = [(one.transactional_id, one.transaction_state, str(one.producer_id)) for one in found]
        print(columns([("TRANSACTIONAL ID", "STATE", "PRODUCER"), *rows]))
    return 0


async def _describe(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.transactions import describe_transaction

    found = await describe_transaction(client, args.name)
    partitions = [f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions]
    facts: dict[str, object] = {
        "id": found.transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started_ms": found.transaction_start_time_ms,
        "partitions": partitions,
    }
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        facts["partitions"] = ", ".join(partitions)
        print(columns([(key, str(value)) for key, value in facts.items()]))
    return 0


async def _producers(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.transactions import producers

    found = await producers(client, args.topic, args.partition)
    if args.json:
        listed = [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "last_sequence": one.last_sequence,
                "last_timestamp": one.last_timestamp,
                "transaction_start_offset": one.current_txn_start_offset,
            }
            for one in found
        ]
        print(json.dumps(listed, indent=2))
    elif found:
        rows = [
            (
                str(one.producer_id),
                str(one.producer_epoch),
                str(one.last_sequence),
                "" if one.current_txn_start_offset < 0 else str(one.current_txn_start_offset),
            )
            for one in found
        ]
        print(columns([("PRODUCER", "EPOCH", "LAST SEQUENCE", "TRANSACTION FROM"), *rows]))
    return 0


async def _abort(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.transactions import abort

    state = await abort(client, args.topic, args.partition, args.start_offset)
    where = f"{args.topic}-{args.partition}"
    if args.json:
        print(json.dumps({"producer_id": state.producer_id, "partition": where, "start_offset": args.start_offset}))
    else:
        print(f"aborted the transaction of producer {state.producer_id} in {where} from offset {args.start_offset}")
    return 0
