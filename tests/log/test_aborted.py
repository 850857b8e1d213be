from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.ids import Offset
from broker_lite.log.aborted import AbortedIndex, AbortedTxn
from broker_lite.log.disk import RealDisk
from tests.log.building import fill, open_log

A = AbortedTxn(1, 0, 10, 5)
B = AbortedTxn(2, 5, 20, 12)
C = AbortedTxn(1, 12, 30, 31)


def index(path: Path) -> AbortedIndex:
    made = AbortedIndex(RealDisk(), path, lambda offset: offset // 25 * 25)
    made.load([int(file.name[:20]) for file in path.glob("*.txnindex")])
    return made


@pytest.fixture
def aborted(tmp_path: Path) -> AbortedIndex:
    made = index(tmp_path)
    for entry in (A, B, C):
        made.add(entry)
    return made


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 1, [A]), (0, 6, [A, B]), (10, 12, [A, B]), (11, 12, [B]), (11, 13, [B, C]), (21, 40, [C]), (31, 50, [])],
)
def test_transactions_that_touch_a_range_are_found(
    aborted: AbortedIndex, start: int, end: int, found: list[AbortedTxn]
) -> None:
    assert aborted.overlapping(start, end) == found


def test_each_entry_lies_beside_the_segment_of_its_marker(aborted: AbortedIndex, tmp_path: Path) -> None:
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert sizes == {"00000000000000000000.txnindex": 68, "00000000000000000025.txnindex": 34}
    assert index(tmp_path).entries == [A, B, C]


def test_replaying_markers_changes_nothing_and_fills_gaps(aborted: AbortedIndex, tmp_path: Path) -> None:
    for entry in (A, B, C):
        aborted.add(entry)
    assert index(tmp_path).entries == [A, B, C]
    (tmp_path / "00000000000000000000.txnindex").unlink()
    again = index(tmp_path)
    for entry in (A, B, C):
        again.add(entry)
    assert again.entries == index(tmp_path).entries == [A, B, C]


def test_markers_that_are_cut_off_take_their_entries_along(aborted: AbortedIndex, tmp_path: Path) -> None:
    aborted.truncate_end(20)
    assert aborted.entries == index(tmp_path).entries == [A]
    assert [file.name for file in tmp_path.iterdir()] == ["00000000000000000000.txnindex"]


def test_a_file_that_cannot_be_read_is_reported(aborted: AbortedIndex, tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000025.txnindex"
    file.write_bytes(file.read_bytes()[:-1])
    again = index(tmp_path)
    assert (again.entries, again.unreadable_from) == ([A, B], 25)


def test_a_log_keeps_them_until_their_segment_is_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_bytes=300)
    fill(log, 10)
    log.aborted.add(AbortedTxn(1, 0, 1, 0))
    fill(log, 10)
    log.aborted.add(AbortedTxn(1, log.end - 2, log.end - 1, log.end - 2))
    kept = log.aborted.entries[1]
    log.close(clean=True)
    log = open_log(tmp_path / "t-0", segment_bytes=300, clean=True)
    assert len(log.aborted.entries) == 2
    log.truncate_start(Offset(log.end - 1))
    assert log.aborted.entries == [kept]
    assert len(list((tmp_path / "t-0").glob("*.txnindex"))) == 1


def test_after_compaction_and_cuts_the_places_are_those_of_what_is_left(aborted: AbortedIndex) -> None:
    moved = AbortedTxn(2, 6, 20, 12)
    aborted.replace(11, 25, [moved])
    assert aborted.overlapping(11, 13) == [moved, C]
    aborted.truncate_start(20)
    assert aborted.overlapping(0, 100) == [moved, C]
    aborted.truncate_end(30)
    assert aborted.overlapping(0, 100) == [moved]
