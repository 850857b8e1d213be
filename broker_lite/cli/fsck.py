"""broker-lite fsck: look at every byte of a stopped broker's logs; with --truncate, cut off what is damaged.

The metadata journal is one of them.  What is cut off it is more than records: topics, users and access rules are again
what they were before.  So each change that can still be read behind the damage is listed, to be made again by hand.
"""

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
    from broker_lite.broker import journal_fsck
    from broker_lite.clock import SystemClock
    from broker_lite.errors import StartRefused
    from broker_lite.log import layout
    from broker_lite.log.disk import RealDisk
    from broker_lite.log.fsck import JOURNAL, cut, examine_all

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
            is_journal = examined.folder.name == JOURNAL
            if is_journal:
                journal_fsck.look_at_changes(disk, examined)
            logs, batches, read = logs + 1, batches + examined.batches, read + examined.bytes
            for finding in examined.findings:
                print(finding)
            if any(finding.cuts for finding in examined.findings):
                damaged += 1
                if is_journal:
                    print(*journal_fsck.lost_changes(disk, examined), sep="\n")
                if args.truncate:
                    print(*cut(disk, args.data, examined), sep="\n")
                    if is_journal:
                        journal_fsck.reset_producer_ids(disk, args.data, SystemClock().now_ms())
    finally:
        lock.release()
    verb = "cut" if args.truncate else "damaged"
    print(f"{logs} logs, {batches} batches, {read} bytes: {damaged or 'none'} {verb}", file=sys.stderr)
    return 1 if damaged and not args.truncate else 0
