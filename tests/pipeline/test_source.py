"""The data sources: from files, from a broker and from Spark's own connector come the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from broker_lite.pipeline.errors import DataLost, WrongOption
from broker_lite.pipeline.microbatches import StreamReader
from broker_lite.pipeline.options import read_options
from broker_lite.pipeline.session import first_line, spark_errors
from tests.pipeline import filling
from tests.support.broker import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@dataclass
class Filled:
    bootstrap: str
    data: Path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """`plain` has all codecs and headers; `deals` has transactions: committed, aborted, one still open."""
    with BrokerProcess(tmp_path_factory.mktemp("filled"), ["--set", "log.segment.bytes=20000"]) as broker:
        filling.create(broker.bootstrap, "plain")
        for codec in filling.CODECS:
            filling.fill(broker.bootstrap, "plain", count=100, codec=codec)
        filling.create(broker.bootstrap, "deals")
        filling.transact(broker.bootstrap, "deals", "one", "cacca")
        filling.fill(broker.bootstrap, "deals", count=30)
        left_open = filling.transact(broker.bootstrap, "deals", "two", "co")
        filling.fill(broker.bootstrap, "deals", count=10)
        for topic in ("plain", "deals"):
            filling.wait_for_checkpoint(broker.data, broker.bootstrap, topic)
        yield Filled(broker.bootstrap, broker.data)
        del left_open


def read(spark: SparkSession, filled: Filled, source: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka" if source == "connector" else "broker_lite")
    reader = (
        reader.option("path", str(filled.data))
        if source == "path"
        else reader.option("kafka.bootstrap.servers", filled.bootstrap)
    )
    return reader.options(subscribe=topic, **{name.replace("__", "."): value for name, value in options.items()}).load()


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    names = [name for name in ALL if name in frame.columns]
    return sorted((tuple(row) for row in frame.select(*names).collect()), key=lambda row: (row[2], row[3], row[4]))


@pytest.mark.parametrize("topic", ["plain", "deals"])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_files_wire_and_connector_give_the_same_rows(
    spark: SparkSession, filled: Filled, topic: str, level: str
) -> None:
    options = {"includeHeaders": "true", "kafka__isolation__level": level}
    expected = rows(read(spark, filled, "connector", topic, **options))
    assert expected
    assert rows(read(spark, filled, "path", topic, **options)) == expected
    assert rows(read(spark, filled, "bootstrap", topic, **options)) == expected


def test_the_schema_is_the_connectors(spark: SparkSession, filled: Filled) -> None:
    for headers in ("true", "false"):
        theirs = read(spark, filled, "connector", "plain", includeHeaders=headers).schema
        assert read(spark, filled, "path", "plain", includeHeaders=headers).schema == theirs


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"plain":{"0":17,"1":-2}}', "endingOffsets": '{"plain":{"0":60,"1":-1}}'},
        {"startingTimestamp": "1714000050000", "endingTimestamp": "1714000090000"},
        {"startingOffsetsByTimestamp": '{"plain":{"0":1714000020000,"1":1714000030500}}'},
    ],
    ids=["offsets", "timestamps", "timestamps by partition"],
)
def test_edges_mean_what_they_mean_in_the_connector(
    spark: SparkSession, filled: Filled, options: dict[str, str]
) -> None:
    expected = rows(read(spark, filled, "connector", "plain", **options))
    assert expected
    assert rows(read(spark, filled, "path", "plain", **options)) == expected
    assert rows(read(spark, filled, "bootstrap", "plain", **options)) == expected


def test_a_users_schema_is_the_projection(spark: SparkSession, filled: Filled) -> None:
    frame = spark.read.format("broker_lite").schema("offset BIGINT, value BINARY")
    found = frame.load(str(filled.data), subscribe="plain").collect()
    assert found[0].asDict().keys() == {"offset", "value"}
    assert len(found) == 1000


def test_one_row_a_batch(spark: SparkSession, filled: Filled) -> None:
    frame = spark.read.format("broker_lite_batches").load(str(filled.data), subscribe="deals")
    found = frame.collect()
    assert all(row.crc_ok for row in found)
    assert [row.marker for row in found if row.control].count("abort") == 4
    assert [row.marker for row in found if row.control].count("commit") == 8
    wire = spark.read.format("broker_lite_batches").options(bootstrap=filled.bootstrap, subscribe="deals").load()
    same = ["topic", "partition", "base_offset", "last_offset", "count", "codec", "producer_id", "marker", "crc_ok"]
    assert sorted(map(str, wire.select(*same).collect())) == sorted(map(str, frame.select(*same).collect()))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"subscribe": "nowhere"}, "has no topic nowhere"),
        ({"subscribe": "plain", "startingOfsets": "earliest"}, "there is no option 'startingofsets' here"),
        ({"subscribe": "plain", "startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"subscribe": "plain", "kafka.sasl.mechanism": "PLAIN"}, "are for a broker, not for a path"),
        ({"subscribe": "plain", "bootstrap": "localhost:1"}, "give either path"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":5}}'}, "plain-1 is only in one of them"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":99999,"1":0}}'}, "offset 99999 is not there"),
    ],
)
def test_wrong_options_are_one_clear_line(
    spark: SparkSession, filled: Filled, options: dict[str, str], why: str
) -> None:
    with pytest.raises(spark_errors()) as caught:
        spark.read.format("broker_lite").options(path=str(filled.data), **options).load().count()
    assert why in first_line(caught.value)


def test_a_topic_without_records_has_no_rows(spark: SparkSession, filled: Filled) -> None:
    filling.create(filled.bootstrap, "empty")
    for place in ({"path": str(filled.data)}, {"bootstrap": filled.bootstrap}):
        for source in ("broker_lite", "broker_lite_batches"):
            assert spark.read.format(source).options(**place, subscribe="empty").load().collect() == []


def test_a_folder_that_is_none_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(spark_errors()) as caught:
        spark.read.format("broker_lite").load(str(tmp_path)).count()
    assert "is no data folder" in first_line(caught.value)


@pytest.mark.parametrize("source", ["path", "bootstrap"])
def test_a_stream_ends_at_what_is_there_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker_process: object, tmp_path: Path, source: str
) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "flow")
    reader = spark.readStream.format("broker_lite").options(subscribe="flow", startingOffsets="earliest")
    reader = reader.option("maxOffsetsPerTrigger", "150")
    reader = (
        reader.option("path", str(broker.data)) if source == "path" else reader.option("bootstrap", broker.bootstrap)
    )
    seen: list[tuple[int, int, int]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        seen.extend((batch, row.partition, row.offset) for row in frame.select("partition", "offset").collect())

    for round_ in (1, 2):
        filling.fill(broker.bootstrap, "flow", count=200)
        filling.wait_for_checkpoint(broker.data, broker.bootstrap, "flow")
        query = (
            reader.load()
            .writeStream.foreachBatch(keep)
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        assert query.awaitTermination(120)
        assert sorted((part, offset) for _, part, offset in seen) == [
            (part, offset) for part in (0, 1) for offset in range(200 * round_)
        ]
    assert len({batch for batch, _, _ in seen}) >= 6
    filling.create(broker.bootstrap, "elsewhere")
    other = spark.readStream.format("broker_lite").options(subscribe="elsewhere", bootstrap=broker.bootstrap).load()
    writer = other.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(spark_errors()) as caught:
        query.awaitTermination(120)
    assert "the checkpoint is of another query" in str(caught.value)


@pytest.mark.parametrize("loss", ["true", "false"])
def test_a_stream_does_not_wait_for_a_log_that_was_made_anew(broker_process: object, loss: str) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "flow")
    filling.fill(broker.bootstrap, "flow", count=20)
    told = {"bootstrap": broker.bootstrap, "subscribe": "flow", "failOnDataLoss": loss}
    reader = StreamReader(read_options(told, streaming=True), ["offset"])
    behind = {"flow": {"0": 500, "1": 20}, "gone": {"0": 1}}
    if loss == "false":
        assert reader.latestOffset(behind, ReadAllAvailable()) == {"flow": {"0": 20, "1": 20}}
        return
    with pytest.raises(WrongOption, match="of another query: it knows gone-0"):
        reader.latestOffset(behind, ReadAllAvailable())
    with pytest.raises(DataLost, match="flow-0: the checkpoint is at offset 500, the log only goes to 20"):
        reader.latestOffset({"flow": {"0": 500, "1": 20}}, ReadAllAvailable())


def test_a_partition_that_is_new_to_a_stream_begins_where_its_log_does(broker_process: object) -> None:
    broker: BrokerProcess = broker_process()  # type: ignore[operator]
    filling.create(broker.bootstrap, "flow")
    filling.fill(broker.bootstrap, "flow", count=1000)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_records([TopicPartition("flow", 1, 700)])[TopicPartition("flow", 1)].result(20)
    told = {"bootstrap": broker.bootstrap, "subscribe": "flow", "maxOffsetsPerTrigger": "10"}
    reader = StreamReader(read_options(told, streaming=True), ["offset"])
    begun = {"flow": {"0": 1000}}
    ended = reader.latestOffset(begun, reader.getDefaultReadLimit())
    assert ended == {"flow": {"0": 1000, "1": 710}}
    assert [(one.slice.first, one.slice.end) for one in reader.partitions(begun, ended)] == [(700, 710)]  # type: ignore[attr-defined]


def test_what_is_written_is_read_again(spark: SparkSession, filled: Filled) -> None:
    filling.create(filled.bootstrap, "copy")
    origin = read(spark, filled, "path", "plain", includeHeaders="true")
    columns = ["key", "value", "headers", "partition", "timestamp"]
    origin.select(*columns).write.format("broker_lite").mode("append").options(
        bootstrap=filled.bootstrap, topic="copy", compression="zstd"
    ).save()
    copy = read(spark, filled, "bootstrap", "copy", includeHeaders="true")
    assert sorted(map(str, copy.select(*columns).collect())) == sorted(map(str, origin.select(*columns).collect()))


@pytest.mark.parametrize("mode", ["fail", "skip", "report"])
def test_damage_is_an_error_or_skipped_or_reported(
    spark: SparkSession, filled: Filled, tmp_path: Path, mode: str
) -> None:
    import shutil

    data = tmp_path / "damaged"
    shutil.copytree(filled.data, data, ignore=shutil.ignore_patterns(".lock"))
    segment = sorted((data / "plain-0").glob("*.log"))[0]
    content = bytearray(segment.read_bytes())
    content[61 + 30] ^= 0x40
    segment.write_bytes(content)
    frame = spark.read.format("broker_lite").load(str(data), subscribe="plain", onCorrupt=mode)
    if mode == "fail":
        with pytest.raises(spark_errors()) as caught:
            frame.collect()
        assert "byte 0, batch at offset 0: the checksum does not fit" in first_line(caught.value)
        return
    found = frame.collect()
    reported = [row for row in found if "_corrupt_record" in frame.columns and row["_corrupt_record"]]
    assert 0 < len(found) - len(reported) < 1000
    assert len(reported) == (1 if mode == "report" else 0)
