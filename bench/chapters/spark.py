"""Topics into Spark, ours beside Spark's own Kafka connector: same broker, same records, same session, warm.

Both read our broker, and the connector's figures stand in the column of Apache Kafka.  Each way first runs a few times
unmeasured, until Java has compiled it, then once a round, in turn.  Records have 200 bytes or sizes that differ, in
batches of 16 KiB as librdkafka makes them.  Processor time is that of all who take part: Spark, its Python workers, the
broker.

How time grows with data, and what a worker holds, is measured on a folder with a partition of one gigabyte, which is
there under so many names that it has the size wanted: reading to nowhere, archiving, auditing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.chapter import Bench
from bench.measures import OURS, THEIRS, Measure
from bench.peer import BrokerLite, cpu_seconds
from broker_lite.ids import TopicPartition
from broker_lite.log.layout import HIGH_WATERMARKS, META_PROPERTIES, format_offsets
from broker_lite.pipeline.archive import archive
from broker_lite.pipeline.audit import audit, on_spark
from broker_lite.pipeline.options import Asked, read_options
from broker_lite.pipeline.progress import Progress
from broker_lite.pipeline.session import session
from tests.pipeline.connector import connector_jars
from tests.pipeline.filling import wait_for_checkpoint
from tests.pipeline.segments import long_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Spark: topics as tables, beside Spark's own Kafka connector (in Kafka's column)"
CORES = 2
PARTITIONS = 4
RECORDS, FEW_RECORDS = 3_000_000, 60_000
SIZES = {"200 bytes": (200,), "mixed sizes": (20, 100, 200, 400, 2000)}
CODECS = ("none", "lz4", "zstd")
WARM_UP = 3
"""Java compiles what ran often enough: the second run takes half of the first, the fourth no less than the third."""
WORKER_MIB = 512
SPEED = "GB/s of log for a core"
_numbers = count()


@dataclass(frozen=True)
class Kind:
    size: str
    codec: str

    @property
    def topic(self) -> str:
        return f"{self.size.replace(' ', '-')}-{self.codec}"

    def __str__(self) -> str:
        return f"{self.size}, {self.codec}"


def run(bench: Bench) -> None:
    sizes = list(SIZES)[:1] if bench.quick else list(SIZES)
    records = FEW_RECORDS if bench.quick else RECORDS
    broker = BrokerLite(bench.folder / "broker", "--set", "log.retention.ms=-1")
    broker.start()
    try:
        with _spark(bench) as spark:
            for number, kind in enumerate(Kind(size, codec) for size in sizes for codec in CODECS):
                _fill(broker, kind, records)
                ways = _ways(bench, spark, broker, kind, records)
                if not number:
                    bench.say("warming up")
                    _warm_up(ways)
                bench.say(f"{records:,} records of {kind}")
                _compare(bench, ways)
                _peak(bench, f"a Python worker, {kind}")
    finally:
        broker.stop()
    _grow(bench, broker.folder / "data")


@contextmanager
def _spark(bench: Bench) -> Iterator[SparkSession]:
    """A session of its own, so that its workers are new."""
    local = {"spark.local.dir": str(bench.folder / "spark"), "spark.sql.warehouse.dir": str(bench.folder / "warehouse")}
    jars = ",".join(map(str, connector_jars()))
    made = session("bench", master=f"local[{CORES}]", jars=jars, conf=local)
    try:
        yield made
    finally:
        made.stop()


def _fill(broker: BrokerLite, kind: Kind, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(kind.topic, PARTITIONS, 1)]).values():
        made.result(20)
    random = Random(1)
    values = [_value(random, random.choice(SIZES[kind.size])) for _ in range(997)]
    settings = {"bootstrap.servers": broker.bootstrap, "compression.type": kind.codec, "batch.size": 16384}
    producer = Producer(settings | {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for index in range(records):
        while True:
            try:
                producer.produce(kind.topic, values[index % 997], b"key-%d" % (index % 1000), index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 10_000 == 0:
            producer.poll(0)
    if producer.flush(300):
        raise RuntimeError("not all records were taken")
    wait_for_checkpoint(broker.folder / "data", broker.bootstrap, kind.topic, PARTITIONS)


def _value(random: Random, size: int) -> bytes:
    words = [b"order", b"customer", b"amount", b"%d" % random.randrange(10**9), b"pending", b"shipped"]
    return b" ".join(random.choices(words, k=size))[:size]


@dataclass(frozen=True)
class Way:
    measure: Measure
    who: str
    work: float
    """What the seconds divide."""
    go: Callable[[], object]
    records: int


def _ways(bench: Bench, spark: SparkSession, broker: BrokerLite, kind: Kind, records: int) -> list[Way]:
    data = str(broker.folder / "data")
    asked = _asked(data, kind.topic)
    servers = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": kind.topic}
    files = {"path": data, "subscribe": kind.topic}
    reading = Measure(f"a topic into Spark, {kind}", "records/s", bar=2.0)
    wire = Measure(f"the same over the wire, {kind}", "records/s")
    to_parquet = Measure(f"a topic to Parquet, {kind}", "records/s", bar=4.0)
    auditing = Measure(f"audit, {kind}, with the start of the job", SPEED)
    size = sum(file.stat().st_size for file in Path(data).glob(f"{kind.topic}-?/*.log"))
    ways = [
        Way(reading, THEIRS, records, lambda: _to_nowhere(spark, "kafka", servers), records),
        Way(reading, OURS, records, lambda: _to_nowhere(spark, "broker_lite", files), records),
        Way(wire, OURS, records, lambda: _to_nowhere(spark, "broker_lite", servers), records),
        Way(to_parquet, THEIRS, records, lambda: _connector_to_parquet(spark, servers, bench.folder), records),
        Way(to_parquet, OURS, records, lambda: _archive(spark, asked, bench.folder), records),
        Way(auditing, OURS, size / 1e9 / CORES, lambda: _audit(spark, asked), records),
    ]
    return [way for way in ways if not (bench.ours_only and way.who == THEIRS)]


def _warm_up(ways: Sequence[Way]) -> None:
    for _ in range(WARM_UP):
        for way in ways:
            way.go()


def _compare(bench: Bench, ways: Sequence[Way]) -> None:
    for number in range(bench.rounds):
        for way in ways if number % 2 else reversed(ways):
            before = _processor_times()
            seconds = _timed(way.go)
            bench.note(way.measure, way.who, way.work / seconds)
            cost = Measure(f"processor time: {way.measure.name}", "s for a million", less_is_better=True)
            bench.note(cost, way.who, _spent_since(before) / way.records * 1e6)


def _asked(data: str, topic: str) -> Asked:
    return read_options({"path": data, "subscribe": topic}, streaming=False)


def _timed(way: Callable[[], object]) -> float:
    begun = time.monotonic()
    way()
    return time.monotonic() - begun


def _to_nowhere(spark: SparkSession, kind: str, options: dict[str, str]) -> None:
    spark.read.format(kind).options(**options).load().write.format("noop").mode("overwrite").save()


def _connector_to_parquet(spark: SparkSession, servers: dict[str, str], folder: Path) -> None:
    out = str(folder / f"connector-{next(_numbers)}")
    spark.read.format("kafka").options(**servers, includeHeaders="true").load().write.parquet(out)
    shutil.rmtree(out)


def _archive(spark: SparkSession, asked: Asked, folder: Path) -> None:
    out = str(folder / f"archive-{next(_numbers)}")
    archive(spark, asked, out, Progress("none", ""))
    shutil.rmtree(out)


def _audit(spark: SparkSession, asked: Asked) -> None:
    report = audit(asked, on_spark(spark, Progress("none", "")))
    if not report.sound:
        raise RuntimeError(f"the log of the bench is not sound: {report.findings[:3]}")


def _grow(bench: Bench, data: Path) -> None:
    """One gigabyte and then more of the same; what a worker holds must not care."""
    steps = (0.02, 0.04) if bench.quick else (1, 3, 10)
    segment = sorted(data.glob("200-bytes-none-0/*.log"))[0]
    many = bench.folder / "many"
    many.mkdir()
    with _spark(bench) as spark:
        for gigabytes in steps:
            topic = f"of-{str(gigabytes).replace('.', '-')}-gb"
            written = _copy(data, segment, many, topic, gigabytes)
            bench.say(f"{written / 1e9:.2f} GB of log in {topic}")
            asked = _asked(str(many), topic)
            ways: dict[str, Callable[[], object]] = {
                "Spark: reading to nowhere": lambda: _to_nowhere(
                    spark,
                    "broker_lite",
                    {"path": str(many), "subscribe": topic},  # noqa: B023
                ),
                "Spark: archiving": lambda: _archive(spark, asked, bench.folder),  # noqa: B023
                "Spark: auditing": lambda: _audit(spark, asked),  # noqa: B023
            }
            for title, way in ways.items():
                if gigabytes == steps[0]:
                    way()  # warm
                for _ in range(bench.rounds):
                    seconds = _timed(way)
                    bench.grow(title, "GB of log", "s for a GB", OURS, gigabytes, seconds / (written / 1e9))
                    if "audit" in title and gigabytes == steps[-1]:
                        measure = Measure(f"audit, {gigabytes} GB", SPEED, limit=None if bench.quick else 1.0)
                        bench.note(measure, OURS, written / 1e9 / seconds / CORES)
                if not bench.quick:
                    bench.flat_within(title, 1.2)
            _peak(bench, f"a Python worker, {gigabytes} GB in segments of 1 GB")
            for folder in many.glob(f"{topic}-*"):
                shutil.rmtree(folder)


def _copy(data: Path, segment: Path, many: Path, topic: str, gigabytes: float) -> int:
    """Partitions of one segment each, of a gigabyte or what is wanted: one on the disk, the others are names of it."""
    shutil.copyfile(data / META_PROPERTIES, many / META_PROPERTIES)
    ends: dict[TopicPartition, int] = {}
    first = many / f"{topic}-0"
    first.mkdir()
    end = long_segment(segment, first, int(min(gigabytes, 1) * 1e9))
    count = max(1, round(gigabytes))
    for partition in range(count):
        folder = many / f"{topic}-{partition}"
        folder.mkdir(exist_ok=True)
        for file in first.iterdir() if partition else ():
            os.link(file, folder / file.name)
        ends[TopicPartition(topic, partition)] = end
    (many / HIGH_WATERMARKS).write_bytes(format_offsets(ends))
    return count * sum(file.stat().st_size for file in first.glob("*.log"))


def _peak(bench: Bench, what: str) -> None:
    """The most that any worker of Spark has held since it was started."""
    measure = Measure(f"most memory of {what}", "MiB", less_is_better=True, limit=WORKER_MIB)
    peaks = [_peak_mib(pid) for pid in _workers()]
    if peaks:
        bench.note(measure, OURS, max(peaks))


def _processor_times() -> dict[int, float]:
    """Seconds, of this process and of all below it that live."""
    times = {}
    for pid in (os.getpid(), *_below()):
        with suppress(OSError):  # it has just ended
            times[pid] = cpu_seconds(pid)
    return times


def _spent_since(before: dict[int, float]) -> float:
    """By each that lives: Spark ends workers that had nothing to do for a minute, and nobody inherits their time."""
    return sum(spent - before.get(pid, 0.0) for pid, spent in _processor_times().items())


def _workers() -> list[int]:
    """Python processes that Spark forked for its tasks."""
    return [pid for pid in _below() if "pyspark.daemon" in _command(pid)]


def _below() -> list[int]:
    """Processes that this one started, and those that they did."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    found = []
    for pid in parents:
        above = parents.get(pid)
        while above is not None and above != os.getpid():
            above = parents.get(above)
        if above is not None:
            found.append(pid)
    return found


def _parent(path: Path) -> int | None:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it is gone
        return None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _peak_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
