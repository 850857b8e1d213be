"""What a log promises to those who append and read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker_lite.errors import OffsetOutOfRange, RecordListTooLarge, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.disk import Disk, MemoryDisk, RealDisk, RealFile
from broker_lite.log.log import Log, LogSettings
from broker_lite.log.retention import roll_if_old
from broker_lite.records.batch import walk
from tests.log.building import NOW, append, bases, batch, fill, open_log, read_all, read_bytes


@pytest.fixture(params=[RealDisk, MemoryDisk], ids=["files", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    made: Disk = request.param()
    return made


@pytest.fixture
def log(tmp_path: Path, disk: Disk) -> Log:
    return open_log(tmp_path / "t-0", disk)


def test_a_new_log_is_empty(log: Log) -> None:
    assert (log.start, log.end, log.size_bytes) == (0, 0, 0)
    assert log.read(Offset(0), max_bytes=100, end=Offset(0)) is None


def test_a_batch_is_stored_as_it_came_but_for_offset_and_leader_epoch(log: Log) -> None:
    append(log, b"first")
    sent = batch(b"a", b"b")
    log.append(sent, base=Offset(1), leader_epoch=7, now_ms=NOW)
    [stored] = walk(read_bytes(log, 1))
    assert (stored.base_offset, stored.leader_epoch, stored.last_offset) == (1, 7, 2)
    assert bytes(stored.buf[16:]) == bytes(sent.buf[16:])
    assert stored.crc_ok()


def test_everything_appended_is_read_in_order(log: Log) -> None:
    fill(log, 50)
    read = [one.next_offset for one in walk(read_all(log))]
    assert len(read) == 50
    assert read == sorted(read)
    assert read[-1] == log.end


@pytest.mark.parametrize("max_bytes", [1, 70, 100, 333, 1000, 1 << 20])
def test_reads_are_whole_batches_within_the_limit_but_one_in_any_case(tmp_path: Path, max_bytes: int) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=2000)
    fill(log, 60)
    for offset in range(log.end):
        data = read_bytes(log, offset, max_bytes=max_bytes)
        found = list(walk(data))
        assert sum(one.size for one in found) == len(data)
        assert found[0].base_offset <= offset <= found[0].last_offset
        assert len(data) <= max_bytes or len(found) == 1


def test_a_read_that_may_be_empty_is_empty_when_the_first_batch_is_too_large(log: Log) -> None:
    fill(log, 3)
    assert log.read(Offset(0), max_bytes=10, end=log.end, at_least_one=False) is None


def test_a_read_ends_before_the_first_batch_at_or_after_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=2000)
    fill(log, 40)
    starts = bases(read_all(log))
    for end in starts[1:]:
        seen: list[int] = []
        while (offset := seen[-1] + 1 if seen else 0) < end and (data := read_bytes(log, offset, end=end)):
            seen += [one.last_offset for one in walk(data)]
        assert seen[-1] == end - 1
    assert log.read(Offset(5), max_bytes=100, end=Offset(5)) is None


def test_offsets_outside_the_log_are_out_of_range(log: Log) -> None:
    fill(log, 3)
    log.truncate_start(Offset(2))
    for offset in (0, 1, log.end + 1):
        with pytest.raises(OffsetOutOfRange, match=r"\[2, 6\]"):
            log.read(Offset(offset), max_bytes=100, end=log.end)
    assert log.read(log.end, max_bytes=100, end=log.end) is None


def test_a_segment_that_would_grow_too_large_is_rolled(log: Log) -> None:
    log.settings = LogSettings(segment_bytes=200)
    for _ in range(5):
        append(log, b"x" * 50)
    assert [segment.base for segment in log.segments] == [0, 1, 2, 3, 4]
    with pytest.raises(RecordListTooLarge, match="a segment of this topic 200"):
        append(log, b"x" * 200)


def test_a_segment_is_rolled_when_records_are_segment_ms_younger_than_its_first(log: Log) -> None:
    log.settings = LogSettings(segment_ms=1000)
    for later in (0, 500, 1000, 1001, 1500, 2002):
        append(log, timestamp=NOW + later)
    assert [segment.base for segment in log.segments] == [0, 3, 5]


def test_upkeep_rolls_an_old_segment_but_never_an_empty_one(log: Log) -> None:
    append(log)
    assert not roll_if_old(log, NOW + 1000)
    assert roll_if_old(log, NOW + 8 * 86_400_000)
    assert not roll_if_old(log, NOW + 80 * 86_400_000)
    assert [segment.base for segment in log.segments] == [0, 1]


def test_a_segment_is_rolled_when_its_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", index_max_bytes=48, index_interval_bytes=0)
    fill(log, 20)
    assert len(log.segments) > 2
    assert len(list(walk(read_all(log)))) == 20


def test_a_segment_is_rolled_before_an_offset_would_not_fit_its_index(log: Log) -> None:
    append(log)
    log.append(batch(), base=Offset(2**31 - 1), leader_epoch=0, now_ms=NOW)
    log.append(batch(), base=Offset(2**31), leader_epoch=0, now_ms=NOW)
    assert [segment.base for segment in log.segments] == [0, 2**31]


def test_whoever_wants_to_know_is_told_before_a_roll(log: Log) -> None:
    told: list[int] = []
    log.on_roll = told.append
    append(log)
    log.roll(NOW)
    log.roll(NOW)
    assert told == [1]


def test_a_gap_left_by_compaction_is_stepped_over(log: Log) -> None:
    append(log)
    log.append(batch(b"x"), base=Offset(100), leader_epoch=0, now_ms=NOW)
    assert bases(read_bytes(log, 50)) == [100]


def test_deleting_records_drops_whole_segments_and_keeps_the_batch_that_holds_the_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=300)
    fill(log, 20)
    second = log.segments[2]
    log.truncate_start(Offset(second.base + 1))
    assert log.start == second.base + 1
    assert log.segments[0] is second
    assert bases(read_bytes(log, log.start))[0] <= log.start
    assert min(int(file.name[:20]) for file in (tmp_path / "t-0").glob("*.log")) == second.base


def test_a_slice_outlives_the_segment_it_was_cut_from(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=300)
    fill(log, 20)
    piece = log.read(Offset(0), max_bytes=1000, end=log.end)
    assert piece is not None
    expected = piece.read_all()
    log.truncate_start(log.end)
    log.close(clean=True)
    assert piece.read(0, 10) + piece.read(10, 10_000) == expected
    piece.release()


def test_batches_can_be_walked_from_any_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=700)
    fill(log, 30)
    everything = list(log.batches(Offset(0)))
    assert [one.base_offset for one in everything] == bases(read_all(log))
    for offset in range(log.end):
        walked = [one.base_offset for one in log.batches(Offset(offset))]
        assert walked == [one.base_offset for one in everything if one.last_offset >= offset]


def test_a_time_is_found_in_the_first_batch_that_reached_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=700)
    times = [5, 3, 9, 9, 1, 12, 12, 4, 20, 19, 30, 2, 31, 33, 33, 40, 7, 41, 50, 49]
    for later in times:
        append(log, b"some value", timestamp=NOW + later)
    for wanted in range(52):
        found = next(log.find_time(NOW + wanted), None)
        expected = next((offset for offset, later in enumerate(times) if later >= wanted), None)
        assert (found.base_offset if found else None) == expected
    assert log.max_timestamp() == (NOW + 50, 18)


def test_the_highest_timestamp_of_an_empty_log_is_none(log: Log) -> None:
    assert log.max_timestamp() is None
    assert next(log.find_time(0), None) is None


def test_few_descriptors_are_enough_for_many_logs(tmp_path: Path) -> None:
    disk = RealDisk(max_open=8)
    logs = [open_log(tmp_path / f"t-{number}", disk) for number in range(40)]
    for _ in range(3):
        for log in logs:
            append(log)
    assert disk.open_files <= 8
    pieces = [log.read(Offset(0), max_bytes=1000, end=log.end) for log in logs]
    assert disk.open_files <= 8
    assert {bytes(piece.read_all()) for piece in pieces if piece} == {read_bytes(logs[0], 0)}
    for piece in pieces:
        assert piece is not None
        piece.release()


def test_a_flush_moves_the_recovery_point_to_the_end(log: Log) -> None:
    fill(log, 5)
    log.roll(NOW)
    fill(log, 5)
    job = log.unflushed()
    assert job is not None
    fill(log, 1)
    job.run()
    log.flushed(job.upto)
    assert log.recovery_point == job.upto == log.end - 1
    log.flush()
    assert log.recovery_point == log.end
    assert log.unflushed() is None


def test_sealed_segments_are_flushed_a_few_at_a_time(log: Log) -> None:
    for _ in range(40):
        fill(log, 2)
        log.roll(NOW)
    fill(log, 1)
    points = []
    while (job := log.unflushed(sealed=True)) is not None:
        job.run()
        log.flushed(job.upto)
        points.append(log.recovery_point)
    bases = [segment.base for segment in log.segments]
    assert len(points) == 3
    assert set(points) < set(bases)
    assert points[-1] == bases[-1] < log.end
    log.flush()
    assert log.recovery_point == log.end


def test_a_sync_that_fails_among_many_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(20):
        fill(log, 1)
        log.roll(NOW)
    real = RealDisk.sync_path

    def sync(disk: RealDisk, path: Path) -> None:
        if path.name == "00000000000000000007.timeindex":
            raise OSError(errno.EIO, "the disk is gone", str(path))
        real(disk, path)

    monkeypatch.setattr(RealDisk, "sync_path", sync)
    with pytest.raises(StorageFailed, match="the disk is gone"):
        log.flush()
    assert log.offline
    assert log.recovery_point == 0


def test_whoever_reads_much_finds_the_next_stretch_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: list[tuple[int, int]] = []
    monkeypatch.setattr(RealFile, "expect", lambda file, position, count: expected.append((position, count)))
    log = open_log(tmp_path / "t-0")
    for _ in range(40):
        append(log, bytes(100_000))
    size = log.size_bytes // 40
    read_bytes(log, 0, max_bytes=3 * size)
    assert expected == [(3 * size, 1 << 20)]
    read_bytes(log, 0, max_bytes=size)
    read_bytes(log, 35, max_bytes=3 * size)
    assert len(expected) == 1, "a small read, or one near the end, is no sign of more"
