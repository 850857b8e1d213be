"""Batches of our own: the short way for coordinators writes what the long one does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch, build_lines

NOW = 1_700_000_000_000


@dataclass
class Line:
    key: bytes
    value: bytes | None


LINES = st.lists(st.builds(Line, st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=70)


def the_long_way(lines: list[Line]) -> bytes:
    return build_batch([NewRecord(line.key, line.value) for line in lines], timestamp=NOW)


@given(LINES)
def test_lines_are_a_batch_like_any_other(lines: list[Line]) -> None:
    assert build_lines(lines, timestamp=NOW) == the_long_way(lines)


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 100_000])
def test_lines_may_be_long(size: int) -> None:
    lines = [Line(b"k" * size, b"v" * size)]
    assert build_lines(lines, timestamp=NOW) == the_long_way(lines)


def test_lines_of_a_producer_are_part_of_its_transaction() -> None:
    batch = build_lines([Line(b"k", b"v"), Line(b"k", None)], timestamp=NOW, producer_id=7, producer_epoch=2)
    assert batch == build_batch(
        [NewRecord(b"k", b"v"), NewRecord(b"k", None)],
        timestamp=NOW,
        producer_id=7,
        producer_epoch=2,
        base_sequence=0,
        transactional=True,
    )
    assert Batch.at(batch).crc_ok()
