"""The outer walk agrees with one that takes every step, however long the records are."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_lite.errors import InvalidRecord
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.outline import step_over_records
from broker_lite.records.record import read_varint


def every_step(payload: bytes, count: int) -> bool:
    pos = seen = 0
    try:
        while pos < len(payload):
            length, pos = read_varint(payload, pos)
            if length < 0:
                return False
            pos += length
            seen += 1
    except InvalidRecord:
        return False
    return pos == len(payload) and seen == count


def walks(batch: Batch) -> bool:
    try:
        step_over_records(batch)
    except InvalidRecord:
        return False
    return True


def with_payload(payload: bytes, count: int) -> Batch:
    head = bytearray(build_batch([], timestamp=0))
    head[8:12] = struct.pack(">i", 49 + len(payload))
    head[57:61] = struct.pack(">i", count)
    return Batch(memoryview(bytes(head) + payload))


sizes = st.lists(
    st.one_of(st.sampled_from([0, 1, 57, 58, 200]), st.integers(0, 300)).flatmap(
        lambda size: st.integers(1, 40).map(lambda times: [size] * times)
    ),
    max_size=12,
).map(lambda runs: [size for run in runs for size in run])


@settings(max_examples=200, deadline=None)
@given(sizes=sizes, off_by=st.sampled_from([0, 0, 0, -1, 1]), cut=st.sampled_from([0, 0, 0, 1, 7]))
def test_the_walk_agrees_with_every_single_step(sizes: list[int], off_by: int, cut: int) -> None:
    whole = build_batch([NewRecord(None, bytes(size)) for size in sizes], timestamp=0)
    payload = whole[61 : len(whole) - cut] if cut else whole[61:]
    count = len(sizes) + off_by
    assert walks(with_payload(payload, count)) == every_step(payload, count)


@settings(max_examples=300, deadline=None)
@given(payload=st.binary(max_size=60) | st.lists(st.sampled_from([0, 1, 2, 4, 0x80, 0x82, 0xFF])).map(bytes))
def test_the_walk_agrees_on_bytes_that_nobody_meant(payload: bytes) -> None:
    for count in range(len(payload) + 2):
        assert walks(with_payload(payload, count)) == every_step(payload, count)


@pytest.mark.parametrize("size", [0, 10, 57, 58, 8000, 8185, 8186, 20_000])
def test_long_runs_of_one_size_are_walked_whole(size: int) -> None:
    whole = build_batch([NewRecord(b"k", bytes(size))] * 300, timestamp=0)
    assert walks(with_payload(whole[61:], 300))
    assert not walks(with_payload(whole[61:], 299))
