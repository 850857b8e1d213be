"""What is old or too much goes, from the oldest segment on, and nothing else."""

from __future__ import annotations

from pathlib import Path

from broker_lite.ids import Offset
from broker_lite.log.log import Log
from broker_lite.log.retention import drop_expired, new_start, roll_if_old
from broker_lite.log.settings import Cleanup
from tests.log.building import NOW, append, open_log, read_all, read_bytes

HOUR = 3_600_000


def aged(path: Path, *ages_h: int, retention_ms: int = -1, retention_bytes: int = -1, delay_ms: int = 0) -> Log:
    """One segment for each age in hours, the last one active."""
    cleanup = Cleanup(retention_ms=retention_ms, retention_bytes=retention_bytes, file_delete_delay_ms=delay_ms)
    log = open_log(path / "t-0", cleanup=cleanup)
    for number, age in enumerate(ages_h):
        if number:
            log.roll(NOW)
        append(log, b"%d hours old" % age, timestamp=NOW - age * HOUR)
    return log


def look(log: Log, *, high: int | None = None, now_ms: int = NOW, at_most: int = 100) -> Offset | None:
    return new_start(log, high=log.end if high is None else Offset(high), now_ms=now_ms, at_most=at_most)


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = aged(tmp_path, 5, 4, 1, 0, retention_ms=3 * HOUR)
    assert look(log) == 2
    assert look(log, now_ms=NOW - HOUR) == 1
    assert look(log, now_ms=NOW - 3 * HOUR) is None


def test_a_record_exactly_as_old_as_allowed_is_kept(tmp_path: Path) -> None:
    log = aged(tmp_path, 3, 0, retention_ms=3 * HOUR)
    assert look(log) is None
    assert look(log, now_ms=NOW + 1) == 1


def test_a_record_from_the_future_keeps_its_segment_and_all_that_follow(tmp_path: Path) -> None:
    log = aged(tmp_path, -1000, 5, 5, 0, retention_ms=3 * HOUR)
    assert look(log) is None
    log = aged(tmp_path / "later", 5, -1000, 5, 0, retention_ms=3 * HOUR)
    assert look(log) == 1


def test_a_clock_that_is_set_back_deletes_nothing(tmp_path: Path) -> None:
    log = aged(tmp_path, 5, 4, 1, 0, retention_ms=3 * HOUR)
    assert look(log, now_ms=0) is None


def test_nothing_goes_that_readers_could_not_see_yet(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 9, retention_ms=HOUR)
    assert look(log, high=0) is None
    assert look(log, high=2) == 2


def test_the_active_segment_is_sealed_before_it_goes(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 8, 7, retention_ms=HOUR)
    start = look(log)
    assert start == log.end == 3
    drop_expired(log, start, NOW)
    log.truncate_start(start)
    assert (log.start, log.end, log.size_bytes) == (3, 3, 0)
    assert append(log, b"next") == 3
    assert look(log) is None


def test_an_empty_log_is_left_alone(tmp_path: Path) -> None:
    assert look(open_log(tmp_path / "t-0", cleanup=Cleanup(retention_ms=0, retention_bytes=0))) is None


def test_by_size_the_oldest_go_as_long_as_enough_is_left(tmp_path: Path) -> None:
    one = aged(tmp_path / "one", 0).size_bytes
    limits = [0, 1, one, 2 * one - 1, 2 * one, 3 * one, 3 * one + 1, 4 * one + 1]
    starts = [look(aged(tmp_path / str(limit), 0, 0, 0, 0, retention_bytes=limit)) for limit in limits]
    assert starts == [4, 3, 3, 2, 2, 1, None, None]


def test_only_so_many_at_a_time(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 9, 9, retention_ms=HOUR)
    assert look(log, at_most=2) == 2


def test_a_compacted_log_is_not_deleted_by_age_unless_both_are_asked_for(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 0, retention_ms=HOUR)
    log.settings.cleanup.delete, log.settings.cleanup.compact = False, True
    assert look(log) is None
    log.settings.cleanup.delete = True
    assert look(log) == 2


def test_a_deleted_file_stays_for_a_while_under_another_name(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 0, retention_ms=HOUR, delay_ms=60_000)
    log.truncate_start(Offset(2))
    folder = tmp_path / "t-0"
    names = {path.name for path in folder.iterdir()}
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.log" not in names
    assert log.segments[0].base == 2
    for seconds in (100.0, 159.9):
        log.head.graveyard.sweep(seconds, delay_ms=60_000, at_most=100)
        assert list(folder.glob("*.deleted"))
    log.head.graveyard.sweep(160.0, delay_ms=60_000, at_most=100)
    assert not list(folder.glob("*.deleted"))


def test_a_reader_of_a_deleted_segment_finishes(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 0, retention_ms=HOUR, delay_ms=60_000)
    slow = log.read(Offset(0), max_bytes=1 << 20, end=log.end)
    assert slow is not None
    expected = read_bytes(log, 0)
    log.truncate_start(Offset(2))
    log.head.graveyard.sweep(0.0, delay_ms=0, at_most=100)
    assert slow.read_all() == expected
    slow.release()


def test_what_a_crash_left_of_a_deletion_is_gone_at_the_next_start(tmp_path: Path) -> None:
    log = aged(tmp_path, 9, 9, 0, retention_ms=HOUR, delay_ms=60_000)
    log.truncate_start(Offset(2))
    expected = read_all(log)
    log.close(clean=False)
    log = open_log(tmp_path / "t-0")
    assert not list((tmp_path / "t-0").glob("*.deleted"))
    assert (log.start, read_all(log)) == (2, expected)


def test_segments_of_one_age_do_not_roll_together_where_jitter_is_asked_for(tmp_path: Path) -> None:
    rolled = set()
    for number in range(20):
        log = open_log(tmp_path / f"t-{number}", segment_ms=1000, segment_jitter_ms=500)
        append(log)
        rolled.add(next(age for age in range(0, 2000, 10) if roll_if_old(log, NOW + age)))
    assert len(rolled) > 5
    assert min(rolled) > 500
    assert max(rolled) <= 1010
