"""Transactions in one partition: what readers of committed records see, and what they are told to leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.errors import InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced
from broker_lite.log.log import LogSettings
from broker_lite.partition.partition import PartitionSettings
from broker_lite.records.batch import Batch, walk
from broker_lite.records.control import Marker, read_marker
from tests.crash.refusing_disk import RefusingDisk
from tests.partition.house import NOW, House, batch, delete_records


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def begin(house: House, producer: int, sequence: int = 0, *values: bytes, epoch: int = 0) -> int:
    return house.append(batch(*values, producer=producer, epoch=epoch, sequence=sequence, transactional=True)).base


def aborted(house: House, offset: int = 0, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    """(producer, first offset) as a read_committed reader is told."""
    found = house.read(offset, committed=True, max_bytes=max_bytes)
    assert found.aborted is not None
    return [(entry.producer_id, entry.first_offset) for entry in found.aborted]


def test_an_open_transaction_holds_back_readers_of_committed_records_only(house: House) -> None:
    house.append(batch())
    begin(house, 7)
    house.append(batch())
    assert house.all_four == (0, 1, 3, 3)
    assert house.bases(committed=True) == [0]
    assert house.bases() == [0, 1, 2]
    assert house.read(1, committed=True).records is None


def test_a_marker_takes_one_offset_and_releases_the_readers(house: House) -> None:
    begin(house, 7, 0, b"a", b"b")
    assert house.end(7).base == 2
    assert house.all_four == (0, 3, 3, 3)
    assert house.bases(committed=True) == [0, 2]
    content = house.read(2).records
    assert content is not None
    (marker,) = walk(content.read_all())
    assert read_marker(marker) == Marker(commit=True, coordinator_epoch=0)
    assert aborted(house) == []


def test_an_aborted_transaction_is_named_to_those_who_read_it(house: House) -> None:
    begin(house, 7, 0, b"a", b"b")
    house.append(batch())
    house.end(7, commit=False)
    assert aborted(house, 0) == [(7, 0)]
    assert aborted(house, 3) == [(7, 0)], "a reader may begin at the marker"
    house.append(batch())
    assert aborted(house, 4) == []


def test_only_transactions_with_records_in_the_answer_are_named(house: House) -> None:
    for producer in (1, 2, 3):
        begin(house, producer)
        house.end(producer, commit=False)
    one_batch = len(batch(producer=1, sequence=0))
    assert aborted(house, 0, max_bytes=one_batch) == [(1, 0)]
    assert aborted(house, 2, max_bytes=one_batch) == [(2, 2)]
    assert aborted(house, 0) == [(1, 0), (2, 2), (3, 4)]


def test_the_oldest_open_transaction_counts_and_entries_come_in_the_order_of_the_markers(house: House) -> None:
    begin(house, 1)
    begin(house, 2)
    house.end(2, commit=False)
    assert house.partition.offsets.stable == 0
    house.end(1, commit=False)
    assert house.partition.offsets.stable == 4
    assert aborted(house) == [(2, 1), (1, 0)]
    entries = house.partition.log.aborted.entries
    assert [(entry.last_offset, entry.last_stable_offset) for entry in entries] == [(2, 0), (3, 4)]


def test_a_marker_without_records_enters_nothing_but_fences(house: House) -> None:
    house.end(7, 3, commit=False)
    assert house.partition.log.aborted.entries == []
    with pytest.raises(InvalidProducerEpoch):
        begin(house, 7, epoch=2)


def test_a_zombie_coordinator_ends_nothing(house: House) -> None:
    begin(house, 7)
    house.end(7, coordinator=3)
    begin(house, 7, 1)
    with pytest.raises(TransactionCoordinatorFenced):
        house.end(7, coordinator=2)
    assert house.partition.open_transactions() == {7: 2}


def test_a_zombie_producer_cannot_write_after_its_epoch_was_fenced(house: House) -> None:
    begin(house, 7, epoch=1)
    house.end(7, 2, commit=False)
    with pytest.raises(InvalidProducerEpoch):
        begin(house, 7, 1, epoch=1)
    assert begin(house, 7, 0, epoch=2) == 2


def test_a_plain_batch_inside_a_transaction_is_refused(house: House) -> None:
    begin(house, 7)
    with pytest.raises(InvalidTxnState):
        house.append(batch(producer=7, sequence=1))


def test_a_transaction_that_is_not_verified_writes_nothing(house: House) -> None:
    def refuse(one: Batch) -> None:
        raise InvalidTxnState(f"producer {one.producer_id} has no transaction")

    with pytest.raises(InvalidTxnState):
        house.append(batch(producer=7, sequence=0, transactional=True), refuse)
    assert house.all_four == (0, 0, 0, 0)


def test_a_batch_that_comes_after_the_abort_marker_is_verified_again(house: House) -> None:
    asked: list[int] = []
    verify = lambda one: asked.append(one.base_sequence)  # noqa: E731
    house.append(batch(producer=7, sequence=0, transactional=True), verify)
    house.append(batch(producer=7, sequence=1, transactional=True), verify)
    house.end(7, commit=False)
    house.append(batch(producer=7, sequence=2, transactional=True), verify)
    assert asked == [0, 2]


def test_deleting_past_an_open_transaction_moves_the_stable_offset_to_the_start(house: House) -> None:
    begin(house, 7)
    house.append(batch())
    delete_records(house.partition, 2)
    assert house.all_four == (2, 2, 2, 2)
    house.append(batch())
    assert house.all_four == (2, 2, 3, 3)
    house.end(7, commit=False)
    assert house.all_four == (2, 4, 4, 4)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_open_and_ended_transactions_survive(house: House, how: str) -> None:
    begin(house, 1)
    house.end(1, commit=False)
    begin(house, 2)
    house.append(batch())
    begin(house, 3)
    getattr(house, how)()
    assert house.all_four == (0, 2, 5, 5)
    assert house.partition.open_transactions() == {2: 2, 3: 4}
    assert aborted(house) == [(1, 0)]
    house.end(2)
    assert house.partition.offsets.stable == 4
    with pytest.raises(InvalidTxnState):
        house.append(batch(producer=3, sequence=1))


def test_a_lost_or_broken_transaction_index_is_made_again(tmp_path: Path) -> None:
    house = House(tmp_path, settings=PartitionSettings(log=LogSettings(segment_bytes=300)))
    for producer in range(8):
        begin(house, producer)
        house.end(producer, commit=False)
    before = house.partition.log.aborted.entries
    assert len(before) == 8
    files = sorted(house.folder.glob("*.txnindex"))
    house.partition.close(clean=False)
    files[0].unlink()
    files[1].write_bytes(b"x" * 34)
    house.open()
    assert house.partition.log.aborted.entries == before


def test_describe_producers_says_where_a_transaction_began(house: House) -> None:
    house.append(batch())
    begin(house, 7, 5, b"a", b"b", epoch=2)
    house.end(8, 1, coordinator=4)
    described = {one.producer_id: one for one in house.partition.describe_producers()}
    assert (described[7].epoch, described[7].last_sequence, described[7].txn_start_offset) == (2, 6, 1)
    assert (described[7].last_timestamp, described[7].coordinator_epoch) == (NOW, -1)
    assert (described[8].last_sequence, described[8].txn_start_offset, described[8].coordinator_epoch) == (-1, -1, 4)


def test_offsets_of_a_group_are_written_inside_its_transaction(house: House) -> None:
    record = bytes(batch(producer=7, epoch=1, sequence=-1, transactional=True))
    assert house.partition.append_internal(record, now_ms=NOW).base == 0
    assert house.partition.append_internal(record, now_ms=NOW).base == 1
    assert house.all_four == (0, 0, 2, 2)
    stale = bytes(batch(producer=7, epoch=0, sequence=-1, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        house.partition.append_internal(stale, now_ms=NOW)
    house.end(7, 1)
    assert house.all_four == (0, 3, 3, 3)


@pytest.mark.parametrize("heals", [True, False])
def test_an_abort_that_the_index_could_not_take_is_told_all_the_same(tmp_path: Path, heals: bool) -> None:
    """It is written before the next snapshot, after which the marker is not replayed; or there is no snapshot."""
    disk = RefusingDisk()
    house = House(tmp_path, disk, PartitionSettings(log=LogSettings(segment_bytes=400)))
    begin(house, 1)
    disk.refuse("append_bytes", "write_atomic", path="*.txnindex*")
    house.end(1, commit=False)
    assert not house.partition.log.offline
    if heals:
        disk.heal()
    for _ in range(8):
        house.append(batch(b"x" * 100))
    assert len(house.partition.log.segments) > 2
    disk.heal()
    house.partition.log.flush()
    house.kill()
    aborted = house.read(0, committed=True).aborted
    assert aborted is not None
    assert [(one.producer_id, one.first_offset) for one in aborted] == [(1, 0)]
