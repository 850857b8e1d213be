"""broker-lite users: who can log in with a password (SASL SCRAM)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, add_bootstrap, columns, number, talk

if TYPE_CHECKING:
    from broker_lite.client.client import Client

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def parser() -> Parser:
    made = Parser(prog="broker-lite users", description="Show, add and remove users with a password.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    listing = verbs.add_parser("list", help="users and their mechanisms")
    add = verbs.add_parser("add", help="add a user, or change its password")
    add.add_argument("--password-file", metavar="FILE", help="its first line; without it stdin's first line is taken")
    add.add_argument(
        "--iterations", metavar="N", type=number(32), default=4096, help="how often it is hashed (4096 to 16384)"
    )
    delete = verbs.add_parser("delete", help="remove a user")
    for verb in (add, delete):
        verb.add_argument("name", metavar="NAME")
        verb.add_argument(
            "--mechanism", choices=_MECHANISMS, action="append", help="repeatable (default: both; delete: all it has)"
        )
    for verb in (listing, add, delete):
        add_bootstrap(verb)
        verb.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    works = {"list": _list, "add": _add, "delete": _delete}
    if args.verb == "add":
        args.password = _password(args.password_file)
    return talk(args, lambda client: works[args.verb](client, args))


def _password(file: str | None) -> str:
    """Never from the command line: others can read that."""
    from broker_lite.errors import StartRefused

    if file is None:
        if sys.stdin.isatty():
            from getpass import getpass

            text = getpass("password: ")
        else:
            text = sys.stdin.readline()
    else:
        with open(file, encoding="utf-8") as lines:
            text = lines.readline()
    text = text.rstrip("\r\n")
    if not text:
        raise StartRefused("the password is empty")
    return text


async def _list(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import describe_users

    found = await describe_users(client)
    if args.json:
        print(json.dumps(found, indent=2))
    elif found:
        rows = [
            (name, mechanism, str(often)) for name, has in sorted(found.items()) for mechanism, often in has.items()
        ]
        print(columns([("USER", "MECHANISM", "ITERATIONS"), *rows]))
    return 0


async def _add(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import set_password

    chosen = args.mechanism or list(_MECHANISMS)
    for mechanism in chosen:
        await set_password(client, args.name, mechanism, args.password, iterations=args.iterations)
    print(json.dumps({args.name: chosen}) if args.json else f"{args.name} can log in with {' and '.join(chosen)}")
    return 0


async def _delete(client: Client, args: argparse.Namespace) -> int:
    from broker_lite.client.admin import delete_user, describe_users

    chosen = args.mechanism or list((await describe_users(client, [args.name]))[args.name])
    for mechanism in chosen:
        await delete_user(client, args.name, mechanism)
    print(json.dumps({args.name: chosen}) if args.json else f"deleted {args.name}")
    return 0
