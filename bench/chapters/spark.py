"""Topics into Spark, ours beside Spark's own Kafka connector: same broker, same records, same session, warm.

Both read our broker, and the connector's figures stand in the column of Apache Kafka.  Each way runs once unmeasured,
then once a round, in turn.  Records have 200 bytes or sizes that differ, in batches of 16 KiB as librdkafka makes them.

How time grows with data, and what a worker holds, is measured on a folder of segments of one gigabyte each, copied so
often that it has the size wanted: reading to nowhere, archiving, auditing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.chapter import Bench
from bench.measures import OURS, THEIRS, Measure
from bench.peer import BrokerLite
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
            for kind in (Kind(size, codec) for size in sizes for codec in CODECS):
                _fill(broker, kind, records)
                bench.say(f"{records:,} records of {kind}")
                _compare(bench, spark, broker, kind, records)
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


def _compare(bench: Bench, spark: SparkSession, broker: BrokerLite, kind: Kind, records: int) -> None:
    data = str(broker.folder / "data")
    asked = _asked(data, kind.topic)
    servers = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": kind.topic}
    reading = Measure(f"a topic into Spark, {kind}", "records/s", bar=2.0)
    wire = Measure(f"the same over the wire, {kind}", "records/s")
    to_parquet = Measure(f"a topic to Parquet, {kind}", "records/s", bar=4.0)
    auditing = Measure(f"audit, {kind}, with the start of the job", SPEED)
    size = sum(file.stat().st_size for file in Path(data).glob(f"{kind.topic}-?/*.log"))
    ways: list[tuple[Measure, str, float, Callable[[], object]]] = [
        (reading, THEIRS, records, lambda: _to_nowhere(spark, "kafka", servers)),
        (reading, OURS, records, lambda: _to_nowhere(spark, "broker_lite", {"path": data, "subscribe": kind.topic})),
        (wire, OURS, records, lambda: _to_nowhere(spark, "broker_lite", servers)),
        (to_parquet, THEIRS, records, lambda: _connector_to_parquet(spark, servers, bench.folder)),
        (to_parquet, OURS, records, lambda: _archive(spark, asked, bench.folder)),
        (auditing, OURS, size / 1e9 / CORES, lambda: _audit(spark, asked)),
    ]
    for number in range(bench.rounds + 1):
        for measure, who, work, way in ways:
            if not (bench.ours_only and who == THEIRS):
                seconds = _timed(way)
                if number:
                    bench.note(measure, who, work / seconds)


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
    """Partitions of one segment each, of a gigabyte or what is wanted; all with the offsets and the index they had."""
    shutil.copyfile(data / META_PROPERTIES, many / META_PROPERTIES)
    ends: dict[TopicPartition, int] = {}
    written = 0
    for partition in range(max(1, round(gigabytes))):
        folder = many / f"{topic}-{partition}"
        folder.mkdir()
        end = long_segment(segment, folder, int(min(gigabytes, 1) * 1e9))
        ends[TopicPartition(topic, partition)] = end
        written += sum(file.stat().st_size for file in folder.glob("*.log"))
    (many / HIGH_WATERMARKS).write_bytes(format_offsets(ends))
    return written


def _peak(bench: Bench, what: str) -> None:
    """The most that any worker of Spark has held since it was started."""
    measure = Measure(f"most memory of {what}", "MiB", less_is_better=True, limit=WORKER_MIB)
    peaks = [_peak_mib(pid) for pid in _workers()]
    if peaks:
        bench.note(measure, OURS, max(peaks))


def _workers() -> list[int]:
    """Python processes below this one that Spark forked for its tasks."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    found = []
    for pid in parents:
        above = parents.get(pid)
        while above is not None and above != os.getpid():
            above = parents.get(above)
        if above is not None and "pyspark.daemon" in _command(pid):
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
