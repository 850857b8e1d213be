"""broker-lite produce: lines of stdin, or the words of the command line, as records."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, client_parser, number, pair, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client
    from broker_lite.records.build import NewRecord

CHUNK = 1 << 16
"""Bytes of input that become one batch at most, unless a single line is longer."""
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


def parser() -> Parser:
    made = client_parser("produce", "Write records: one per VALUE, or one per line of stdin.")
    made.intermixed = True
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument("values", metavar="VALUE", nargs="*")
    made.add_argument("--key", help="the key of every record")
    made.add_argument("--key-separator", metavar="TEXT", help="what stands between key and value in each line")
    made.add_argument(
        "--header", metavar="KEY=VALUE", type=pair, action="append", default=[], help="for every record; repeatable"
    )
    made.add_argument("--null", metavar="TEXT", help="a key or value that is exactly this is null")
    made.add_argument(
        "--partition", metavar="N", type=number(32), help="(default: the key decides, as in Kafka's Java client)"
    )
    made.add_argument("--codec", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none")
    made.add_argument("--acks", choices=tuple(ACKS), default="all")
    made.add_argument("-v", "--verbose", action="store_true", help="print where each batch went")
    return made


def run(args: argparse.Namespace) -> int:
    if args.key is not None and args.key_separator is not None:
        parser().error("--key and --key-separator exclude each other")
    if args.key_separator == "":
        parser().error("--key-separator cannot be empty")
    return talk(args, lambda client: _produce(client, args))


async def _produce(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.records.compression import Codec

    codec = Codec[args.codec.upper()]
    async for lines in _given(args.values) if args.values else _typed():
        written = await client.produce(
            args.topic,
            [_record(line, args) for line in lines],
            partition=args.partition,
            acks=ACKS[args.acks],
            codec=codec,
        )
        if args.verbose:
            for batch in written:
                print(f"{args.topic}-{batch.partition} from offset {batch.base_offset}", flush=True)
    return 0


async def _given(values: list[str]) -> AsyncIterator[list[bytes]]:
    yield [value.encode("utf-8", "surrogateescape") for value in values]


async def _typed() -> AsyncIterator[list[bytes]]:
    """Lines of stdin as they come: what is there becomes a batch, and a terminal is answered at every return key."""
    import anyio.to_thread

    rest = b""
    while data := await anyio.to_thread.run_sync(os.read, sys.stdin.fileno(), CHUNK, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def _record(line: bytes, args: argparse.Namespace) -> NewRecord:
    from broker_lite.errors import InvalidRequest
    from broker_lite.records.build import NewRecord

    key: bytes | None = None if args.key is None else args.key.encode("utf-8", "surrogateescape")
    value: bytes | None = line
    if args.key_separator is not None:
        before, found, after = line.partition(args.key_separator.encode())
        if not found:
            raise InvalidRequest(f"{line[:40].decode(errors='replace')!r} has no {args.key_separator!r} after its key")
        key, value = before, after
    if args.null is not None:
        null = args.null.encode()
        key, value = None if key == null else key, None if value == null else value
    headers = tuple((name, text.encode("utf-8", "surrogateescape")) for name, text in args.header)
    return NewRecord(key, value, headers)
