"""What a reader sees of a fetched partition. The loop itself is tested against a broker in test_client.py."""

from __future__ import annotations

from broker_lite.client.consume import _records
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.control import build_marker
from broker_lite.wire.messages.k01_fetch import AbortedTransaction, PartitionData


def batch(offset: int, *values: bytes, producer: int = -1) -> bytes:
    records = [NewRecord(None, value) for value in values]
    if producer < 0:
        return build_batch(records, timestamp=1, base_offset=offset)
    return build_batch(
        records,
        timestamp=1,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    made = build_marker(producer, 0, commit=commit, coordinator_epoch=0, timestamp=1)
    return offset.to_bytes(8, "big") + made[8:]


def seen(data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None) -> list[bytes | None]:
    transactions = [AbortedTransaction(producer_id=who, first_offset=at) for who, at in aborted or []]
    part = PartitionData(partition_index=0, high_watermark=100, records=data, aborted_transactions=transactions)
    found = list(_records(part, position, committed=aborted is not None))
    assert [after for _, after in found] == sorted(after for _, after in found), "the position never goes back"
    return [record.value for record, _ in found if record is not None]


def test_a_batch_that_begins_before_the_position_is_read_from_the_position() -> None:
    assert seen(batch(5, b"a", b"b", b"c"), position=6) == [b"b", b"c"]


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    data = batch(0, b"a") + batch(1, b"b")
    assert seen(data[:-1]) == [b"a"]


def test_control_batches_are_not_data_but_move_the_position() -> None:
    data = batch(0, b"a", producer=7) + marker(1, 7, commit=True)
    assert seen(data) == [b"a"]
    part = PartitionData(partition_index=0, high_watermark=2, records=data)
    assert [after for _, after in _records(part, 0, committed=False)][-1] == 2


def test_a_reader_of_committed_data_does_not_see_what_was_aborted() -> None:
    data = (
        batch(0, b"keep")
        + batch(1, b"drop", producer=7)
        + batch(2, b"other", producer=8)
        + marker(3, 7, commit=False)
        + batch(4, b"again", producer=7)
        + marker(5, 7, commit=True)
        + marker(6, 8, commit=True)
    )
    assert seen(data, aborted=[(7, 1)]) == [b"keep", b"other", b"again"]
    assert seen(data) == [b"keep", b"drop", b"other", b"again"]


def test_nothing_to_read_is_nothing_seen() -> None:
    assert seen(b"") == []
    part = PartitionData(partition_index=0, high_watermark=0, records=None)
    assert list(_records(part, 0, committed=False)) == []
