"""Formats, byte by byte, and what is not taken for one."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from broker_lite.ids import TopicId, TopicPartition
from broker_lite.log import checkpoints, layout
from broker_lite.log.disk import MemoryDisk, RealDisk
from broker_lite.log.layout import AbortedTxn, ProducerEntry


def test_names_of_segment_files() -> None:
    assert layout.file_name(42, layout.LOG) == "00000000000000000042.log"
    assert layout.parse_file_name("00000000000000000042.timeindex") == (42, ".timeindex")
    for other in ("42.log", "leader-epoch-checkpoint", "00000000000000000042.log.torn", "00000000000000000042"):
        assert layout.parse_file_name(other) is None


def test_names_of_partition_folders() -> None:
    assert layout.parse_folder_name("a.b-c_d-12") == TopicPartition("a.b-c_d", 12)
    assert layout.folder_name(TopicPartition("t", 3)) == "t-3"
    for other in ("t", "t-", "t-01", "-1", "__cluster_metadata-0", "t-0.abc-delete", "t 0-1", "t-1.tmp", "@journal"):
        assert layout.parse_folder_name(other) is None


def test_an_offset_index_is_pairs_of_four_bytes() -> None:
    data = bytes.fromhex("00000005 00000100 00000009 00000200")
    assert layout.parse_index(data) == (array("I", [5, 9]), array("I", [256, 512]))
    assert layout.format_index(*layout.parse_index(data)) == data
    assert layout.parse_index(data + bytes(80)) == layout.parse_index(data)


def test_a_time_index_is_twelve_bytes_an_entry() -> None:
    data = bytes.fromhex("0000018bcfe56800 00000005 0000018bcfe56801 00000009")
    assert layout.parse_time_index(data) == (array("q", [1_700_000_000_000, 1_700_000_000_001]), array("I", [5, 9]))
    assert layout.format_time_index(*layout.parse_time_index(data)) == data
    assert layout.parse_time_index(data + bytes(120)) == layout.parse_time_index(data)
    assert layout.parse_time_index(bytes(1200)) == (array("q"), array("I"))


@pytest.mark.parametrize("data", [bytes(7), bytes.fromhex("00000009 00000100 00000005 00000200")])
def test_an_offset_index_that_cannot_be_one_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="offset index"):
        layout.parse_index(data)


def test_an_aborted_transaction_is_thirty_four_bytes() -> None:
    data = layout.format_aborted([AbortedTxn(7, 10, 20, 15), AbortedTxn(8, 1, 21, 22)])
    assert data[:34].hex() == "00000000000000000007000000000000000a0000000000000014000000000000000f"
    assert layout.parse_aborted(data) == [AbortedTxn(7, 10, 20, 15), AbortedTxn(8, 1, 21, 22)]
    for wrong in (data[:-1], b"\x00\x01" + data[2:], data + data):
        with pytest.raises(ValueError, match="transaction index"):
            layout.parse_aborted(wrong)


def test_a_producer_snapshot_is_guarded_by_its_checksum() -> None:
    entries = [ProducerEntry(1, 2, 3, 4, 5, 6, 7, 8), ProducerEntry(9, 0, -1, -1, 0, -1, -1, -1)]
    data = layout.format_snapshot(entries)
    assert len(data) == 2 + 4 + 4 + 2 * 46
    assert layout.parse_snapshot(data) == entries
    for byte in range(len(data)):
        with pytest.raises(ValueError, match="the snapshot has"):
            layout.parse_snapshot(data[:byte] + bytes([data[byte] ^ 4]) + data[byte + 1 :])
        with pytest.raises(ValueError, match="the snapshot has"):
            layout.parse_snapshot(data[:byte])


def test_offset_checkpoints_are_lines_with_a_count(tmp_path: Path) -> None:
    disk, path = RealDisk(), tmp_path / layout.RECOVERY_POINTS
    assert checkpoints.read_offsets(disk, path) == {}
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b.c", 12): 2**40}
    checkpoints.write_offsets(disk, path, offsets, sync=True)
    assert path.read_text() == "0\n2\na 0 5\nb.c 12 1099511627776\n"
    assert checkpoints.read_offsets(disk, path) == offsets
    for wrong in (
        b"1\n0\n",
        b"0\n3\na 0 5\n",
        b"0\n1\na 5\n",
        b"0\n1\na 0 x\n",
        b"",
        b"\xff\xfe",
        path.read_bytes()[:8],
    ):
        path.write_bytes(wrong)
        assert checkpoints.read_offsets(disk, path) == {}


def test_a_partition_knows_its_topic(tmp_path: Path) -> None:
    disk, topic_id = RealDisk(), TopicId(bytes(range(16)))
    assert checkpoints.read_partition_metadata(disk, tmp_path) is None
    checkpoints.write_partition_metadata(disk, tmp_path, topic_id, sync=False)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert checkpoints.read_partition_metadata(disk, tmp_path) == topic_id


def test_a_folder_knows_its_owner(tmp_path: Path) -> None:
    disk = RealDisk()
    assert checkpoints.read_meta_properties(disk, tmp_path) is None
    (tmp_path / layout.META_PROPERTIES).write_text("#\n#Mon Nov 16\nnode.id=1\n cluster.id = abc=\nversion=1\n")
    assert checkpoints.read_meta_properties(disk, tmp_path) == {"node.id": "1", "cluster.id": "abc=", "version": "1"}
    checkpoints.write_meta_properties(disk, tmp_path, {"node.id": "2"})
    assert checkpoints.read_meta_properties(disk, tmp_path) == {"node.id": "2"}


@pytest.mark.parametrize("disk", [RealDisk(), MemoryDisk()], ids=["files", "memory"])
def test_a_clean_stop_vouches_for_one_start_only(tmp_path: Path, disk: RealDisk | MemoryDisk) -> None:
    disk.mkdir(tmp_path)
    assert not checkpoints.take_clean_shutdown(disk, tmp_path)
    checkpoints.mark_clean_shutdown(disk, tmp_path, broker_epoch=3)
    assert disk.read_bytes(tmp_path / ".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":3}'
    assert layout.parse_clean_shutdown(b'{"version":0,"brokerEpoch":3}') == 3
    assert checkpoints.take_clean_shutdown(disk, tmp_path)
    assert not checkpoints.take_clean_shutdown(disk, tmp_path)
