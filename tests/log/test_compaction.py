"""Compaction keeps what it must, drops what it may, and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.errors import CorruptMessage
from broker_lite.ids import Offset
from broker_lite.log.disk import RealDisk
from broker_lite.log.memory_disk import MemoryDisk
from broker_lite.log.settings import DAY_MS
from broker_lite.records.compression import Codec
from tests.log.compacting import NOW, Kept

HOUR = 3_600_000


def test_the_last_value_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(10):
        kept.put((b"a", b"%d" % number), (b"b", b"%d" % number), (b"c%d" % number, b"once"))
    end = kept.partition.offsets.end
    facts = kept.compact()
    assert facts is not None
    assert [(one.offset, one.key, one.value) for one in kept.records()] == [
        *((3 * number + 2, b"c%d" % number, b"once") for number in range(9)),
        (27, b"a", b"9"),
        (28, b"b", b"9"),
        (29, b"c9", b"once"),
    ]
    assert (facts["read"], facts["kept"], facts["keys"]) == (30, 12, 12)
    assert kept.partition.offsets.end == end
    assert kept.put((b"a", b"next")) == end


def test_nothing_of_the_active_segment_is_touched(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"))
    kept.put((b"a", b"2"))
    assert kept.compact(roll=False) is None
    kept.roll()
    kept.put((b"a", b"3"))
    kept.put((b"a", b"4"))
    assert kept.compact(roll=False) is not None
    assert [one.value for one in kept.records()] == [b"2", b"3", b"4"]


def test_nothing_that_was_not_synced_is_touched(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"))
    kept.roll()
    assert kept.plan(flush=False) is None
    assert kept.plan(flush=True) is not None


def test_nothing_from_an_open_transaction_on_is_touched(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"))
    kept.put((b"a", b"2"))
    kept.roll()
    kept.put((b"a", b"open"), producer=1, transactional=True)
    kept.roll()
    kept.put((b"a", b"3"))
    kept.compact()
    assert [one.value for one in kept.records()] == [b"2", b"open", b"3"]
    kept.end(1, commit=True)
    kept.compact()
    assert [one.value for one in kept.records()] == [b"3"]


def test_what_is_younger_than_the_lag_is_left_alone(tmp_path: Path) -> None:
    kept = Kept(tmp_path, min_lag_ms=HOUR)
    kept.put((b"a", b"old"), timestamp=NOW - 2 * HOUR)
    kept.put((b"a", b"old too"), timestamp=NOW - 2 * HOUR)
    kept.roll()
    kept.put((b"a", b"young"), timestamp=NOW)
    kept.compact()
    assert [one.value for one in kept.records()] == [b"old too", b"young"]
    assert kept.compact(now_ms=NOW + HOUR - 1) is None
    kept.compact(now_ms=NOW + HOUR)
    assert [one.value for one in kept.records()] == [b"young"]


def test_a_log_that_is_mostly_clean_waits_until_it_is_dirty_or_overdue(tmp_path: Path) -> None:
    kept = Kept(tmp_path, min_dirty_ratio=0.5, max_lag_ms=HOUR)
    for number in range(10):
        kept.put((b"%d" % number, b"x"))
    assert kept.compact() is not None
    kept.put((b"0", b"y"))
    assert kept.compact() is None
    chosen = kept.plan(now_ms=NOW + HOUR + 1)
    assert chosen is not None
    assert chosen.overdue
    for number in range(20):
        kept.put((b"%d" % number, b"z"))
    assert kept.compact() is not None


def test_a_tombstone_can_be_read_for_a_day_after_the_round_that_met_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"), (b"b", b"1"))
    gone = kept.put((b"a", None))
    kept.compact()
    assert [(one.offset, one.key, one.value, one.timestamp) for one in kept.records()] == [
        (1, b"b", b"1", NOW + 1),
        (gone, b"a", None, NOW),
    ]
    (stamped,) = [one for one in kept.batches() if one.has_delete_horizon]
    assert stamped.base_timestamp == NOW + DAY_MS
    assert stamped.max_timestamp == NOW
    kept.put((b"c", b"1"))
    kept.compact(now_ms=NOW + DAY_MS - 1)
    assert [one.key for one in kept.records()] == [b"b", b"a", b"c"]
    kept.put((b"d", b"1"))
    kept.compact(now_ms=NOW + DAY_MS)
    assert [one.key for one in kept.records()] == [b"b", b"c", b"d"]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((None, b"x"), (b"a", b"1"), (None, b"y"))
    kept.put((b"b", b"2"))
    kept.compact()
    assert [one.key for one in kept.records()] == [b"a", b"b"]


def test_a_batch_that_keeps_some_records_keeps_its_offsets_sequences_and_headers(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    headers = (("h", b"\xff"), ("none", None))
    kept.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), producer=7, headers=headers)
    kept.put((b"c", b"2"), (b"d", b"2"), producer=7)
    kept.compact()
    first, second = kept.batches()
    assert (first.base_offset, first.last_offset, first.count) == (0, 3, 2)
    assert (first.producer_id, first.base_sequence, first.last_sequence) == (7, 0, 3)
    assert first.crc_ok()
    assert (second.base_offset, second.count) == (4, 2)
    assert [(one.offset, one.timestamp, one.headers) for one in kept.records()][:2] == [
        (1, NOW + 1, headers),
        (2, NOW + 2, headers),
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_batch_stays_compressed(tmp_path: Path, codec: Codec) -> None:
    kept = Kept(tmp_path)
    kept.put(*((b"%d" % (number % 7), b"v" * 100) for number in range(20)), codec=codec)
    kept.put((b"3", None), (b"4", b"new"), codec=codec)
    before = kept.fold()
    kept.compact()
    assert {one.codec for one in kept.batches()} == {codec}
    assert all(one.crc_ok() for one in kept.batches())
    assert kept.fold() == before
    assert len(kept.records()) == 7


def test_the_last_batch_of_a_producer_stays_as_a_shell_and_its_sequence_survives(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for _ in range(3):
        kept.put((b"a", b"mine"), (b"b", b"mine"), producer=7)
    kept.put((b"a", b"theirs"), (b"b", b"theirs"))
    kept.compact()
    shell, _ = kept.batches()
    assert (shell.base_offset, shell.last_offset, shell.count) == (4, 5, 0)
    assert (shell.base_sequence, shell.last_sequence, shell.producer_id) == (4, 5, 7)
    assert (shell.base_timestamp, shell.max_timestamp) == (-1, NOW + 1)
    assert shell.crc_ok()
    kept.restart(kill=True, forget_snapshots=True)
    kept.put((b"a", b"again"), producer=7)
    kept.put((b"x", b"x"))
    kept.compact()
    assert [one.base_offset for one in kept.batches()] == [6, 8, 9]


def test_the_last_batch_of_a_round_stays_as_a_shell(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"))
    kept.put((None, b"nobody wants it"), (None, b"nor this"))
    kept.compact()
    assert [(one.base_offset, one.last_offset, one.count) for one in kept.batches()] == [(0, 0, 1), (1, 2, 0)]
    kept.put((b"b", b"1"))
    kept.compact()
    assert [(one.base_offset, one.count) for one in kept.batches()] == [(0, 1), (3, 1)]


def test_aborted_records_go_and_do_not_shadow_older_ones(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"committed"))
    kept.put((b"a", b"aborted"), (b"b", b"aborted"), producer=1, transactional=True)
    kept.end(1, commit=False)
    kept.put((b"c", b"1"), producer=1)
    before = kept.fold()
    kept.compact()
    assert [one.value for one in kept.records()] == [b"committed", b"1"]
    assert kept.fold() == before == {b"a": b"committed", b"c": b"1"}


def test_a_marker_stays_until_nothing_of_its_transaction_is_left_and_a_day_more(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"aborted"), producer=1, transactional=True)
    marker = kept.end(1, commit=False)
    kept.put((b"x", b"1"))

    def markers() -> list[int]:
        return [one.base_offset for one in kept.batches() if one.is_control]

    kept.compact()
    # The data is the producer's last batch, so its shell stays and with it the marker and the index entry.
    assert [one.count for one in kept.batches()] == [0, 1, 1]
    assert markers() == [marker]
    assert len(kept.partition.log.aborted.entries) == 1
    kept.put((b"y", b"1"), producer=1)
    kept.compact()
    assert kept.partition.log.aborted.entries != []
    kept.put((b"z", b"1"))
    kept.compact()
    assert kept.partition.log.aborted.entries == []
    assert not list((tmp_path / "t-0").glob("*.txnindex"))
    assert markers() == [marker]
    kept.put((b"z", b"2"))
    kept.compact(now_ms=NOW + DAY_MS - 1)
    assert markers() == [marker]
    kept.put((b"z", b"3"))
    kept.compact(now_ms=NOW + DAY_MS)
    assert markers() == []


def test_the_last_marker_of_a_fenced_producer_stays_for_good(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put((b"a", b"1"), producer=1, transactional=True)
    kept.end(1, commit=True, bump=True)
    for number in range(4):
        kept.put((b"a", b"later"))
        kept.compact(now_ms=NOW + number * DAY_MS)
    assert [one.is_control for one in kept.batches()] == [True, False]
    kept.restart(kill=True, forget_snapshots=True)
    assert kept.partition.last_records()[1].epoch == 1


def test_a_full_key_map_ends_the_round_and_the_next_goes_on(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(40):
        kept.put((b"%d" % (number % 20), b"%d" % number))
    before = kept.fold()
    rounds = 0
    while kept.compact(max_keys=7) is not None:
        rounds += 1
        assert kept.fold() == before
    assert rounds > 4
    assert [one.offset for one in kept.records()] == list(range(20, 40))


def test_small_segments_become_one_and_readers_who_hold_old_ones_finish(tmp_path: Path) -> None:
    kept = Kept(tmp_path, segment_bytes=1000)
    for number in range(60):
        kept.put((b"%d" % (number % 3), b"x" * 50))
    log = kept.partition.log
    assert len(log.segments) > 5
    slow = log.read(Offset(0), max_bytes=1 << 20, end=log.end)
    assert slow is not None
    expected = slow.read_all()
    kept.compact()
    assert slow.read_all() == expected
    slow.release()
    kept.put((b"0", b"y"))
    kept.compact()
    assert len(log.segments) == 2
    assert len(kept.records()) == 3


@pytest.mark.parametrize("kill", [True, False])
def test_a_restart_sees_the_compacted_log(tmp_path: Path, kill: bool) -> None:
    kept = Kept(tmp_path, segment_bytes=1000)
    for number in range(60):
        kept.put((b"%d" % (number % 7), b"x" * 50), producer=number % 2)
    kept.compact()
    before = [bytes(one.buf) for one in kept.batches()]
    for forget in (False, True):
        kept.restart(kill=kill, forget_snapshots=forget)
        assert kept.partition.log.recovered.damage is None
        assert [bytes(one.buf) for one in kept.batches()] == before
    assert kept.put((b"a", b"1"), producer=0) == 60


def test_damage_ends_the_round_and_nothing_was_changed(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(5):
        kept.put((b"a", b"value %d" % number))
    kept.roll()
    segment = kept.partition.log.segments[0]
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(CorruptMessage, match="another checksum"):
        kept.compact()
    assert segment.path.read_bytes() == data


def test_a_round_that_is_told_to_stop_leaves_no_trace(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(5):
        kept.put((b"a", b"value %d" % number))
    kept.roll()
    kept.partition.log.flush()
    names = set(kept.disk.list(kept.path))
    before = [bytes(one.buf) for one in kept.batches()]
    from broker_lite.log.compaction import Round

    for stop_at in range(1, 11):
        left = stop_at

        def pace() -> None:
            nonlocal left
            left -= 1
            if not left:
                raise InterruptedError

        chosen = kept.plan()
        assert chosen is not None
        work = Round(kept.partition.log, chosen, last_records={}, now_ms=NOW)
        try:
            with pytest.raises(InterruptedError):  # noqa: PT012
                assert all(work.read_keys(part, pace) for part in work.parts())
                for group in work.groups():
                    work.begin(group)
                    work.sift(group, pace)
        finally:
            work.end()
        assert set(kept.disk.list(kept.path)) == names
        assert [bytes(one.buf) for one in kept.batches()] == before


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_others_have_their_turn_within_a_large_batch_too(tmp_path: Path, codec: Codec) -> None:
    kept = Kept(tmp_path)
    kept.put(*((b"%d" % (number % 700), b"x") for number in range(1000)), codec=codec)
    turns = 0

    def watch() -> None:
        nonlocal turns
        turns += 1

    kept.compact(pace=watch)
    assert len(kept.records()) == 700
    assert turns >= 2 * 1000 / 100  # both passes read it


def test_a_round_may_end_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(*((b"a", b"%d" % number) for number in range(1000)))
    kept.roll()
    before = [bytes(one.buf) for one in kept.batches()]
    left = 5

    def stop() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        kept.compact(pace=stop)
    assert [bytes(one.buf) for one in kept.batches()] == before
    kept.compact()
    assert [one.value for one in kept.records()] == [b"999"]


def test_segments_deleted_during_a_round_go_when_it_is_over(tmp_path: Path) -> None:
    kept = Kept(tmp_path, MemoryDisk(), segment_bytes=500)
    for number in range(30):
        kept.put((b"%d" % number, b"x" * 50))
    log = kept.partition.log
    log.head.held = True
    count = len(log.segments)
    kept.partition.truncate_start(Offset(20))
    assert (log.start, len(log.segments)) == (20, count)
    log.let_go()
    assert log.segments[0].base <= 20 < log.segments[1].base


@pytest.mark.slow
def test_a_log_of_very_many_segments_needs_few_descriptors(tmp_path: Path) -> None:
    disk = RealDisk(max_open=100)
    kept = Kept(tmp_path, disk, segment_bytes=150)
    for number in range(300):
        kept.put((b"%d" % (number % 10), b"x" * 40))
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, disk.leased)

    assert len(kept.partition.log.segments) > 200
    kept.compact(pace=watch)
    assert len(kept.records()) == 10
    assert 0 < most <= 65
    assert disk.leased == 0
