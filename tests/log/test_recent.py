"""Positions of the last batches are known exactly, and of no other offset."""

from __future__ import annotations

from pathlib import Path

from broker_lite.ids import Offset
from broker_lite.log.recent import MOST
from tests.log.building import append, open_log


def test_a_read_at_any_recent_batch_begins_with_it_and_ends_with_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    starts = {}
    for number in range(3 * MOST):
        position = log.size_bytes
        starts[append(log, *[b"x"] * (1 + number % 3))] = position
    for offset, position in list(starts.items())[-MOST // 2 :]:
        found = log.read(offset, max_bytes=1 << 30, end=log.end)
        assert found is not None
        assert (found.position, len(found)) == (position, log.size_bytes - position)


def test_an_offset_inside_a_recent_batch_is_not_taken_for_its_beginning(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    append(log, b"e")
    first = log.read(Offset(1), max_bytes=1 << 30, end=log.end)
    inside = log.read(Offset(2), max_bytes=1 << 30, end=log.end)
    assert first is not None
    assert inside is not None
    assert (inside.position, len(inside)) == (first.position, len(first))


def test_what_was_recent_in_a_sealed_segment_is_found_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    last = append(log, b"b")
    sealed = log.segments[-1]
    log.roll(0)
    append(log, b"c")
    found = log.read(last, max_bytes=1 << 30, end=log.end)
    assert found is not None
    assert found.position + len(found) == sealed.size
