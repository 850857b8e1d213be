"""What the verbs share: a parser that complains in one line, and a client for as long as it takes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from broker_lite.client.client import Client


class Parser(argparse.ArgumentParser):
    intermixed = False
    """Whether options may stand between the values of one positional argument."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        return self.parse_intermixed_args(words) if self.intermixed else self.parse_args(words)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def client_parser(verb: str, about: str) -> Parser:
    """A parser for a verb that talks to a broker."""
    parser = Parser(prog=f"broker-lite {verb}", description=about)
    add_bootstrap(parser)
    return parser


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("BROKER_LITE_BOOTSTRAP") or "localhost:9092",
        help="a broker, or several separated by commas (default: $BROKER_LITE_BOOTSTRAP or localhost:9092)",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        default=os.environ.get("BROKER_LITE_COMMAND_CONFIG") or None,
        help="Kafka's client properties: security.protocol, sasl.*, ssl.* (default: $BROKER_LITE_COMMAND_CONFIG)",
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=10.0, help="how long to wait for an answer (default: 10)"
    )


def talk(args: argparse.Namespace, work: Callable[[Client], Awaitable[int]]) -> int:
    """Do `work` with a client, connected to the broker that the command line names."""
    import anyio

    from broker_lite.client.client import Client

    access = None
    if args.command_config is not None:
        from broker_lite.client.access import access_from

        access = access_from(args.command_config)

    async def main() -> int:
        async with await Client.connect(args.bootstrap, timeout=args.timeout, access=access) as client:
            return await work(client)

    try:
        parsed(args.bootstrap)
        return anyio.run(main)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def parsed(bootstrap: str) -> None:
    """Refuse an address that is none, as a wrong command line."""
    from broker_lite.client.views import parse_bootstrap

    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        print(f"broker-lite: --bootstrap: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds")
    return value


def number(bits: int) -> Callable[[str], int]:
    """Reads a whole number for which Kafka's protocol has so many bits."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise argparse.ArgumentTypeError(f"{text} does not fit into {bits} bits")
        return value

    return parse


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE"""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def columns(rows: list[tuple[str, ...]]) -> str:
    """Rows under each other, as wide as they need to be."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows)
