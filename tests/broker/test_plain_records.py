"""Records of internal topics, read fast, are the records that everybody else reads."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker_lite.broker.plain_records import latest_of_each_key, plain_records
from broker_lite.records.batch import HEADER_SIZE, Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.record import records_of
from tests.partition.house import NOW, House

texts = st.one_of(st.binary(max_size=3), st.integers(0, 20_000).map(lambda size: b"x" * size))
records = st.builds(
    NewRecord,
    st.one_of(st.none(), texts),
    st.one_of(st.none(), texts),
    st.lists(st.tuples(st.sampled_from(["h", ""]), st.one_of(st.none(), st.just(b"v"))), max_size=2).map(tuple),
    st.integers(NOW - 100_000, NOW + 100_000),
)


@given(st.lists(records, min_size=1, max_size=4), st.integers(0, 200))
def test_any_records_are_read_alike(some: list[NewRecord], more: int) -> None:
    data = build_batch([*some, *[NewRecord(b"k", b"v")] * more], timestamp=NOW, base_offset=7)
    batch = Batch.at(data)
    found = list(plain_records(data, HEADER_SIZE, batch.base_offset, batch.count))
    assert found == [(record.offset, record.key or b"", record.value) for record in records_of(batch)]


def test_the_last_of_each_key_is_found_however_it_was_written(tmp_path: Path) -> None:
    partition = House(tmp_path).partition

    def write(codec: Codec, *pairs: tuple[bytes, bytes | None]) -> None:
        lines = [NewRecord(key, value) for key, value in pairs]
        partition.append_internal(build_batch(lines, timestamp=NOW, codec=codec), now_ms=NOW)

    assert latest_of_each_key(partition) == {}
    write(Codec.NONE, (b"a", b"1"), (b"b", b"1"))
    write(Codec.GZIP, (b"a", b"2"), (b"c", b"x" * 300_000))
    partition.append_marker(5, 0, commit=True, coordinator_epoch=0, now_ms=NOW)
    write(Codec.NONE, (b"b", None))
    found = latest_of_each_key(partition)
    assert found == {b"a": (2, b"2"), b"b": (5, None), b"c": (3, b"x" * 300_000)}
