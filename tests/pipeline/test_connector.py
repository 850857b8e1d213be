"""Spark's own Kafka connector reads and writes our broker, in batches and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import BrokerFactory
from tests.pipeline import filling
from tests.support.broker import BrokerProcess
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("connector")) as process:
        yield process


def stream(spark: SparkSession, format_: str, broker: BrokerProcess, topic: str) -> DataFrame:
    reader = spark.readStream.format(format_).option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", includeHeaders="true").load()


def test_what_the_connector_writes_is_read_by_both(spark: SparkSession, broker: BrokerProcess) -> None:
    filling.create(broker.bootstrap, "written", partitions=3)
    frame = spark.range(500).selectExpr(
        "CAST(id % 7 AS STRING) AS key",
        "CAST(id AS STRING) AS value",
        "array(struct('n' AS key, binary('1') AS value)) AS headers",
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "written").option(
        "includeHeaders", "true"
    ).save()
    found = {}
    for format_ in ("kafka", "broker_lite"):
        reader = spark.read.format(format_).option("kafka.bootstrap.servers", broker.bootstrap)
        rows = reader.options(subscribe="written", includeHeaders="true").load().orderBy("partition", "offset")
        found[format_] = rows.collect()
    assert found["kafka"] == found["broker_lite"]
    assert sorted(int(row.value) for row in found["kafka"]) == list(range(500))


def test_a_stream_over_the_connector_and_over_ours_gives_the_same_rows(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    filling.create(broker.bootstrap, "stream")
    filling.fill(broker.bootstrap, "stream", count=200)
    rows: dict[str, list[str]] = {}
    for format_ in ("kafka", "broker_lite"):
        out = str(tmp_path / format_)
        writer = stream(spark, format_, broker, "stream").writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{out}-checkpoint").start(out)
        assert query.awaitTermination(120)
        rows[format_] = sorted(str(row) for row in spark.read.parquet(out).collect())
    assert len(rows["kafka"]) == 400
    assert rows["kafka"] == rows["broker_lite"]


@pytest.mark.parametrize("format_", ["kafka", "broker_lite"])
def test_micro_batches_follow_what_is_written(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, format_: str
) -> None:
    topic = f"live-{format_}"
    filling.create(broker.bootstrap, topic)
    seen: list[tuple[int, int]] = []

    def keep(frame: DataFrame, _: int) -> None:
        seen.extend((row.partition, row.offset) for row in frame.select("partition", "offset").collect())

    writer = stream(spark, format_, broker, topic).writeStream.foreachBatch(keep)
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        for round_ in (1, 2):
            filling.fill(broker.bootstrap, topic, count=50)
            until(lambda: len(seen) >= 100 * round_ or not query.isActive, within=90, what="the rows")  # noqa: B023
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert sorted(seen) == [(part, offset) for part in (0, 1) for offset in range(100)]


def test_a_stream_outlives_a_broker_that_goes_away_and_comes_back(
    spark: SparkSession, broker_process: BrokerFactory, tmp_path: Path
) -> None:
    broker = broker_process()
    filling.create(broker.bootstrap, "kept")
    out = str(tmp_path / "out")
    writer = stream(spark, "broker_lite", broker, "kept").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{out}-checkpoint").trigger(processingTime="200 milliseconds")
    query = writer.start(out)

    def rows() -> list[tuple[int, int]]:
        found = spark.read.schema("partition INT, offset BIGINT").parquet(out).collect()
        return sorted((row.partition, row.offset) for row in found)

    try:
        for round_ in (1, 2):
            filling.fill(broker.bootstrap, "kept", count=50)
            until(lambda: len(rows()) >= 100 * round_ or not query.isActive, within=90, what="the rows")  # noqa: B023
            broker.restart(kill=True)
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert rows() == [(part, offset) for part in (0, 1) for offset in range(100)]
