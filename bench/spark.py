"""python -m bench.spark [--records N]: topics into Spark, ours against Spark's own Kafka connector.

Same broker, same records, same session, one after the other and warm: each way of reading runs once unmeasured, then
`--rounds` times, and the best counts.  For each kind of data: to nowhere (`noop`) from files, over the wire and by the
connector; to Parquet by our archive job and by the connector; and the audit of all of it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_lite.pipeline.archive import archive
from broker_lite.pipeline.audit import audit
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.progress import Progress
from broker_lite.pipeline.session import session
from tests.pipeline.connector import connector_jars
from tests.pipeline.filling import wait_for_checkpoint
from tests.support.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
KINDS = [(size, codec) for size in ("200 bytes", "mixed") for codec in ("none", "lz4", "zstd")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kinds", type=int, default=len(KINDS), help="only the first so many kinds of data")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        folder = Path(name)
        with BrokerProcess(folder / "broker", ["--set", "log.retention.ms=-1"]) as broker:
            spark = session("bench", master="local[2]", jars=",".join(map(str, connector_jars())))
            print("| data | way | records/s | MB/s of log | times the connector |")
            print("| --- | --- | --- | --- | --- |", flush=True)
            for size, codec in KINDS[: asked.kinds]:
                topic = f"{size.replace(' ', '-')}-{codec}"
                fill(broker.bootstrap, topic, asked.records, size, codec)
                wait_for_checkpoint(broker.data, broker.bootstrap, topic, PARTITIONS)
                measure(spark, broker, topic, asked.records, asked.rounds, folder)
            spark.stop()


def fill(bootstrap: str, topic: str, records: int, size: str, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(20)
    random = Random(1)
    values = [_value(random, 200 if size != "mixed" else random.choice((20, 100, 200, 400, 2000))) for _ in range(997)]
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.size": 16384, "linger.ms": 20}
    producer = Producer(settings | {"queue.buffering.max.messages": 1_000_000})
    for index in range(records):
        while True:
            try:
                producer.produce(topic, values[index % 997], b"key-%d" % (index % 1000), index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def _value(random: Random, size: int) -> bytes:
    words = [b"order", b"customer", b"amount", b"%d" % random.randrange(10**9), b"pending", b"shipped"]
    return b" ".join(random.choices(words, k=size))[:size]


def measure(spark: SparkSession, broker: BrokerProcess, topic: str, records: int, rounds: int, folder: Path) -> None:
    path, bootstrap = str(broker.data), broker.bootstrap
    size = sum(file.stat().st_size for file in broker.data.glob(f"{topic}-?/*.log"))
    numbers = iter(range(1000))

    def frame(kind: str, **options: str) -> Callable[[], object]:
        reader = spark.read.format(kind).options(subscribe=topic, **options)
        return lambda: reader.load().write.format("noop").mode("overwrite").save()

    def connector_to_parquet() -> None:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        out = str(folder / f"connector-{next(numbers)}")
        reader.options(subscribe=topic, includeHeaders="true").load().write.parquet(out)
        shutil.rmtree(out)

    def ours_to_parquet() -> None:
        out = str(folder / f"archive-{next(numbers)}")
        archive(spark, read_options({"path": path, "subscribe": topic}, streaming=False), out, Progress("none", ""))
        shutil.rmtree(out)

    def audited() -> None:
        batches = spark.read.format("broker_lite_batches").load(path, subscribe=topic)
        assert audit(spark, read_options({"path": path, "subscribe": topic}, streaming=False), batches).sound

    connector = frame("kafka", **{"kafka.bootstrap.servers": bootstrap})
    base = _best(connector, rounds)
    _row(topic, "connector to noop", base, base, records, size)
    _row(topic, "files to noop", _best(frame("broker_lite", path=path), rounds), base, records, size)
    _row(topic, "wire to noop", _best(frame("broker_lite", bootstrap=bootstrap), rounds), base, records, size)
    base = _best(connector_to_parquet, rounds)
    _row(topic, "connector to Parquet", base, base, records, size)
    _row(topic, "archive", _best(ours_to_parquet, rounds), base, records, size)
    _row(topic, "audit", _best(audited, rounds), None, records, size)


def _best(work: Callable[[], object], rounds: int) -> float:
    work()
    times = []
    for _ in range(rounds):
        begun = time.monotonic()
        work()
        times.append(time.monotonic() - begun)
    return min(times)


def _row(topic: str, way: str, seconds: float, base: float | None, records: int, size: int) -> None:
    times = "" if base is None else f"{base / seconds:.1f}"
    print(f"| {topic} | {way} | {records / seconds:,.0f} | {size / seconds / 1e6:,.0f} | {times} |", flush=True)


if __name__ == "__main__":
    main()
