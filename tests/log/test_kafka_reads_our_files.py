"""Apache Kafka's own `kafka-dump-log` reads every file of a partition and has nothing to complain of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from broker_lite.log import layout
from broker_lite.log.layout import AbortedTxn, ProducerEntry
from broker_lite.log.log import Log
from broker_lite.records.batch import Batch
from broker_lite.records.compression import Codec
from broker_lite.records.control import build_marker
from tests.log.building import NOW, append, batch, fill, open_log
from tests.log.compacting import Kept
from tests.support import kafka_tools

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

FIRST_OFFSET_OF_A_LATER_SEGMENT = re.compile(r"Non-consecutive offsets in .*\.log\n  -1 is followed by [1-9]\d*\n")
"""The deep iteration of 4.x starts at -1 in every file, and says so of its own segments too."""


def a_partition(path: Path) -> Log:
    """Several segments, epochs and producers, one aborted transaction, timestamps that go back and forth."""
    log = open_log(path, segment_bytes=20_000, index_interval_bytes=4096)
    fill(log, 300, epoch=1)
    for number in range(400):
        append(log, b"x" * (number % 200), b"y" * 30, timestamp=NOW + number * 7919 % 1000, epoch=2)
    first = log.end
    log.append(batch(b"to be aborted", producer_id=5, transactional=True), base=first, leader_epoch=2, now_ms=NOW)
    marker = build_marker(5, 0, commit=False, coordinator_epoch=3, timestamp=NOW)
    log.append(Batch.at(memoryview(marker)), base=log.end, leader_epoch=2, now_ms=NOW)
    log.aborted.add(AbortedTxn(5, first, log.end - 1, first))
    snapshot = layout.format_snapshot([ProducerEntry(5, 0, 0, first, 0, NOW, 3, -1)])
    log.disk.write_atomic(path / layout.file_name(log.end, layout.SNAPSHOT), snapshot, sync=False)
    return log


def dump(tools: Path, path: Path, *options: str) -> str:
    """What the tool prints; it must not complain."""
    wanted = (layout.LOG, layout.INDEX, layout.TIME_INDEX, layout.TXN_INDEX, layout.SNAPSHOT)
    files = ",".join(str(file) for file in sorted(path.iterdir()) if file.suffix in wanted)
    command = [str(tools / "kafka-dump-log.sh"), *options, "--files", files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert FIRST_OFFSET_OF_A_LATER_SEGMENT.sub("", done.stderr) == ""
    return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kafka_tools.scripts(tmp_path_factory.mktemp("tools"))


@pytest.mark.parametrize("how", ["stopped", "running", "killed and recovered"])
def test_kafka_dump_log_reads_a_partition(tmp_path: Path, tools: Path, how: str) -> None:
    path = tmp_path / "t-0"
    log = a_partition(path)
    if how == "stopped":
        log.close(clean=True)
    elif how == "running":
        log.save_index()
    else:
        log.close(clean=False)
        open_log(path, segment_bytes=20_000, index_interval_bytes=4096).close(clean=False)
    printed = dump(tools, path, "--deep-iteration", "--print-data-log")
    assert printed.count("| offset:") == log.end
    assert printed.count(" isvalid: true") >= 700
    assert "isvalid: false" not in printed
    assert f"producerId: 5 firstOffset: {log.end - 2} lastOffset: {log.end - 1}" in printed
    assert "producerId: 5 producerEpoch: 0 coordinatorEpoch: 3" in printed
    assert "endTxnMarker: ABORT coordinatorEpoch: 3" in printed
    entries = sum(file.stat().st_size // 8 for file in path.glob("*.index"))
    assert len(re.findall(r"^offset: \d+ position: \d+$", printed, re.MULTILINE)) == entries > 10
    checked = dump(tools, path, "--index-sanity-check")
    assert checked.count("passed sanity check") + checked.count("is empty") >= 2 * len(log.segments) - 1


def test_kafka_dump_log_reads_a_compacted_partition(tmp_path: Path, tools: Path) -> None:
    kept = Kept(tmp_path, segment_bytes=4000)
    for number in range(200):
        kept.put((b"%d" % (number % 20), b"x" * 50), (b"once %d" % number, b"y"), producer=1, codec=Codec.ZSTD)
        kept.put((b"%d" % (number % 30), b"z" * 50), producer=2, transactional=True)
        kept.end(2, commit=number % 4 != 0)
    for number in range(50):
        kept.put((b"once %d" % number, None))
    kept.put((b"0", b"overwritten"), producer=3)
    kept.put(*((b"%d" % number, b"last") for number in range(30)))
    kept.compact()
    batches, records = len(kept.batches()), sum(one.count for one in kept.batches())
    kept.partition.close(clean=True)
    wanted = (layout.LOG, layout.INDEX, layout.TIME_INDEX, layout.TXN_INDEX, layout.SNAPSHOT)
    files = ",".join(str(file) for file in sorted(kept.path.iterdir()) if file.suffix in wanted)

    def run(*options: str) -> str:
        command = [str(tools / "kafka-dump-log.sh"), *options, "--files", files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        # Offsets are missing, which is what compaction is for, and the tool says so of every compacted log.
        complaints = re.sub(r"Non-consecutive offsets in .*\n(  -?\d+ is followed by \d+\n)+", "", done.stderr)
        assert complaints == ""
        return done.stdout

    printed = run("--deep-iteration", "--print-data-log")
    assert printed.count(" isvalid: true") == batches
    assert "isvalid: false" not in printed
    assert printed.count("| offset:") == records
    assert printed.count("deleteHorizonMs: OptionalLong[") >= 50
    assert printed.count("count: 0 ") >= 2
    assert "endTxnMarker: ABORT" in printed
    assert run("--index-sanity-check").count("passed sanity check") >= 2
