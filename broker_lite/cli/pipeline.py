"""broker-lite pipeline: topics as tables, on Spark: archive, audit, replay, stream."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

from broker_lite.cli.parts import Parser, pair, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker_lite.pipeline.options import Asked

COULD_NOT_RUN = 2


def parser() -> Parser:
    made = Parser(prog="broker-lite pipeline", description="Topics as tables, on Spark.")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    archive = verbs.add_parser("archive", help="write topics to Parquet, each offset exactly once")
    archive.add_argument("--out", metavar="DIR|URI", required=True, help="where the files go")
    archive.add_argument("--codec", choices=("zstd", "snappy", "lz4", "gzip", "none"), default="zstd")
    archive.add_argument("--file-bytes", metavar="N", type=_many, default=64 << 20, help="of log in a file (64 MiB)")
    archive.add_argument("--clean", action="store_true", help="remove files in --out that no archive wrote")
    archive.add_argument("--follow", action="store_true", help="go on until interrupted")
    archive.add_argument("--every", metavar="SECONDS", type=seconds, default=10.0, help="pause of --follow (10)")
    archive.add_argument("--on-corrupt", choices=("fail", "skip"), default="fail", help="damaged batches")
    archive.add_argument("--allow-loss", action="store_true", help="go on where offsets are gone before they were read")

    audit = verbs.add_parser("audit", help="look for losses, gaps, duplicates, damage; tell of transactions")
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.add_argument("--picture", metavar="FILE", help="write a PNG of volume and rate over time")
    audit.add_argument("--compacted", metavar="TOPIC", action="append", default=[], help="gaps in it are no faults")

    replay = verbs.add_parser("replay", help="write an archive or a log into topics again (at least once)")
    replay.add_argument("--archive", metavar="DIR|URI", help="an archive, instead of --data or --bootstrap")
    replay.add_argument("--to", metavar="HOST:PORT", required=True, help="the broker that is written to")
    replay.add_argument("--to-config", metavar="FILE", help="how to get in there, as --command-config")
    replay.add_argument("--to-topic", metavar="NAME", help="another name for the one topic that is replayed")
    replay.add_argument("--codec", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none")
    pace = replay.add_mutually_exclusive_group()
    pace.add_argument("--rate", metavar="N", type=_rate, help="at most N records a second")
    pace.add_argument("--speed", metavar="2x", type=_speed, help="with the original timing, so many times as fast")

    stream = verbs.add_parser("stream", help="a topic to Parquet or to the console, as it comes")
    stream.add_argument("--out", metavar="DIR|URI", help="Parquet files (default: the console)")
    stream.add_argument("--checkpoint", metavar="DIR", help="where the query remembers how far it is")
    stream.add_argument("--window", metavar="1m", help="count records per key in windows of this length")
    stream.add_argument("--lateness", metavar="1m", default="1m", help="how late a record may be for its window (1m)")
    stream.add_argument("--every", metavar="10s", help="go on, with a micro-batch so often (default: what is there)")
    stream.add_argument(
        "--source", choices=("broker-lite", "kafka"), default="broker-lite", help="kafka: the connector"
    )
    stream.add_argument("--from", dest="start", choices=("earliest", "latest"), default="earliest")
    stream.add_argument("--max-offsets", metavar="N", type=_many, help="at most so many in a micro-batch")

    for verb in (archive, audit, replay, stream):
        _common(verb)
    return made


def _common(verb: argparse.ArgumentParser) -> None:
    place = verb.add_mutually_exclusive_group()
    place.add_argument("--data", metavar="DIR|URI", help="a broker's data folder")
    place.add_argument("--bootstrap", metavar="HOST:PORT", help="a running broker")
    verb.add_argument(
        "--command-config",
        metavar="FILE",
        default=os.environ.get("BROKER_LITE_COMMAND_CONFIG") or None,
        help="Kafka's client properties for --bootstrap: security.protocol, sasl.*, ssl.*",
    )
    verb.add_argument(
        "--topic", metavar="NAME", action="append", default=[], help="repeatable (default: all, of --data)"
    )
    if not verb.prog.endswith("audit"):
        levels = ("read_committed", "read_uncommitted")
        verb.add_argument("--isolation", choices=levels, default=levels[0], help="default: read_committed")
    verb.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    verb.add_argument("--conf", metavar="KEY=VALUE", type=pair, action="append", default=[], help="a setting of Spark")
    verb.add_argument("--jars", metavar="FILES", help="jars for Spark, separated by commas")
    verb.add_argument("--packages", metavar="COORDINATES", help="packages for Spark, separated by commas")
    verb.add_argument("--progress", choices=("auto", "plain", "json", "none"), default="auto")


def _many(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records a second")
    return value


def _speed(text: str) -> float:
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no speed; write 1x, 2x, 0.5x")
    return value


def run(args: argparse.Namespace) -> int:
    """0: done (and sound), 1: faults found, or it went wrong on the way; 2: it could not run."""
    from broker_lite.pipeline.errors import NotThere, PipelineError, Refused, WrongOption
    from broker_lite.pipeline.session import CannotRun

    try:
        return _run(args)
    except (CannotRun, NotThere, Refused, WrongOption) as error:
        return _say(str(error), COULD_NOT_RUN)
    except PipelineError as error:
        return _say(str(error), COULD_NOT_RUN if args.verb == "audit" else 1)
    except OSError as error:
        if args.verb != "audit":
            raise
        return _say(str(error), COULD_NOT_RUN)  # 1 would say that the log has faults


def _say(text: str, code: int) -> int:
    print(f"broker-lite: {text}", file=sys.stderr)
    return code


def _run(args: argparse.Namespace) -> int:
    from broker_lite.pipeline.session import check_here, is_submitted, session, spark_errors, told_by

    check_here()
    jobs: dict[str, Callable[[argparse.Namespace, Callable[[], SparkSession]], int]] = {
        "archive": _archive,
        "audit": _audit,
        "replay": _replay,
        "stream": _stream,
    }
    made: list[SparkSession] = []

    def spark() -> SparkSession:
        if not made:
            made.append(
                session(args.verb, master=args.master, conf=dict(args.conf), jars=args.jars, packages=args.packages)
            )
        return made[0]

    try:
        return jobs[args.verb](args, spark)
    except spark_errors() as error:
        raise told_by(error) from None
    finally:
        if made and not is_submitted():
            made[0].stop()


def _asked(args: argparse.Namespace, **more: str) -> Asked:
    from broker_lite.pipeline.options import read_options

    return read_options(_options(args, **more), streaming=False)


def _options(args: argparse.Namespace, **more: str) -> dict[str, str]:
    from broker_lite.pipeline.entry import options_from
    from broker_lite.pipeline.errors import WrongOption

    if args.data is None and args.bootstrap is None:
        raise WrongOption("where are the records? give --data DIR or --bootstrap HOST:PORT")
    if args.bootstrap is not None and not args.topic:
        raise WrongOption("which topics? give --topic NAME")
    told = {"path": args.data} if args.data is not None else {"kafka.bootstrap.servers": args.bootstrap}
    if args.bootstrap is not None and args.command_config is not None:
        told |= options_from(args.command_config)
    if args.topic:
        told["subscribe"] = ",".join(args.topic)
    if hasattr(args, "isolation"):
        told["kafka.isolation.level"] = args.isolation
    return told | more


def _archive(args: argparse.Namespace, spark: Callable[[], SparkSession]) -> int:
    from broker_lite.pipeline.archive import archive, ready
    from broker_lite.pipeline.plan import batch_slices
    from broker_lite.pipeline.progress import Progress
    from broker_lite.pipeline.store import Store

    asked = _asked(args, onCorrupt=args.on_corrupt, failOnDataLoss="false" if args.allow_loss else "true")
    batch_slices(asked)  # a folder or topic that is not there is told before Spark is started
    ready(Store(args.out), clean=args.clean)
    made = spark()
    enough = _until_interrupted() if args.follow else Event()

    def again() -> bool:
        return not enough.wait(args.every)

    summary = archive(
        made,
        asked,
        args.out,
        Progress(args.progress, "archive"),
        codec=args.codec,
        file_bytes=args.file_bytes,
        clean=args.clean,
        follow=again if args.follow else None,
    )
    if args.progress == "json":
        print(json.dumps(asdict(summary)))
    else:
        rate = summary.records / max(summary.seconds, 1e-6)
        left_out = f", {summary.left_out} damaged batches left out" if summary.left_out else ""
        print(
            f"archived {summary.records:,} records in {summary.files} files, {summary.bytes:,} bytes, "
            f"in {summary.seconds:.1f} s ({rate:,.0f}/s){left_out}"
        )
    return 0


def _until_interrupted() -> Event:
    """Set by the first Ctrl-C, so that what is being written is finished; the second one is as everywhere.

    Spark has put a handler of its own in place when it started, which throws away what its tasks are doing.
    """
    enough = Event()
    usual = signal.getsignal(signal.SIGINT)

    def interrupted(number: int, frame: FrameType | None) -> None:
        enough.set()
        signal.signal(number, usual)

    signal.signal(signal.SIGINT, interrupted)
    return enough


def _audit(args: argparse.Namespace, spark: Callable[[], SparkSession]) -> int:
    from broker_lite.pipeline import telling
    from broker_lite.pipeline.audit import audit, on_spark
    from broker_lite.pipeline.looking import Seen, Task
    from broker_lite.pipeline.progress import Progress

    def run(tasks: Sequence[Task]) -> Iterable[Seen]:
        """A folder or topic that is not there is told before Spark is started: by now all is planned."""
        return on_spark(spark(), Progress(args.progress, "audit"))(tasks)

    report = audit(_asked(args), run, compacted=args.compacted)
    print(telling.as_json(report) if args.json else telling.as_text(report), flush=True)
    if args.picture:
        telling.picture(report, args.picture)
    return 0 if report.sound else 1


def _replay(args: argparse.Namespace, spark: Callable[[], SparkSession]) -> int:
    from broker_lite.pipeline.entry import Entry, options_from
    from broker_lite.pipeline.errors import WrongOption
    from broker_lite.pipeline.progress import Progress
    from broker_lite.pipeline.replay import lanes_of_archive, lanes_of_log, replay

    if (args.archive is not None) + (args.data is not None) + (args.bootstrap is not None) != 1:
        raise WrongOption("what is to be replayed? give one of --archive, --data and --bootstrap")
    lanes = lanes_of_archive(args.archive, tuple(args.topic)) if args.archive else lanes_of_log(_asked(args))
    if args.to_topic and len({lane.topic for lane in lanes}) > 1:
        raise WrongOption("--to-topic renames one topic; choose it with --topic")
    summary = replay(
        spark(),
        lanes,
        args.to,
        Progress(args.progress, "replay"),
        entry=Entry.told(options_from(args.to_config)) if args.to_config else None,
        rename=args.to_topic,
        codec=args.codec,
        rate=args.rate,
        speed=args.speed,
    )
    if args.progress == "json":
        print(json.dumps(asdict(summary)))
    else:
        lag = f", at most {summary.lag:.2f} s late" if args.speed else ""
        print(
            f"replayed {summary.records:,} records of {summary.partitions} partitions in {summary.seconds:.1f} s"
            f"{lag} (at least once: a task that ran twice wrote twice)"
        )
    return 0


def _stream(args: argparse.Namespace, spark: Callable[[], SparkSession]) -> int:
    from broker_lite.pipeline import stream
    from broker_lite.pipeline.errors import WrongOption

    if args.source == "kafka" and args.data is not None:
        raise WrongOption("the connector reads from a broker: give --bootstrap with --source kafka")
    if args.out is not None and args.checkpoint is None:
        raise WrongOption("a stream to Parquet needs --checkpoint, to go on from where it was")
    for length in (args.window, args.lateness, args.every):
        if length is not None:
            stream.duration(length)
    options = _options(args, startingOffsets=args.start)
    if args.max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(args.max_offsets)
    if args.source != "kafka":
        stream.check(options)
    frame = stream.source(spark(), args.source, options)
    if args.window:
        frame = stream.windowed(frame, args.window, args.lateness)
    seen = stream.run(
        frame,
        out=args.out,
        checkpoint=args.checkpoint,
        is_windowed=bool(args.window),
        every=args.every,
        progress=args.progress,
    )
    print(json.dumps({"records": seen}) if args.progress == "json" else f"streamed {seen:,} records")
    return 0
