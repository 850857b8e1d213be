"""One partition: appends, repeats, reads, deletions, restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    StorageFailed,
    UnknownLeaderEpoch,
)
from broker_lite.ids import TopicId
from broker_lite.log import layout
from broker_lite.log.log import LogSettings
from broker_lite.partition.partition import Partition, PartitionSettings
from broker_lite.records.batch import Batch
from broker_lite.records.check import AppendRules
from broker_lite.records.record import records_of
from tests.partition.house import NOW, TP, FullDisk, House, batch, delete_records

SMALL_SEGMENTS = PartitionSettings(log=LogSettings(segment_bytes=400))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_batches_get_the_next_offsets_and_the_leader_epoch(house: House) -> None:
    assert [house.append(batch(b"a", b"b")).base, house.append(batch(b"c")).base] == [0, 2]
    first = Batch.at(house.read(0).records.read_all())  # type: ignore[union-attr]
    assert first.leader_epoch == house.partition.leader_epoch
    assert [record.value for record in records_of(first)] == [b"a", b"b"]
    assert house.all_four == (0, 3, 3, 3)


def test_an_answer_has_first_and_last_offset_and_the_log_start(house: House) -> None:
    house.append(batch(b"a", b"b"))
    delete_records(house.partition, 1)
    appended = house.append(batch(b"c", b"d", b"e"))
    assert (appended.base, appended.last, appended.log_start, appended.log_append_time) == (2, 4, 1, -1)


def test_a_repeat_is_not_written_and_answered_as_the_original(house: House) -> None:
    first = house.append(batch(b"a", b"b", producer=7, sequence=0, timestamp=NOW - 5))
    house.append(batch(producer=7, sequence=2))
    again = house.append(batch(b"a", b"b", producer=7, sequence=0, timestamp=NOW - 5))
    assert again.duplicate
    assert (again.base, again.last, again.log_append_time) == (first.base, first.last, NOW - 5)
    assert house.partition.offsets.end == 3


def test_a_refused_batch_leaves_no_trace(house: House) -> None:
    house.append(batch(producer=7, sequence=0))
    with pytest.raises(OutOfOrderSequence):
        house.append(batch(producer=7, sequence=30))
    assert house.partition.offsets.end == 1
    assert house.append(batch(producer=7, sequence=1)).base == 1


def test_a_retry_after_a_failed_write_is_written_once(tmp_path: Path) -> None:
    disk = FullDisk()
    house = House(tmp_path, disk)
    house.append(batch(b"a", producer=7, sequence=0))
    disk.full = True
    with pytest.raises(StorageFailed):
        house.append(batch(b"b", producer=7, sequence=1, transactional=True))
    assert house.all_four == (0, 1, 1, 1)
    assert house.partition.open_transactions() == {}
    disk.full = False
    again = house.append(batch(b"b", producer=7, sequence=1, transactional=True))
    assert (again.base, again.duplicate) == (1, False)
    assert house.bases() == [0, 1]


def test_a_failed_marker_ends_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    house = House(tmp_path, disk)
    house.append(batch(producer=7, sequence=0, transactional=True))
    disk.full = True
    with pytest.raises(StorageFailed):
        house.end(7)
    assert house.partition.open_transactions() == {7: 0}
    disk.full = False
    house.end(7)
    assert house.all_four == (0, 2, 2, 2)


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    house = House(tmp_path, settings=SMALL_SEGMENTS)
    with pytest.raises(RecordListTooLarge):
        house.append(batch(bytes(400)))


def test_a_coordinator_cannot_write_more_than_the_topic_allows(tmp_path: Path) -> None:
    house = House(tmp_path, settings=PartitionSettings(rules=AppendRules(max_message_bytes=100)))
    with pytest.raises(MessageTooLarge):
        house.partition.append_internal(bytes(batch(bytes(100))), now_ms=NOW)
    assert house.partition.append_internal(bytes(batch(b"a")), now_ms=NOW).base == 0


def test_log_append_time_is_answered_and_stored(tmp_path: Path) -> None:
    house = House(tmp_path, settings=PartitionSettings(rules=AppendRules(log_append_time=True)))
    assert house.append(batch(producer=7, sequence=0, timestamp=5)).log_append_time == NOW
    assert house.append(batch(producer=7, sequence=0, timestamp=5)).log_append_time == NOW
    assert house.partition.offset_by_time(NOW, committed=False) is not None


def test_new_settings_hold_from_the_next_batch_on(house: House) -> None:
    house.partition.reconfigure(PartitionSettings(rules=AppendRules(max_message_bytes=80)))
    with pytest.raises(MessageTooLarge):
        house.append(batch(bytes(100)))


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch(house: House) -> None:
    house.append(batch(b"a", b"b", b"c"))
    house.append(batch(b"d"))
    assert house.bases(1) == [0, 3]


def test_a_read_returns_one_batch_even_if_it_is_too_large(house: House) -> None:
    house.append(batch(bytes(500)))
    house.append(batch(bytes(500)))
    assert house.bases(0, max_bytes=10) == [0]
    assert house.read(0, max_bytes=10, one=False).records is None


def test_a_read_at_the_end_is_empty_and_beyond_it_out_of_range(house: House) -> None:
    house.append(batch())
    assert house.read(1).records is None
    for wrong in (2, -1):
        with pytest.raises(OffsetOutOfRange):
            house.read(wrong)


def test_only_readers_of_committed_records_get_a_list_of_aborted_transactions(house: House) -> None:
    house.append(batch())
    assert house.read(0).aborted is None
    assert house.read(0, committed=True).aborted == []


# --- deleting -----------------------------------------------------------------------------------------------------


def test_deleted_records_are_out_of_range_but_their_batch_is_still_returned(house: House) -> None:
    house.append(batch(b"a", b"b", b"c"))
    house.append(batch(b"d"))
    assert delete_records(house.partition, 2) == 2
    with pytest.raises(OffsetOutOfRange):
        house.read(1)
    assert house.bases(2) == [0, 3]


def test_minus_one_deletes_all_that_can_be_read(house: House) -> None:
    house.append(batch(b"a", b"b"))
    assert delete_records(house.partition, -1) == 2
    assert house.all_four == (2, 2, 2, 2)
    assert house.append(batch()).base == 2


def test_deleting_backwards_changes_nothing_and_beyond_the_high_watermark_is_refused(house: House) -> None:
    house.append(batch(b"a", b"b"))
    delete_records(house.partition, 1)
    assert delete_records(house.partition, 0) == 1
    for wrong in (3, -2):
        with pytest.raises(OffsetOutOfRange):
            delete_records(house.partition, wrong)


def test_deletion_survives_a_restart(house: House) -> None:
    house.append(batch(b"a", b"b", b"c"))
    delete_records(house.partition, 2)
    assert house.restart().offsets.start == 2
    assert house.kill().offsets.start == 2


# --- leader epochs ------------------------------------------------------------------------------------------------


def test_the_leader_epoch_rises_at_a_start_after_a_crash_and_never_falls(house: House) -> None:
    assert house.partition.leader_epoch == 0
    house.append(batch())
    assert house.restart().leader_epoch == 0
    assert house.kill().leader_epoch == 1
    assert house.kill().leader_epoch == 1, "nothing was stamped with it, so it is still the next one"
    house.append(batch())
    assert house.kill().leader_epoch == 2
    assert house.restart().leader_epoch == 2
    assert house.restart().leader_epoch == 2


def test_an_epoch_is_on_disk_before_the_first_batch_that_bears_it(house: House) -> None:
    file = house.folder / layout.LEADER_EPOCHS
    house.append(batch())
    house.kill()
    assert layout.parse_epochs(file.read_bytes()) == [(0, 0)]
    house.append(batch())
    assert layout.parse_epochs(file.read_bytes()) == [(0, 0), (1, 1)]


def test_a_client_with_another_epoch_hears_which_one_is_old(house: House) -> None:
    house.append(batch())
    house.kill()
    partition = house.partition
    partition.check_leader_epoch(-1)
    partition.check_leader_epoch(1)
    with pytest.raises(FencedLeaderEpoch):
        partition.check_leader_epoch(0)
    with pytest.raises(UnknownLeaderEpoch):
        partition.check_leader_epoch(2)


def test_each_epoch_ends_where_the_next_began(house: House) -> None:
    house.append(batch(b"a", b"b"))
    house.kill()
    house.append(batch(b"c"))
    house.kill()
    end_of = house.partition.end_offset_for
    assert [end_of(-1), end_of(0), end_of(1), end_of(2), end_of(3)] == [(-1, -1), (0, 2), (1, 3), (2, 3), (-1, -1)]
    assert [house.partition.epoch_at(offset) for offset in (0, 1, 2)] == [0, 0, 1]


def test_a_reader_whose_log_parted_from_ours_is_told_where(house: House) -> None:
    house.append(batch(b"a", b"b"))
    house.kill()
    house.append(batch(b"c"))
    partition = house.partition
    assert partition.diverging(house.partition.offsets.end, 1) is None
    assert partition.diverging(partition.offsets.end, 0) == (0, 2)
    with pytest.raises(OffsetOutOfRange):
        partition.diverging(partition.offsets.end, 5)
    delete_records(partition, 2)
    with pytest.raises(OffsetOutOfRange):
        partition.diverging(type(partition.offsets.end)(1), 0)


# --- restarts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_all_five_batches_may_be_repeated_after_a_restart(house: House, how: str) -> None:
    for sequence in range(8):
        house.append(batch(producer=7, sequence=sequence))
    getattr(house, how)()
    assert [house.append(batch(producer=7, sequence=sequence)).base for sequence in range(3, 8)] == [3, 4, 5, 6, 7]
    with pytest.raises(OutOfOrderSequence):
        house.append(batch(producer=7, sequence=2))
    assert house.append(batch(producer=7, sequence=8)).base == 8


def test_without_the_file_beside_the_snapshot_only_the_last_batch_is_known(house: House) -> None:
    for sequence in range(5):
        house.append(batch(producer=7, sequence=sequence))
    house.partition.close(clean=True)
    (house.folder / f"{5:020d}.batches").unlink()
    house.open(clean=True)
    assert house.append(batch(producer=7, sequence=4)).duplicate
    with pytest.raises(OutOfOrderSequence):
        house.append(batch(producer=7, sequence=3))
    assert house.append(batch(producer=7, sequence=5)).base == 5


@pytest.mark.parametrize("suffix", ["snapshot", "batches"])
def test_a_damaged_snapshot_is_not_believed(house: House, suffix: str) -> None:
    for sequence in range(5):
        house.append(batch(producer=7, sequence=sequence))
    house.partition.close(clean=True)
    file = house.folder / f"{5:020d}.{suffix}"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    house.open(clean=True)
    assert house.append(batch(producer=7, sequence=4)).duplicate
    assert house.append(batch(producer=7, sequence=5)).base == 5


def test_a_snapshot_is_taken_at_each_roll_and_few_are_kept(tmp_path: Path) -> None:
    house = House(tmp_path, settings=SMALL_SEGMENTS)
    for sequence in range(60):
        house.append(batch(bytes(100), producer=7, sequence=sequence))
    names = sorted(file.name for file in house.folder.glob("*.snapshot"))
    assert len(names) == 3
    assert (house.folder / names[-1]).with_suffix(".log").exists()
    house.kill()
    assert house.append(batch(bytes(100), producer=7, sequence=55)).base == 55


def test_an_older_snapshot_serves_when_the_newest_is_broken(tmp_path: Path) -> None:
    house = House(tmp_path, settings=SMALL_SEGMENTS)
    for sequence in range(60):
        house.append(batch(bytes(100), producer=7, sequence=sequence))
    house.partition.close(clean=True)
    newest = max(house.folder.glob("*.snapshot"))
    newest.write_bytes(b"nonsense")
    house.open(clean=True)
    assert [house.append(batch(bytes(100), producer=7, sequence=at)).base for at in range(55, 60)] == [*range(55, 60)]


def test_a_snapshot_of_batches_that_the_log_has_lost_is_dropped(house: House) -> None:
    house.append(batch(producer=7, sequence=0))
    size = (house.folder / f"{0:020d}.log").stat().st_size
    house.append(batch(producer=7, sequence=1))
    house.partition.close(clean=True)
    with (house.folder / f"{0:020d}.log").open("r+b") as file:
        file.truncate(size)
    house.open()
    assert house.append(batch(producer=7, sequence=1)).base == 1


def test_a_producer_whose_records_were_all_deleted_goes_on_after_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path, settings=SMALL_SEGMENTS)
    for sequence in range(20):
        house.append(batch(bytes(100), producer=7, sequence=sequence))
    delete_records(house.partition, -1)
    house.restart()
    assert house.append(batch(bytes(100), producer=7, sequence=20)).base == 20
    house.kill()
    assert house.append(batch(bytes(100), producer=7, sequence=21)).base == 21


def test_silent_producers_are_forgotten_by_upkeep_and_by_a_restart(house: House) -> None:
    house.append(batch(producer=7, sequence=0, timestamp=NOW))
    house.partition.upkeep(NOW + 24 * 3600 * 1000 - 1)
    assert [one.producer_id for one in house.partition.describe_producers()] == [7]
    house.restart(now=NOW + 24 * 3600 * 1000)
    assert house.partition.describe_producers() == []
    house.append(batch(producer=8, sequence=5, timestamp=NOW))
    house.partition.upkeep(NOW + 48 * 3600 * 1000)
    assert house.partition.describe_producers() == []


def test_who_writes_old_records_is_remembered_until_the_producers_are_looked_through(house: House) -> None:
    """Kafka looks every ten minutes, the first time ten minutes after it opened the log; till then a retry is one."""
    house.append(batch(producer=7, sequence=0, timestamp=5))
    house.partition.upkeep(NOW + 599_999)
    assert house.append(batch(producer=7, sequence=0, timestamp=5)).base == 0
    assert house.partition.offsets.end == 1
    house.partition.upkeep(NOW + 600_000)
    assert house.partition.describe_producers() == []


def test_the_folder_of_another_topic_is_not_taken_over(house: House) -> None:
    house.partition.close(clean=True)
    with pytest.raises(InconsistentTopicId):
        Partition.open(TP, TopicId(bytes(16)[:-1] + b"\1"), house.folder, house.disk, house.settings, now_ms=NOW)


def test_upkeep_rolls_a_segment_that_is_old(tmp_path: Path) -> None:
    house = House(tmp_path, settings=PartitionSettings(log=LogSettings(segment_ms=1000)))
    house.append(batch())
    house.partition.upkeep(NOW + 1001)
    assert [base for base, _ in house.partition.segment_starts()] == [0, 1]


def test_a_partition_that_went_offline_can_be_read_but_not_written_and_does_not_close_cleanly(house: House) -> None:
    house.append(batch())
    house.partition.go_offline("the disk is gone")
    with pytest.raises(StorageFailed, match="the disk is gone"):
        house.partition.check_online()
    with pytest.raises(StorageFailed):
        house.append(batch())
    assert house.bases() == [0]
    with pytest.raises(StorageFailed):
        house.partition.close(clean=True)
    house.open()
    assert house.append(batch()).base == 1


# --- fsync --------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path: Path) -> House:
    return House(tmp_path, settings=PartitionSettings(hold_high_until_synced=True))


def sync(house: House) -> None:
    job = house.partition.unsynced()
    assert job is not None
    job.run()
    house.partition.synced(job.upto)


def test_nobody_reads_what_the_disk_may_lose(held: House) -> None:
    held.append(batch(b"a", b"b"))
    assert held.all_four == (0, 0, 0, 2)
    assert held.read(0).records is None
    assert held.read(2).records is None
    sync(held)
    assert held.all_four == (0, 2, 2, 2)
    assert held.bases() == [0]
    assert held.partition.unsynced() is None


def test_a_sync_covers_what_was_written_before_it_began(held: House) -> None:
    held.append(batch())
    job = held.partition.unsynced()
    assert job is not None
    held.append(batch())
    job.run()
    held.partition.synced(job.upto)
    assert held.all_four == (0, 1, 1, 2)
    assert held.partition.synced_to == 1
    sync(held)
    assert held.all_four == (0, 2, 2, 2)


def test_a_marker_that_is_not_synced_does_not_release_its_transaction(held: House) -> None:
    held.append(batch(producer=7, sequence=0, transactional=True))
    sync(held)
    held.end(7)
    assert held.all_four == (0, 0, 1, 2)
    sync(held)
    assert held.all_four == (0, 2, 2, 2)


def test_records_that_were_not_synced_cannot_be_deleted(held: House) -> None:
    held.append(batch())
    with pytest.raises(OffsetOutOfRange):
        delete_records(held.partition, 1)


def test_what_a_kill_left_unsynced_is_synced_before_it_is_shown(held: House) -> None:
    held.append(batch())
    partition = held.kill()
    assert held.all_four == (0, 1, 1, 1)
    assert partition.synced_to == 1
