"""broker-lite dump-log: what lies in segments, indexes, snapshots and checkpoints, in words."""

from __future__ import annotations

import argparse
from pathlib import Path

from broker_lite.cli.parts import Parser


def parser() -> Parser:
    made = Parser(
        prog="broker-lite dump-log",
        description="Print the contents of log files. Nothing is changed. Exit 1 if something cannot be read.",
    )
    made.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="a file, or a folder of them")
    return made


def run(args: argparse.Namespace) -> int:
    from broker_lite.log.dump import Dump

    dump = Dump()
    for path in args.paths:
        for line in dump.lines(path):
            print(line)
    return 1 if dump.faults else 0
