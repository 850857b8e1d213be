"""The file beside a snapshot: what was written is read, and anything else is a ValueError."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.partition.producers import Producer, Producers, Remembered
from broker_lite.partition.snapshots import format_batches, parse_batches
from broker_lite.records.batch import checksum

FIVE = [Remembered(at, 100 + at, 0, 5000 + at) for at in range(5)]


def table() -> Producers:
    producers = Producers()
    for producer_id in (7, 8):
        known = Producer(epoch=3)
        known.batches.extend(FIVE[producer_id - 7 :])
        producers.add(producer_id, known)
    producers.add(9, Producer(epoch=0))
    return producers


def sealed(body: bytes) -> bytes:
    return struct.pack(">hI", 0, checksum(body)) + body


def test_all_five_come_back() -> None:
    assert parse_batches(format_batches(table())) == {(7, 3): FIVE, (8, 3): FIVE[1:], (9, 0): []}


def test_every_cut_and_every_flipped_bit_is_noticed() -> None:
    whole = format_batches(table())
    for at in range(len(whole)):
        with pytest.raises(ValueError):
            parse_batches(whole[:at])
        broken = bytearray(whole)
        broken[at] ^= 1
        with pytest.raises(ValueError):
            parse_batches(bytes(broken))


@pytest.mark.parametrize("count", [-1, 1, 127])
def test_a_count_that_does_not_fit_is_refused_even_with_a_good_checksum(count: int) -> None:
    with pytest.raises(ValueError):
        parse_batches(sealed(struct.pack(">qhb", 7, 0, count)))


@given(st.binary(max_size=100))
def test_any_bytes_end_in_a_table_or_a_value_error(body: bytes) -> None:
    try:
        found = parse_batches(sealed(body))
    except ValueError:
        return
    assert isinstance(found, dict)
