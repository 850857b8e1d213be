"""broker-lite fsck: look at every byte of a stopped broker's logs; with --truncate, cut off what is damaged."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker_lite.cli.parts import Parser


def parser() -> Parser:
    made = Parser(
        prog="broker-lite fsck",
        description="Check every batch of every log in a data folder. The broker must be stopped.",
        epilog="Exit code: 0 if every log is good (or was made so), 1 if there is damage.",
    )
    made.add_argument("data", metavar="DATA", type=Path, help="the data folder, as given to serve --data")
    made.add_argument(
        "--truncate",
        action="store_true",
        help="end each damaged log before its first damage; what is cut off is kept beside it as .torn",
    )
    return made


def run(args: argparse.Namespace) -> int:
    from broker_lite.errors import StartRefused
    from broker_lite.log import layout
    from broker_lite.log.disk import RealDisk
    from broker_lite.log.fsck import cut, examine_all

    disk = RealDisk()
    if not args.data.is_dir():
        raise StartRefused(f"there is no folder {args.data}")
    try:
        lock = disk.lock(args.data / layout.LOCK)
    except BlockingIOError:
        raise StartRefused(f"the data folder {args.data} is in use by a broker; stop it first") from None
    logs = batches = read = damaged = 0
    try:
        for examined in examine_all(disk, args.data):
            logs, batches, read = logs + 1, batches + examined.batches, read + examined.bytes
            for finding in examined.findings:
                print(finding)
            if any(finding.cuts for finding in examined.findings):
                damaged += 1
                if args.truncate:
                    print(*cut(disk, args.data, examined), sep="\n")
    finally:
        lock.release()
    verb = "cut" if args.truncate else "damaged"
    print(f"{logs} logs, {batches} batches, {read} bytes: {damaged or 'none'} {verb}", file=sys.stderr)
    return 1 if damaged and not args.truncate else 0
