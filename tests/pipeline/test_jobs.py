"""The jobs: archive, audit, replay, stream."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset as ds
import pytest
from confluent_kafka.admin import AdminClient

from broker_lite.cli import main
from broker_lite.pipeline import telling
from broker_lite.pipeline.archive import archive, read_manifest
from broker_lite.pipeline.audit import Report, audit, on_spark
from broker_lite.pipeline.errors import PipelineError, Refused
from broker_lite.pipeline.options import Asked, read_options
from broker_lite.pipeline.progress import Progress
from broker_lite.pipeline.remote import Remote
from broker_lite.pipeline.replay import lanes_of_archive, lanes_of_log, replay
from broker_lite.pipeline.session import cores_of, first_line
from broker_lite.pipeline.store import Store
from tests.pipeline import filling, folders
from tests.support.broker import BrokerProcess
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SMALL = ["--set", "log.segment.bytes=20000"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("jobs"), SMALL) as process:
        filling.create(process.bootstrap, "orders")
        filling.fill(process.bootstrap, "orders", count=1500)
        filling.transact(process.bootstrap, "orders", "dealer", "cac")
        filling.wait_for_checkpoint(process.data, process.bootstrap, "orders")
        yield process


def asked(data: Path, topic: str = "orders", **options: str) -> Asked:
    options = {"path": str(data), "subscribe": topic, "kafka.isolation.level": "read_committed"} | options
    return read_options(options, streaming=False)


def quiet() -> Progress:
    return Progress("none", "test")


def facts(out: Path) -> list[tuple[int, int, bytes | None]]:
    """(partition, offset, value) of each row, as pyarrow reads it; DuckDB must agree."""
    table = ds.dataset(str(out), format="parquet").to_table(columns=["partition", "offset", "value"])
    found = sorted(map(tuple, (row.values() for row in table.to_pylist())), key=lambda row: row[:2])
    asked = f'SELECT count(*), count(DISTINCT (topic, partition, "offset")), sum("offset") FROM \'{out}/*.parquet\''
    assert duckdb.execute(asked).fetchall() == [(len(found), len(found), sum(row[1] for row in found))]
    return found


def expected(spark: SparkSession, data: Path, topic: str = "orders") -> list[tuple[int, int, bytes | None]]:
    frame = spark.read.format("broker_lite").options(path=str(data), subscribe=topic)
    rows = frame.option("kafka.isolation.level", "read_committed").load().select("partition", "offset", "value")
    return sorted(
        ((row[0], row[1], None if row[2] is None else bytes(row[2])) for row in rows.collect()), key=lambda row: row[:2]
    )


def test_an_archive_grows_with_its_topic_and_holds_each_offset_once(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    filling.create(broker.bootstrap, "growing")
    for _ in range(2):
        filling.fill(broker.bootstrap, "growing", count=300)
        filling.wait_for_checkpoint(broker.data, broker.bootstrap, "growing")
        archive(spark, asked(broker.data, "growing"), str(out), quiet(), file_bytes=8000)
        assert facts(out) == expected(spark, broker.data, "growing")
    assert archive(spark, asked(broker.data, "growing"), str(out), quiet()).files == 0
    (out / "foreign.parquet").write_bytes(b"not ours")
    with pytest.raises(Refused, match=r"such as foreign\.parquet; --clean removes them"):
        archive(spark, asked(broker.data, "growing"), str(out), quiet())
    archive(spark, asked(broker.data, "growing"), str(out), quiet(), clean=True)
    assert facts(out) == expected(spark, broker.data, "growing")
    with pytest.raises(Refused, match="is an archive with isolation read_committed"):
        archive(
            spark, asked(broker.data, "growing", **{"kafka.isolation.level": "read_uncommitted"}), str(out), quiet()
        )


def test_a_topic_that_was_made_anew_is_not_added_to_the_archive_of_the_old_one(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wire = read_options({"bootstrap": broker.bootstrap, "subscribe": "renewed"}, streaming=False)
    for count in (10, 20):
        filling.create(broker.bootstrap, "renewed")
        filling.fill(broker.bootstrap, "renewed", count=count)
        if count == 10:
            archive(spark, wire, str(tmp_path / "out"), quiet())
            admin.delete_topics(["renewed"])["renewed"].result(20)
    with pytest.raises(Refused, match="is the archive of another topic renewed, with id "):
        archive(spark, wire, str(tmp_path / "out"), quiet())
    assert len(facts(tmp_path / "out")) == 20


def test_an_archive_that_was_killed_is_finished_by_the_next_run(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "broker_lite", "pipeline", "archive", "--data", str(broker.data)]
    command += ["--topic", "orders", "--out", str(out), "--file-bytes", "5000", "--master", "local[1]"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    until(lambda: len([*out.glob("*.parquet")]) >= 3, within=120, what="the first files", every=0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    manifest = read_manifest(Store(str(out)))
    assert manifest is not None
    assert len([*out.glob("*.parquet")]) < len(manifest.files), "it was too fast to be killed"
    archive(spark, asked(broker.data), str(out), quiet(), file_bytes=5000)
    assert facts(out) == expected(spark, broker.data)
    assert not [*out.glob(".*.tmp")]


def test_an_archive_over_the_wire_is_the_same(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    options = {"bootstrap": broker.bootstrap, "subscribe": "orders", "kafka.isolation.level": "read_committed"}
    archive(spark, read_options(options, streaming=False), str(tmp_path / "out"), quiet())
    assert facts(tmp_path / "out") == expected(spark, broker.data)


def test_a_replay_keeps_everything_but_the_offsets(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    archive(spark, asked(broker.data), str(out), quiet())
    done = replay(spark, lanes_of_archive(str(out)), broker.bootstrap, quiet(), rename="again", codec="lz4")
    columns = ["partition", "key", "value", "headers", "timestamp"]

    def content(topic: str) -> list[str]:
        frame = spark.read.format("broker_lite").options(bootstrap=broker.bootstrap, subscribe=topic)
        frame = frame.options(includeHeaders="true").option("kafka.isolation.level", "read_committed")
        return [str(row) for row in frame.load().orderBy("partition", "offset").select(*columns).collect()]

    assert content("again") == content("orders")
    with Remote(broker.bootstrap) as remote:
        assert (remote.configs("again") or {})["retention.ms"] == "-1", "what is replayed is old, and stays"
    assert done.records == len(content("orders"))


def test_a_replay_is_as_fast_as_it_is_told(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    data = tmp_path / "data"
    folders.finish(data, [folders.idempotent(data, "slow")])
    lanes = lanes_of_log(asked(data, "slow"))
    assert replay(spark, lanes, broker.bootstrap, quiet(), rate=20).seconds > 1.4
    # Thirty records, each batch five milliseconds after the one before: a hundredth of the speed takes 2.5 s.
    told = io.StringIO()
    progress = Progress("json", "replay", out=told)
    timed = replay(spark, lanes, broker.bootstrap, progress, rename="slow-again", speed=0.01)
    assert timed.seconds > 2.5
    assert timed.records == 30
    assert timed.lag < 2.0
    done = [json.loads(line)["done"] for line in told.getvalue().splitlines()]
    assert any(0 < one < 30 for one in done), "how far it is shows before the one task has ended"
    assert done == sorted(done)


def test_a_topic_that_is_too_small_is_not_replayed_into(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    filling.create(broker.bootstrap, "narrow", partitions=1)
    with pytest.raises(PipelineError, match="narrow has 1 partitions, 2 are needed"):
        replay(spark, lanes_of_log(asked(broker.data)), broker.bootstrap, quiet(), rename="narrow")


def test_an_audit_finds_nothing_wrong_with_a_brokers_own_folder(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    report = audit(read_options({"path": str(broker.data)}, streaming=False), on_spark(spark, quiet()))
    assert report.sound, report.findings
    orders = [one for one in report.partitions if one.topic == "orders"]
    assert sum(one.records for one in orders) == 2 * 1500 + 3 * 20
    assert report.outcomes == {"commit": 4, "abort": 2}
    assert "the log is sound" in telling.as_text(report)
    telling.picture(report, str(tmp_path / "audit.png"))
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_windows_are_counted_per_key(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    from broker_lite.pipeline import stream

    options = {"path": str(broker.data), "subscribe": "orders", "startingOffsets": "earliest"}
    frame = stream.windowed(stream.source(spark, "broker-lite", options), "1m", "1s")
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    seen = stream.run(frame, out=out, checkpoint=checkpoint, is_windowed=True, every=None, progress="none")
    assert seen >= 3000
    rows = spark.read.parquet(out).where("key = 'key-1'").orderBy("begin").collect()
    assert rows[0]["end"].timestamp() - rows[0].begin.timestamp() == 60
    assert sum(row.records for row in rows) > 200
    assert rows[1].rate == pytest.approx(rows[1].records / 60)


def test_progress_is_told_in_lines_or_json() -> None:
    plain, machine = io.StringIO(), io.StringIO()
    Progress("plain", "archive", out=plain).tell(10, 20, 1, 2, last=True)
    Progress("json", "archive", out=machine).tell(10, 20, 1, 2, last=True)
    assert "archive: 10 of 20 records" in plain.getvalue()
    told = json.loads(machine.getvalue())
    assert (told["done"], told["total"], told["tasks"], told["all_tasks"]) == (10, 20, 1, 2)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["archive", "--data", "/nowhere", "--out", "x"], 2, "there is no folder /nowhere"),
        (["audit"], 2, "give --data DIR or --bootstrap HOST:PORT"),
        (["audit", "--data", "DATA", "--topic", "none"], 2, "has no topic none"),
        (["audit", "--bootstrap", "127.0.0.1:1"], 2, "which topics? give --topic NAME"),
        (["replay", "--archive", "DATA", "--to", "127.0.0.1:1"], 2, "is no archive: it has no manifest"),
        (["replay", "--data", "DATA", "--to", "127.0.0.1:1", "--speed", "fast"], 2, "'fast' is no speed"),
        (["replay", "--data", "DATA", "--to", "127.0.0.1:1", "--rate", "0"], 2, "'0' is no number of records a second"),
        (["archive", "--data", "DATA", "--out", "x", "--file-bytes", "-5"], 2, "'-5' is no number above 0"),
        (["archive", "--data", "FILE", "--out", "x"], 2, "is a file, not a data folder"),
        (["archive", "--data", "DATA", "--out", "FILE"], 2, "is a file, not a folder"),
        (["archive", "--data", "DATA", "--out", "FILE/x"], 2, "cannot be made: Not a directory"),
        (["archive", "--data", "DATA", "--out", "FOREIGN"], 2, "files that no archive wrote, such as theirs;"),
        (["archive", "--data", "DATA", "--out", "ABOVE", "--clean"], 2, "has a folder that no archive wrote, below;"),
        (["stream", "--data", "DATA", "--topic", "none"], 2, "has no topic none"),
        (["stream", "--data", "DATA", "--topic", "orders", "--window", "1x"], 2, "'1x' is no length of time"),
        (["stream", "--data", "DATA", "--topic", "orders", "--out", "x"], 2, "a stream to Parquet needs --checkpoint"),
    ],
)
def test_what_cannot_run_is_one_line_and_exit_code_2(
    broker: BrokerProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    places = {"DATA": broker.data, "FILE": tmp_path / "file", "ABOVE": tmp_path / "a", "FOREIGN": tmp_path / "a/below"}
    places["FOREIGN"].mkdir(parents=True)
    (places["FOREIGN"] / "theirs").write_text("not ours")
    places["FILE"].write_text("not a folder")
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    assert main(["pipeline", *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert (places["FOREIGN"] / "theirs").exists()


def test_a_picture_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"the picture .*nowhere/audit.png cannot be written: No such file"):
        telling.picture(Report(), str(tmp_path / "nowhere" / "audit.png"))
    telling.picture(Report(), str(tmp_path / "audit.png"))
    assert [file.name for file in tmp_path.iterdir()] == ["audit.png"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x.py\n"
         "ZeroDivisionError: division by zero\n", "ZeroDivisionError: division by zero"),
        ("An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x.py\n"
         "pyarrow.lib.ArrowInvalid: no time\n\n\tat org.x", "pyarrow.lib.ArrowInvalid: no time"),
        ("An error occurred while calling o847.collect.\n: org.apache.spark.SparkException: too late\n\tat x",
         "org.apache.spark.SparkException: too late"),
        ("[SOME_THING] first\nsecond", "[SOME_THING] first"),
    ],
)  # fmt: skip
def test_an_error_of_sparks_is_told_by_the_line_that_says_what_it_is(text: str, line: str) -> None:
    assert first_line(RuntimeError(text)) == line


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local-cluster[2,1,1024]", None), ("yarn", None)],
)
def test_what_is_counted_on_one_machine_is_counted_in_as_many_tasks_as_it_has_cores(
    master: str, cores: int | None
) -> None:
    assert cores_of(master) == cores
    assert cores_of("local[*]") == os.cpu_count()
