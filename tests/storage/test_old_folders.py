"""Folders that an old Kafka wrote: messages of magic 0 and 1 on disk, perhaps batches behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.ids import Offset
from broker_lite.log import layout
from broker_lite.records.compression import Codec
from broker_lite.records.downconvert import down_convert
from broker_lite.records.legacy import messages_of, old_records, write_message, write_wrapper
from tests.partition.house import NOW, House, batch

GZIP = [(at, NOW + at, b"k%d" % at, b"v%d" % at) for at in range(2, 7)]


def old_segment() -> bytes:
    """Offsets 0 to 12 without 8, 10 and 11: plain and wrapped messages of both magics."""
    return b"".join(
        [
            write_message(0, b"k0", b"v0", magic=0),
            write_message(1, None, b"v1", magic=0),
            write_wrapper(GZIP[:2], magic=0, codec=Codec.SNAPPY),
            write_wrapper(GZIP[2:], magic=1, codec=Codec.GZIP),
            write_message(7, b"k7", None, magic=1, timestamp=NOW + 7),
            write_wrapper([(9, NOW + 9, b"k9", b"v9"), (12, NOW + 12, b"k12", b"v12")], magic=1, codec=Codec.LZ4),
        ]
    )


EXPECTED = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12]


@pytest.fixture
def house(tmp_path: Path) -> House:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / layout.file_name(0, layout.LOG)).write_bytes(old_segment())
    return House(tmp_path)


def offsets_read(house: House, offset: int = 0) -> list[int]:
    """All records from `offset` on, as a reader of magic 1 gets them."""
    found: list[int] = []
    while offset < house.partition.offsets.end:
        read = house.partition.read(Offset(offset), max_bytes=1 << 20, committed=False, at_least_one=True)
        if read.records is None:
            break
        data = memoryview(read.records.read_all())
        read.records.release()
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            for entry in down_convert(data[position : position + size], magic=1, from_offset=offset):
                for message in messages_of(entry):
                    found += [record.offset for record in old_records(message) if record.offset >= offset]
            position += size
        offset = found[-1] + 1
    return found


def test_an_old_folder_opens_and_reads_from_any_offset(house: House) -> None:
    assert house.partition.offsets.end == 13
    for offset in range(13):
        assert offsets_read(house, offset) == [one for one in EXPECTED if one >= offset]


@pytest.mark.parametrize("point", [None, 0, 3, 7, 12, 13])
def test_after_a_crash_old_messages_are_as_good_as_batches(house: House, point: int | None) -> None:
    partition = house.open(clean=False, recovery_point=point)
    assert partition.log.recovered.damage is None
    assert partition.offsets.end == 13
    assert offsets_read(house) == EXPECTED


def test_new_batches_go_behind_the_old_messages(house: House) -> None:
    assert house.partition.append(batch(b"new"), api_version=9, now_ms=NOW).base == 13
    house.restart()
    assert offsets_read(house) == [*EXPECTED, 13]


def test_records_of_old_messages_are_found_by_time(house: House) -> None:
    find = house.partition.offset_by_time
    assert find(NOW + 5, committed=False) == (5, NOW + 5, -1)
    assert find(NOW + 8, committed=False) == (9, NOW + 9, -1)
    assert find(0, committed=False) == (4, NOW + 4, -1), "magic 0 has no times"
    assert find(NOW + 13, committed=False) is None
    assert house.partition.max_timestamp_offset() == (12, NOW + 12, -1)


def test_a_torn_old_message_is_cut_off(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / layout.file_name(0, layout.LOG)).write_bytes(old_segment()[:-1])
    house = House(tmp_path)
    assert house.partition.offsets.end == 8
    assert offsets_read(house) == EXPECTED[:-2]
    assert house.partition.append(batch(b"new"), api_version=9, now_ms=NOW).base == 8


def test_indexes_of_old_brokers_are_made_again_if_they_mean_something_else(tmp_path: Path) -> None:
    """Before 0.11 an entry had the first offset of what was appended; such an entry does not fit its message."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / layout.file_name(0, layout.LOG)).write_bytes(old_segment())
    size_of_two = len(write_message(0, b"k0", b"v0", magic=0)) + len(write_message(1, None, b"v1", magic=0))
    (folder / layout.file_name(0, layout.INDEX)).write_bytes(layout.INDEX_ENTRY.pack(2, size_of_two))
    house = House(tmp_path)
    house.open(clean=True)
    for offset in range(13):
        assert offsets_read(house, offset) == [one for one in EXPECTED if one >= offset]


def test_a_new_reader_gets_what_lies_there(house: House) -> None:
    """As from Kafka: every client that reads batches reads what came before them."""
    new = house.partition.append(batch(b"new"), api_version=9, now_ms=NOW)
    read = house.partition.read(Offset(7), max_bytes=1 << 20, committed=True, at_least_one=True)
    assert read.records is not None
    data = read.records.read_all()
    assert data.startswith(write_message(7, b"k7", None, magic=1, timestamp=NOW + 7))
    assert new.base.to_bytes(8, "big") in data
