"""Varints, records, and everything that is not one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_lite.errors import BrokerError, InvalidRecord
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.record import Record, parse_records, read_varint, records_of, write_varint

VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7E",
    64: "80 01",
    -65: "81 01",
    8191: "FE 7F",
    8192: "80 80 01",
    2147483647: "FE FF FF FF 0F",
    -2147483648: "FF FF FF FF 0F",
}


@pytest.mark.parametrize(("number", "encoded"), VARINTS.items())
def test_the_published_varints(number: int, encoded: str) -> None:
    out = bytearray()
    write_varint(out, number)
    assert out == bytes.fromhex(encoded)
    assert read_varint(bytes(out) + b"more", 0) == (number, len(out))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(number: int) -> None:
    out = bytearray()
    write_varint(out, number)
    assert len(out) <= 10
    assert read_varint(bytes(out), 0, 64) == (number, len(out))


@pytest.mark.parametrize(
    ("encoded", "bits"),
    [
        ("FF FF FF FF 1F", 32),
        ("80 80 80 80 80 01", 32),
        ("80" * 9 + "02", 64),
        ("80" * 10 + "01", 64),
        ("80", 32),
        ("", 32),
    ],
)
def test_a_varint_that_is_too_long_or_cut_is_refused(encoded: str, bits: int) -> None:
    with pytest.raises(InvalidRecord):
        read_varint(bytes.fromhex(encoded), 0, bits)


blobs = st.none() | st.binary(max_size=40)
new_records = st.builds(
    NewRecord,
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**42),
)


@settings(max_examples=100, deadline=None)
@given(records=st.lists(new_records, max_size=20), codec=st.sampled_from(list(Codec)), base=st.integers(0, 2**40))
def test_what_is_built_is_read(records: list[NewRecord], codec: Codec, base: int) -> None:
    batch = Batch.at(build_batch(records, timestamp=7, codec=codec, base_offset=base))
    assert batch.crc_ok()
    assert batch.count == len(records)
    assert list(records_of(batch)) == [
        Record(base + at, record.timestamp or 0, record.key, record.value, record.headers)
        for at, record in enumerate(records)
    ]
    assert batch.max_timestamp == max((record.timestamp or 0 for record in records), default=-1)


@settings(max_examples=300, deadline=None)
@given(payload=st.binary(max_size=80), count=st.integers(0, 5))
def test_any_bytes_are_records_or_refused(payload: bytes, count: int) -> None:
    try:
        parsed = list(parse_records(payload, count))
    except InvalidRecord:
        return
    assert len(parsed) == count


def test_a_count_from_hell_does_not_allocate() -> None:
    with pytest.raises(BrokerError):
        list(parse_records(b"\x0c\0\0\0\1\1\0", 2**31 - 1))


def test_a_header_key_that_is_not_utf8_is_read_as_kafka_reads_it() -> None:
    (record,) = parse_records(b"\x14\0\0\0\1\1\x02\x02\xff\x02\x41", 1)
    assert record.headers == (("�", b"A"),)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = Batch.at(build_batch([NewRecord(None, b"", timestamp=1)] * 2, timestamp=99, log_append_time=True))
    assert [record.timestamp for record in records_of(batch)] == [99, 99]
