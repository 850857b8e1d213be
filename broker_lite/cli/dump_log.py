"""broker-lite dump-log: what lies in segments, indexes, snapshots and checkpoints, in words."""

from __future__ import annotations

import argparse
from pathlib import Path

from broker_lite.cli.parts import Parser


def parser() -> Parser:
    made = Parser(prog="broker-lite dump-log", description="Print the contents of log files. Nothing is changed.")
    made.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="a file, or a folder of them")
    return made


def run(args: argparse.Namespace) -> int:
    from broker_lite.log.dump import dump

    for path in args.paths:
        for line in dump(path):
            print(line)
    return 0
