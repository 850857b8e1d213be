"""broker-lite settings: every key with its type, default and one sentence."""

from __future__ import annotations

import argparse
import json

from broker_lite.cli.parts import Parser
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.key import Key
from broker_lite.config.topic import TOPIC_KEYS


def parser() -> Parser:
    made = Parser(prog="broker-lite settings", description="Print every configuration key.")
    made.add_argument("name", nargs="?", default="", help="only keys whose name contains this")
    form = made.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")
    form.add_argument("--json", action="store_true", help="print JSON")
    return made


def run(args: argparse.Namespace) -> int:
    chapters = [
        ("The broker", [key for key in BROKER_KEYS.values() if args.name in key.name]),
        ("A topic", [key for key in TOPIC_KEYS.values() if args.name in key.name]),
    ]
    if args.json:
        print(json.dumps([_facts(key) for _, keys in chapters for key in keys], indent=2))
        return 0
    for title, keys in chapters:
        if keys:
            print(_markdown(title, keys) if args.markdown else _plain(title, keys))
    return 0 if any(keys for _, keys in chapters) else 1


def _shown(key: Key[object]) -> str:
    return key.format(key.default) or ""


def _about(key: Key[object]) -> str:
    return key.doc if key.honoured else f"{key.doc} Accepted without effect: {key.ignored}."


def _plain(title: str, keys: list[Key[object]]) -> str:
    lines = [title, ""]
    for key in keys:
        bounds = f" {key.bounds()}" if key.bounds() else ""
        lines += [f"{key.name}  {key.kind.name.lower()}{bounds}  default: {_shown(key)}", f"    {_about(key)}"]
    return "\n".join(lines) + "\n"


def _markdown(title: str, keys: list[Key[object]]) -> str:
    lines = [f"## {title}", "", "| key | type | default | allowed | meaning |", "| --- | --- | --- | --- | --- |"]
    for key in keys:
        cells = (f"`{key.name}`", key.kind.name.lower(), _shown(key), key.bounds(), _about(key))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _facts(key: Key[object]) -> dict[str, object]:
    return {
        "name": key.name,
        "scope": key.scope.value,
        "type": key.kind.name.lower(),
        "default": key.format(key.default),
        "allowed": key.bounds(),
        "dynamic": key.dynamic,
        "honoured": key.honoured,
        "doc": _about(key),
    }
