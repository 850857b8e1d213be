from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.cli import main
from broker_lite.ids import TopicId, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import RealDisk
from broker_lite.log.dump import Dump
from broker_lite.log.layout import AbortedTxn, ProducerEntry
from broker_lite.records.batch import Batch
from broker_lite.records.control import build_marker
from tests.log.building import NOW, append, batch, open_log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with one of everything."""
    disk = RealDisk()
    log = open_log(tmp_path / "t-0", index_interval_bytes=0)
    append(log, b"one", b"two", epoch=3)
    log.append(batch(producer_id=5, transactional=True), base=log.end, leader_epoch=3, now_ms=NOW)
    marker = build_marker(5, 0, commit=False, coordinator_epoch=1, timestamp=NOW)
    log.append(Batch.at(memoryview(marker)), base=log.end, leader_epoch=3, now_ms=NOW)
    log.aborted.add(AbortedTxn(5, 2, 3, 2))
    log.close(clean=True)
    snapshot = layout.format_snapshot([ProducerEntry(5, 0, 0, 2, 0, NOW, 1, -1)])
    disk.write_atomic(tmp_path / "t-0" / layout.file_name(4, layout.SNAPSHOT), snapshot, sync=False)
    checkpoints.write_partition_metadata(disk, tmp_path / "t-0", TopicId(bytes(range(16))), sync=False)
    checkpoints.write_offsets(disk, tmp_path / layout.LOG_STARTS, {TopicPartition("t", 0): 0}, sync=False)
    checkpoints.write_meta_properties(disk, tmp_path, {"node.id": "1"})
    checkpoints.mark_clean_shutdown(disk, tmp_path)
    (tmp_path / "notes.txt").write_text("not ours")
    return tmp_path


def test_a_data_folder_is_told_in_words(root: Path) -> None:
    assert [line.replace(str(root), "DATA") for line in Dump().lines(root)] == [
        "DATA/.kafka_cleanshutdown",
        "  stopped cleanly, broker epoch -1",
        "DATA/log-start-offset-checkpoint",
        "  t-0: 0",
        "DATA/meta.properties",
        "  node.id = 1",
        "DATA/t-0/00000000000000000000.index",
        "  offset 2 at byte 81",
        "  offset 3 at byte 154",
        "DATA/t-0/00000000000000000000.log",
        "  byte 0: offsets 0 to 1, 2 records, 81 bytes, none, epoch 3, create time to 2023-11-14 22:13:20.000",
        "  byte 81: offsets 2 to 2, 1 record, 73 bytes, none, epoch 3, create time to 2023-11-14 22:13:20.000,"
        " producer 5 epoch 0, sequences 0 to 0, transactional",
        "  byte 154: offsets 3 to 3, 1 record, 78 bytes, none, epoch 3, create time to 2023-11-14 22:13:20.000,"
        " producer 5 epoch 0, ABORT by coordinator epoch 1",
        "DATA/t-0/00000000000000000000.timeindex",
        "  2023-11-14 22:13:20.000 reached at offset 1",
        "DATA/t-0/00000000000000000000.txnindex",
        "  producer 5 aborted 2 to 3, last stable offset 2",
        "DATA/t-0/00000000000000000004.snapshot",
        "  producer 5 epoch 0, last sequence 0 at offset 2 (1 records), 2023-11-14 22:13:20.000, coordinator epoch 1,"
        " idle",
        "DATA/t-0/leader-epoch-checkpoint",
        "  epoch 3 from offset 0",
        "DATA/t-0/partition.metadata",
        "  topic id AAECAwQFBgcICQoLDA0ODw",
    ]


def test_damage_is_named_and_the_rest_is_told(root: Path) -> None:
    log = root / "t-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[90 + 60] ^= 1
    log.write_bytes(data + b"\x00garbage")
    dump = Dump()
    lines = list(dump.lines(log))
    assert dump.faults == 2
    assert [line for line in lines if line.endswith("CHECKSUM WRONG")] == [lines[2]]
    assert lines[-1].startswith("  damaged at byte 232: ")
    assert lines[-1].endswith("; 8 bytes follow")
    index = root / "t-0" / "00000000000000000000.index"
    index.write_bytes(b"123")
    assert list(dump.lines(index))[1] == "  unreadable: the offset index has 3 bytes, not a multiple of 8"
    assert dump.faults == 3


def test_a_file_that_is_not_ours_is_said_to_be_none(root: Path) -> None:
    dump = Dump()
    assert list(dump.lines(root / "notes.txt"))[1] == "  not a file of a log that this program knows"
    assert dump.faults == 1
    with pytest.raises(FileNotFoundError):
        list(dump.lines(root / "missing"))


def test_a_folder_in_which_nothing_is_ours_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    dump = Dump()
    assert list(dump.lines(tmp_path)) == [str(tmp_path), "  no file of a log that this program knows"]
    assert dump.faults == 1


def test_the_verb_says_by_its_code_whether_everything_could_be_read(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump-log", str(root / "t-0")]) == 0
    assert main(["dump-log", str(root / "notes.txt"), str(root / "t-0")]) == 1
    assert "ABORT by coordinator epoch 1" in capsys.readouterr().out
