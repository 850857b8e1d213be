"""Brokers that want TLS and a log-in: our reader and writer get in with the connector's options, and tell nobody."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from broker_lite.cli import certs
from broker_lite.pipeline.entry import options_from
from broker_lite.pipeline.errors import WrongOption
from broker_lite.pipeline.options import read_options, write_options
from broker_lite.pipeline.plan import batch_slices
from broker_lite.pipeline.session import first_line
from broker_lite.pipeline.sink import write_rows
from tests.support.broker import BrokerProcess
from tests.support.sockets import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "correct-horse"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certs")
    certs.make(made, ["localhost", "127.0.0.1"], client="alice")
    return made


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    words = ["--listen", f"SASL_SSL://{address}", "--tls", str(folder), "--sasl-user", f"alice:{PASSWORD}"]
    words += ["--topic", "secrets", "--topic", "copy"]
    with BrokerProcess(tmp_path_factory.mktemp("protected"), words, listen=""):
        settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(folder / "ca.pem")}
        settings |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
        producer = Producer(settings | {"bootstrap.servers": address})
        for number in range(100):
            producer.produce("secrets", b"%d" % number, b"key")
        assert producer.flush(30) == 0
        yield address


def options(folder: Path, bootstrap: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{LOGIN} required username="alice" password="{password}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(folder / "ca.pem"),
    }


def test_the_connectors_options_open_the_same_door(spark: SparkSession, folder: Path, bootstrap: str) -> None:
    found = {}
    for kind in ("kafka", "broker_lite"):
        frame = spark.read.format(kind).options(**options(folder, bootstrap), subscribe="secrets").load()
        found[kind] = sorted(frame.collect())
    assert len(found["kafka"]) == 100
    assert found["kafka"] == found["broker_lite"]


def test_a_password_is_in_no_plan_no_task_and_no_checkpoint(
    spark: SparkSession, folder: Path, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = options(folder, bootstrap)
    spark.read.format("broker_lite").options(**told, subscribe="secrets").load().explain(True)
    stream = spark.readStream.format("broker_lite").options(**told, subscribe="secrets", startingOffsets="earliest")
    writer = stream.load().writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "out"))
    assert query.awaitTermination(120)
    query.explain(True)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 100
    files = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if PASSWORD.encode() in file.read_bytes()]
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err
    asked = read_options(told | {"subscribe": "secrets"}, streaming=False)
    assert PASSWORD not in repr(asked) + repr(batch_slices(asked)) + repr(write_options(told))


def test_a_wrong_password_is_one_line_without_it(spark: SparkSession, folder: Path, bootstrap: str) -> None:
    told = options(folder, bootstrap, password="wrong-horse")
    with pytest.raises(Exception, match="Authentication") as caught:
        spark.read.format("broker_lite").options(**told, subscribe="secrets").load().count()
    assert "Authentication failed" in first_line(caught.value)
    assert "wrong-horse" not in str(caught.value)


def test_what_is_written_gets_in_too(folder: Path, bootstrap: str) -> None:
    import pyarrow as pa

    rows = pa.RecordBatch.from_pydict({"value": [b"one", b"two"]})
    asked = write_options(options(folder, bootstrap) | {"topic": "copy"})
    assert write_rows(pickle.loads(pickle.dumps(asked)), [rows]) == 2
    (part, *_) = batch_slices(read_options(options(folder, bootstrap) | {"subscribe": "copy"}, streaming=False))
    values = [value for found in part.rows(("value",)) for value in found["value"].to_pylist()]  # type: ignore[index]
    assert values == [b"one", b"two"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"kafka.security.protocol": "TLS"}, "security.protocol is TLS"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI"),
        ({"kafka.ssl.truststore.location": "/nowhere.pem"}, "No such file"),
        ({"kafka.ssl.truststore.type": "JKS"}, "this client reads PEM"),
        ({"kafka.client.rack": "x"}, r"the connector's option kafka\.client\.rack is not supported"),
    ],
)
def test_what_opens_no_door_is_told_before_anything_runs(
    folder: Path, bootstrap: str, wrong: dict[str, str], why: str
) -> None:
    with pytest.raises(WrongOption, match=why):
        read_options(options(folder, bootstrap) | wrong, streaming=False)


def test_a_file_of_kafkas_client_properties_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nclient.id=somebody\n")
    assert options_from(str(file)) == {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    with pytest.raises(WrongOption, match="No such file"):
        options_from(str(tmp_path / "none"))
