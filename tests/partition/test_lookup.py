"""Finding records by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_lite.ids import Offset
from broker_lite.log.log import LogSettings
from broker_lite.partition.partition import PartitionSettings
from broker_lite.records.build import sealed
from broker_lite.records.compression import Codec
from tests.partition.house import NOW, House, batch, delete_records


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, settings=PartitionSettings(log=LogSettings(segment_bytes=2000, index_interval_bytes=100)))


def found(house: House, timestamp: int, *, committed: bool = False) -> tuple[int, int] | None:
    hit = house.partition.offset_by_time(timestamp, committed=committed)
    return None if hit is None else (hit[0], hit[1])


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_is_found_inside_its_batch(house: House, codec: Codec) -> None:
    for base in range(0, 30, 3):
        times = [NOW + base * 10, NOW + base * 10 + 10, NOW + base * 10 + 20]
        house.append(batch(b"a", b"b", b"c", times=times, codec=codec))
    assert found(house, NOW + 140) == (14, NOW + 140)
    assert found(house, NOW + 141) == (15, NOW + 150)
    assert found(house, 0) == (0, NOW)
    assert found(house, NOW + 290) == (29, NOW + 290)
    assert found(house, NOW + 291) is None


def test_the_first_record_that_is_late_enough_is_found_even_if_time_went_backwards(house: House) -> None:
    house.append(batch(b"a", b"b", times=[NOW + 50, NOW + 10]))
    house.append(batch(b"c", b"d", times=[NOW + 20, NOW + 60]))
    assert found(house, NOW + 5) == (0, NOW + 50)
    assert found(house, NOW + 51) == (3, NOW + 60)


def test_deleted_records_are_not_found(house: House) -> None:
    house.append(batch(b"a", b"b", b"c", times=[NOW, NOW + 1, NOW + 2]))
    delete_records(house.partition, 1)
    assert found(house, NOW) == (1, NOW + 1)
    delete_records(house.partition, 3)
    assert found(house, NOW) is None


def test_what_a_reader_may_not_see_is_not_found(house: House) -> None:
    house.append(batch(timestamp=NOW))
    house.append(batch(producer=7, sequence=0, transactional=True, timestamp=NOW + 10))
    assert found(house, NOW + 10) == (1, NOW + 10)
    assert found(house, NOW + 10, committed=True) is None
    house.end(7)
    assert found(house, NOW + 10, committed=True) == (1, NOW + 10)


def test_the_leader_epoch_of_the_record_is_told(house: House) -> None:
    house.append(batch(timestamp=NOW))
    house.kill()
    house.append(batch(timestamp=NOW + 10))
    early = house.partition.offset_by_time(NOW, committed=False)
    late = house.partition.offset_by_time(NOW + 10, committed=False)
    assert early is not None
    assert late is not None
    assert (early[2], late[2]) == (0, 1)


def test_a_batch_that_cannot_be_opened_is_found_by_its_header(house: House) -> None:
    broken = bytearray(batch(b"a", b"b", timestamp=NOW + 7))
    broken[22] = Codec.ZSTD
    house.append(batch(timestamp=NOW))
    house.append(memoryview(sealed(broken)))
    assert found(house, NOW + 5) == (1, NOW + 7)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_highest_timestamp_is_that_of_the_first_record_that_has_it(house: House, codec: Codec) -> None:
    assert house.partition.max_timestamp_offset() is None
    house.append(batch(b"a", timestamp=NOW, codec=codec))
    house.append(batch(b"b", b"c", b"d", times=[NOW + 5, NOW + 9, NOW + 9], codec=codec))
    for _ in range(40):
        house.append(batch(bytes(50), timestamp=NOW + 9, codec=codec))
    assert house.partition.max_timestamp_offset() == (2, NOW + 9, 0)
    house.restart()
    assert house.partition.max_timestamp_offset() == (2, NOW + 9, 0)


def test_the_highest_timestamp_among_those_that_are_left_counts(house: House) -> None:
    house.append(batch(timestamp=NOW + 100))
    house.append(batch(b"a", b"b", times=[NOW + 1, NOW + 7]))
    house.append(batch(timestamp=NOW + 3))
    delete_records(house.partition, 1)
    assert house.partition.max_timestamp_offset() == (2, NOW + 7, 0)
    delete_records(house.partition, 4)
    assert house.partition.max_timestamp_offset() is None


def test_the_bytes_ahead_of_a_reader_are_those_of_the_segment_that_is_written_to(house: House) -> None:
    for _ in range(20):
        house.append(batch(b"a" * 300, b"b"))
    log = house.partition.log
    active = log.segments[-1]
    behind = [offset for offset in range(log.end) if offset < active.base]
    assert len(log.segments) > 2
    assert {log.finder.ahead(Offset(offset), log.end) for offset in behind} == {None}
    assert log.finder.ahead(Offset(active.base), log.end) == active.size
    assert log.finder.ahead(Offset(active.base + 1), log.end) == active.size, (
        "the batch that holds an offset comes whole"
    )
    assert log.finder.ahead(log.end, log.end) == 0


def test_the_bytes_ahead_of_a_reader_end_where_it_may_not_read(house: House) -> None:
    sizes = [len(batch(b"a" * 300)) for _ in range(3)]
    for _ in sizes:
        house.append(batch(b"a" * 300))
    assert [house.partition.log.finder.ahead(Offset(1), Offset(end)) for end in range(4)] == [
        0,
        0,
        sizes[1],
        sum(sizes[1:]),
    ]
