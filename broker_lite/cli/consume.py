"""broker-lite consume: print records, from anywhere in a topic."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, number, seconds, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client
    from broker_lite.records.record import Record

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def parser() -> Parser:
    made = client_parser("consume", "Print records of a topic; without a place to start, those that come from now on.")
    made.add_argument("topic", metavar="TOPIC")
    start = made.add_mutually_exclusive_group()
    start.add_argument("--from-beginning", action="store_true", help="start at the first record there is")
    start.add_argument("--offset", metavar="N", type=number(64), help="start at this offset; -N is N before the end")
    start.add_argument(
        "--from-timestamp", metavar="TIME", type=timestamp, help="milliseconds since 1970, or 2026-01-31T12:00:00+00:00"
    )
    made.add_argument(
        "--partition", metavar="N", type=number(32), action="append", help="repeatable (default: every partition)"
    )
    made.add_argument("-n", "--count", "--max-messages", metavar="N", type=int, help="stop after so many records")
    made.add_argument("--until-end", action="store_true", help="stop at the end that the topic has now")
    made.add_argument("--idle", metavar="SECONDS", type=seconds, help="stop when nothing has come for so long")
    made.add_argument("--isolation", choices=("read_uncommitted", "read_committed"), default="read_uncommitted")
    made.add_argument(
        "--format",
        metavar="FORMAT",
        type=template,
        default="value",
        help="value (default), kv, json, or a template such as '{partition}/{offset} {key}={value}'",
    )
    return made


def run(args: argparse.Namespace) -> int:
    return talk(args, lambda client: _consume(client, args))


async def _consume(client: Client, args: argparse.Namespace) -> int:
    import anyio

    committed = args.isolation == "read_committed"
    positions = await _positions(client, args)
    ends = await _ends(client, args.topic, list(positions), committed=committed) if args.until_end else None
    left = args.count
    if left is not None and left <= 0:
        return 0
    records = client.consume(args.topic, positions, until=ends, committed=committed)
    out = sys.stdout.buffer
    while True:
        with anyio.move_on_after(args.idle) as patience:
            try:
                partition, record = await anext(records)
            except StopAsyncIteration:
                return 0
        if patience.cancelled_caught:
            return 0
        out.write(show(args.format, args.topic, partition, record))
        out.flush()
        if left is not None:
            left -= 1
            if left == 0:
                return 0


async def _positions(client: Client, args: argparse.Namespace) -> dict[int, int]:
    from broker_lite.client.client import EARLIEST, LATEST
    from broker_lite.errors import UnknownTopicOrPartition

    count = len((await client.topic(args.topic)).leaders)
    wanted = sorted(set(args.partition)) if args.partition else list(range(count))
    for index in wanted:
        if not 0 <= index < count:
            raise UnknownTopicOrPartition(f"{args.topic} has no partition {index}; it has {count}")
    if args.offset is not None and args.offset >= 0:
        return dict.fromkeys(wanted, args.offset)
    earliest = {
        index: found.offset for index, found in (await client.list_offsets(args.topic, EARLIEST, wanted)).items()
    }
    if args.from_beginning:
        return earliest
    latest = {index: found.offset for index, found in (await client.list_offsets(args.topic, LATEST, wanted)).items()}
    if args.offset is not None:
        return {index: max(earliest[index], latest[index] + args.offset) for index in wanted}
    if args.from_timestamp is not None:
        at = await client.list_offsets(args.topic, args.from_timestamp, wanted)
        return {index: at[index].offset if at[index].offset >= 0 else latest[index] for index in wanted}
    return latest


async def _ends(client: Client, topic: str, partitions: list[int], *, committed: bool) -> dict[int, int]:
    from broker_lite.client.client import LATEST

    found = await client.list_offsets(topic, LATEST, partitions, committed=committed)
    return {index: end.offset for index, end in found.items()}


def timestamp(text: str) -> int:
    """Milliseconds since 1970, from a number or an ISO time (without a zone it is this machine's)."""
    from datetime import datetime

    if text.isascii() and text.isdecimal():
        return number(64)(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither milliseconds nor a time") from None


def template(text: str) -> str:
    """A known format, or a template whose fields exist."""
    if text in ("value", "kv", "json"):
        return text
    try:
        text.format_map(dict.fromkeys(FIELDS, ""))
    except (KeyError, ValueError, IndexError, AttributeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of value, kv, json, nor a template with {', '.join(FIELDS)} in braces"
        ) from None
    if "{" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is none of value, kv, json, nor a template")
    return text


def show(form: str, topic: str, partition: int, record: Record) -> bytes:
    """The line for one record."""
    key, value = record.key, record.value
    if form == "value":
        return (b"null" if value is None else value) + b"\n"
    if form == "kv":
        return (b"null" if key is None else key) + b"\t" + (b"null" if value is None else value) + b"\n"
    if form == "json":
        facts = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _json(key),
            "value": _json(value),
            "headers": [[name, _json(content)] for name, content in record.headers],
        }
        return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
    line = form.format_map(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(key),
            "value": _text(value),
            "headers": ",".join(f"{name}={_text(content)}" for name, content in record.headers),
        }
    )
    return line.encode("utf-8", "surrogateescape") + b"\n"


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "surrogateescape")


def _json(data: bytes | None) -> str | dict[str, str] | None:
    """Text where it is text; other bytes as {"base64": …}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
