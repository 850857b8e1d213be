"""A batch is seen through its header, and only whole ones are seen."""

from __future__ import annotations

import pytest

from broker_lite.errors import CorruptMessage
from broker_lite.records.batch import HEADER_SIZE, Batch, walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of

HELLO_WORLD = bytes.fromhex(
    "0000000000000000 00000049 FFFFFFFF 02 DBDA21C9 0000"
    "00000001 0000018F125C7400 0000018F125C7400"
    "FFFFFFFFFFFFFFFF FFFF FFFFFFFF 00000002"
    "16 00 00 00 01 0A 68656C6C6F 00"
    "16 00 00 02 01 0A 776F726C64 00"
)


def batch(*values: bytes, sequence: int = -1, base: int = 0) -> bytes:
    records = [NewRecord(None, value) for value in values]
    return build_batch(records, timestamp=5, base_sequence=sequence, base_offset=base)


def test_the_published_example_reads_as_two_greetings() -> None:
    seen = Batch.at(HELLO_WORLD)
    assert seen.crc_ok()
    assert (seen.size, seen.magic, seen.count, seen.last_offset_delta) == (85, 2, 2, 1)
    assert (seen.base_timestamp, seen.max_timestamp) == (1714000000000, 1714000000000)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records_of(seen)] == [
        (0, 1714000000000, None, b"hello"),
        (1, 1714000000000, None, b"world"),
    ]


def test_the_published_example_is_what_we_would_write() -> None:
    built = build_batch([NewRecord(None, b"hello"), NewRecord(None, b"world")], timestamp=1714000000000)
    assert built == HELLO_WORLD


def test_every_flipped_bit_under_the_checksum_is_noticed() -> None:
    for at in range(21, len(HELLO_WORLD)):
        broken = bytearray(HELLO_WORLD)
        broken[at] ^= 1
        assert not Batch.at(broken).crc_ok()


def test_offset_and_leader_epoch_lie_outside_the_checksum() -> None:
    stamped = bytearray(HELLO_WORLD)
    stamped[0:8] = (41).to_bytes(8, "big")
    stamped[12:16] = (7).to_bytes(4, "big")
    seen = Batch.at(stamped)
    assert seen.crc_ok()
    assert (seen.base_offset, seen.last_offset, seen.next_offset, seen.leader_epoch) == (41, 42, 43, 7)


def test_batches_follow_one_another_without_a_copy() -> None:
    buf = bytearray(batch(b"a") + batch(b"b", b"c", base=1))
    first, second = walk(buf)
    assert (first.base_offset, second.base_offset, second.next_offset) == (0, 1, 3)
    buf[first.size + 7] = 9
    assert Batch(second.buf).base_offset == 9


def test_a_batch_whose_end_is_missing_is_not_seen() -> None:
    whole, cut = batch(b"a"), batch(b"b", base=1)
    for kept in range(len(cut)):
        assert [seen.base_offset for seen in walk(whole + cut[:kept])] == [0]


@pytest.mark.parametrize("length", [-1, 0, 13, 14, HEADER_SIZE - 12 - 1])
def test_a_length_that_no_batch_can_have_is_refused(length: int) -> None:
    broken = bytearray(HELLO_WORLD)
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptMessage):
        Batch.at(broken)
    with pytest.raises(CorruptMessage):
        list(walk(broken))


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_another_magic_is_refused(magic: int) -> None:
    broken = bytearray(HELLO_WORLD)
    broken[16] = magic
    with pytest.raises(CorruptMessage):
        Batch.at(broken)


def test_a_batch_that_is_cut_cannot_be_looked_at() -> None:
    for kept in (0, 11, 16, 60, 84):
        with pytest.raises(CorruptMessage):
            Batch.at(HELLO_WORLD[:kept])


def test_sequences_wrap_inside_a_batch() -> None:
    five = (b"1", b"2", b"3", b"4", b"5")
    assert Batch.at(batch(*five, sequence=2**31 - 2)).last_sequence == 2
    assert Batch.at(batch(*five, sequence=10)).last_sequence == 14
    assert Batch.at(batch(*five)).last_sequence == -1
