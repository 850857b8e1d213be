"""A marker says how a transaction ended."""

from __future__ import annotations

import pytest

from broker_lite.errors import InvalidRecord
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.control import Marker, build_marker, read_marker


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_says_what_was_decided_and_by_whom(commit: bool) -> None:
    batch = Batch.at(build_marker(7, 3, commit=commit, coordinator_epoch=12, timestamp=99))
    assert read_marker(batch) == Marker(commit, 12)
    assert batch.crc_ok()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.count, batch.base_sequence, batch.producer_id, batch.producer_epoch) == (1, -1, 7, 3)
    assert batch.max_timestamp == 99


def test_a_marker_has_the_bytes_that_kafka_writes() -> None:
    payload = bytes(Batch.at(build_marker(7, 3, commit=True, coordinator_epoch=12, timestamp=0)).buf[61:])
    assert payload == bytes.fromhex("20 00 00 00 08 00000001 0C 0000 0000000C 00")


def test_a_control_record_of_another_kind_is_no_marker() -> None:
    other = build_batch([NewRecord(b"\0\0\0\2", b"\0\0\0\0\0\0")], timestamp=0, control=True)
    assert read_marker(Batch.at(other)) is None


def test_a_control_batch_that_compaction_emptied_is_no_marker() -> None:
    assert read_marker(Batch.at(build_batch([], timestamp=0, control=True))) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0\0", b"\0\0\0\0\0\0"), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0")]
)
def test_a_marker_without_its_fields_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        read_marker(Batch.at(build_batch([NewRecord(key, value)], timestamp=0, control=True)))
