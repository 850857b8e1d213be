"""What a client may append, and which error it gets if not. Each answer was given by a running Kafka 4.3.1 too."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, assemble, build_batch, sealed
from broker_lite.records.check import AppendRules, BadRecords, Checked, check_client_batch
from broker_lite.records.compression import Codec, deflate
from broker_lite.records.record import records_of, write_record, write_varint

NOW = 1_714_000_000_000
TWO = [NewRecord(b"k", b"v"), NewRecord(b"k2", b"v2")]
PLAIN = AppendRules()
STRICT = AppendRules(strict=True)
COMPACTED = AppendRules(compacted=True)
STAMPED = AppendRules(log_append_time=True)


def two(codec: Codec = Codec.NONE, timestamp: int = NOW) -> bytes:
    return build_batch(TWO, timestamp=timestamp, codec=codec)


def edit(batch: bytes, at: int, value: bytes, *, seal: bool = True) -> bytes:
    copy = bytearray(batch)
    copy[at : at + len(value)] = value
    return bytes(sealed(copy)) if seal else bytes(copy)


def holding(payload: bytes | bytearray, count: int, *, codec: Codec = Codec.NONE) -> bytes:
    return assemble(
        deflate(codec, payload),
        base_offset=0,
        leader_epoch=-1,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def check(batch: bytes | None, rules: AppendRules = PLAIN, version: int = 9) -> Checked:
    records = None if batch is None else memoryview(batch)
    return check_client_batch(records, api_version=version, rules=rules, now_ms=NOW)


def refused(batch: bytes | None, rules: AppendRules = PLAIN, version: int = 9) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        check(batch, rules, version)
    return raised.value.code


def test_a_good_batch_is_taken_without_a_copy() -> None:
    came = memoryview(two())
    checked = check_client_batch(came, api_version=9, rules=PLAIN, now_ms=NOW)
    assert checked.batch.buf.obj is came.obj
    assert checked.log_append_time == -1


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("rules", [PLAIN, STRICT, COMPACTED])
def test_every_codec_is_stored_byte_for_byte(codec: Codec, rules: AppendRules) -> None:
    came = two(codec)
    assert bytes(check(came, rules).batch.buf) == came


INT = struct.Struct(">i").pack
LONG = struct.Struct(">q").pack
WRONG_FOR_EVERY_TOPIC: dict[str, tuple[Callable[[], bytes | None], ErrorCode]] = {
    "no records": (lambda: None, ErrorCode.INVALID_RECORD),
    "no bytes": (lambda: b"", ErrorCode.INVALID_RECORD),
    "only a part of a batch": (lambda: two()[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (lambda: two() + two(), ErrorCode.INVALID_RECORD),
    "garbage behind the batch": (lambda: two() + b"garbage!" * 4, ErrorCode.CORRUPT_MESSAGE),
    "a length below any batch's": (lambda: edit(two(), 8, INT(10)), ErrorCode.CORRUPT_MESSAGE),
    "a length below the header's": (lambda: edit(two()[:52], 8, INT(40)), ErrorCode.CORRUPT_MESSAGE),
    "a magic from the future": (lambda: edit(two(), 16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (lambda: edit(two(), 16, b"\1"), ErrorCode.INVALID_RECORD),
    "magic 0": (lambda: edit(two(), 16, b"\0"), ErrorCode.INVALID_RECORD),
    "a codec nobody knows": (lambda: edit(two(), 21, b"\0\5"), ErrorCode.INVALID_RECORD),
    "a base offset": (lambda: edit(two(), 0, LONG(5)), ErrorCode.INVALID_RECORD),
    "a wrong checksum": (lambda: edit(two(), 70, b"zz", seal=False), ErrorCode.CORRUPT_MESSAGE),
    "a negative offset range": (lambda: edit(two(), 23, INT(-1)), ErrorCode.INVALID_RECORD),
    "a count of none": (lambda: edit(two(), 57, INT(0)), ErrorCode.INVALID_RECORD),
    "a negative count": (lambda: edit(two(), 57, INT(-2)), ErrorCode.INVALID_RECORD),
    "a count unlike its offsets": (lambda: edit(two(), 57, INT(3)), ErrorCode.INVALID_RECORD),
    "a control bit": (lambda: edit(two(), 21, b"\0\x20"), ErrorCode.INVALID_RECORD),
    "a delete horizon": (lambda: edit(two(), 21, b"\0\x40"), ErrorCode.INVALID_RECORD),
    "a producer without a sequence": (
        lambda: build_batch(TWO, timestamp=NOW, producer_id=7, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "more records declared than sent": (lambda: edit(edit(two(), 57, INT(3)), 23, INT(2)), ErrorCode.INVALID_RECORD),
    "fewer records declared than sent": (lambda: edit(edit(two(), 57, INT(1)), 23, INT(0)), ErrorCode.INVALID_RECORD),
    "a record that is cut": (lambda: holding(b"\x40\0\0\0", 1), ErrorCode.INVALID_RECORD),
    "a length that is cut": (lambda: holding(b"\x80", 1), ErrorCode.INVALID_RECORD),
    "a length without an end": (lambda: holding(b"\xff" * 9, 1), ErrorCode.INVALID_RECORD),
    "a negative length": (lambda: holding(b"\x03" + bytes(4), 1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("what", WRONG_FOR_EVERY_TOPIC)
@pytest.mark.parametrize("rules", [PLAIN, STRICT], ids=["plain", "strict"])
def test_refused_on_every_topic(what: str, rules: AppendRules) -> None:
    build, code = WRONG_FOR_EVERY_TOPIC[what]
    assert refused(build(), rules) == code


def test_a_second_batch_whose_end_is_missing_is_left_out() -> None:
    assert check(two() + two()[:-1]).batch.size == len(two())


def test_zstd_needs_produce_7() -> None:
    assert refused(two(Codec.ZSTD), version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert check(two(Codec.ZSTD), version=7).batch.count == 2


def test_a_batch_is_taken_in_versions_that_are_older_than_batches() -> None:
    assert check(two(), version=2).batch.count == 2


def test_size_is_looked_at_before_the_checksum() -> None:
    big = edit(build_batch([NewRecord(None, bytes(2000))], timestamp=NOW), 70, b"zz", seal=False)
    assert refused(big, AppendRules(max_message_bytes=1000)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(big, AppendRules(max_message_bytes=len(big))) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [6, 63, 64, 8191, 8192, 100_000, 1_048_575, 1_048_576, 3_000_000])
def test_lengths_of_every_width_are_stepped_over(size: int) -> None:
    big = build_batch([NewRecord(None, bytes(size)), NewRecord(None, b"")] * 2, timestamp=NOW)
    assert check(big, AppendRules(max_message_bytes=1 << 30)).batch.count == 4


RECORD_BODIES_THAT_ARE_WRONG = {
    "a negative header count": b"\0\0\0\1\1\x01",
    "more headers than bytes": b"\0\0\0\1\1\x40",
    "a header without a key": b"\0\0\0\1\1\x02\x01\x01",
    "bytes behind the headers": b"\0\0\0\1\1\0zz",
    "fields that are missing": b"\0\0\0",
    "a key longer than the record": b"\0\0\0\x40\1\0",
    "no attributes": b"",
}


@pytest.mark.parametrize("what", RECORD_BODIES_THAT_ARE_WRONG)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_strict_topics_refuse_records_with(what: str, codec: Codec) -> None:
    payload = bytearray()
    write_varint(payload, len(RECORD_BODIES_THAT_ARE_WRONG[what]))
    payload += RECORD_BODIES_THAT_ARE_WRONG[what]
    assert refused(holding(payload, 1, codec=codec), STRICT) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_block_that_cannot_be_inflated_is_an_invalid_record_with_a_sentence(codec: Codec) -> None:
    lying = edit(two(), 21, bytes([0, codec]))
    with pytest.raises(BrokerError, match=codec.name.lower()) as raised:
        check(lying, STRICT)
    assert raised.value.code == ErrorCode.INVALID_RECORD
    assert check(lying).batch.codec == codec, "stored as it came where nobody looks inside"


def test_a_compressed_count_that_lies_is_seen_where_records_are_read() -> None:
    lying = edit(edit(two(Codec.GZIP), 57, INT(1)), 23, INT(0))
    assert refused(lying, STRICT) == ErrorCode.INVALID_RECORD


def test_a_bomb_is_too_large_wherever_it_is_opened() -> None:
    bomb = build_batch([NewRecord(b"k", bytes(3_000_000))], timestamp=NOW, codec=Codec.ZSTD)
    assert refused(bomb, AppendRules(strict=True, max_inflated_bytes=1_000_000)) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_names_the_records_without_a_key() -> None:
    batch = build_batch([NewRecord(b"a", b"b"), NewRecord(None, b"c"), NewRecord(None, b"d")], timestamp=NOW)
    with pytest.raises(BadRecords) as raised:
        check(batch, COMPACTED)
    assert raised.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in raised.value.record_errors] == [1, 2]


def test_a_record_from_the_future_is_named() -> None:
    batch = build_batch([NewRecord(b"a", b"b"), NewRecord(b"a", b"c", timestamp=NOW + 3_600_001)], timestamp=NOW)
    with pytest.raises(BadRecords) as raised:
        check(batch)
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
    assert raised.value.message == "One or more records have been rejected due to invalid timestamp"
    low, high = NOW - AppendRules().before_max_ms, NOW + 3_600_000
    assert raised.value.record_errors == [
        (
            1,
            f"Timestamp {NOW + 3_600_001} of message with offset 1 is out of range. "
            f"The timestamp should be within [{low}, {high}]",
        )
    ]
    assert check(build_batch(TWO, timestamp=NOW + 3_600_000)).batch.count == 2


def test_a_record_from_the_past_is_named_and_one_without_a_time_is_not() -> None:
    records = [NewRecord(b"", b""), NewRecord(b"", b"", timestamp=NOW - 1001), NewRecord(b"", b"", timestamp=-1)]
    with pytest.raises(BadRecords) as raised:
        check(build_batch(records, timestamp=NOW - 1000), AppendRules(before_max_ms=1000))
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in raised.value.record_errors] == [1]


def test_one_bad_timestamp_makes_the_whole_refusal_one_of_time() -> None:
    batch = build_batch([NewRecord(None, b"b"), NewRecord(b"a", b"c", timestamp=NOW + 10**8)], timestamp=NOW)
    with pytest.raises(BadRecords) as raised:
        check(batch, COMPACTED)
    assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in raised.value.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_sets_the_bit_the_maximum_and_the_checksum_and_nothing_else(codec: Codec) -> None:
    came = two(codec, timestamp=NOW - 10**9)
    checked = check(came, STAMPED)
    stored = checked.batch
    assert checked.log_append_time == stored.max_timestamp == NOW
    assert stored.is_log_append_time
    assert stored.crc_ok()
    assert stored.base_timestamp == NOW - 10**9
    assert bytes(stored.buf[61:]) == came[61:]
    assert {record.timestamp for record in records_of(stored)} == {NOW}


def test_a_future_timestamp_does_not_matter_where_the_broker_stamps() -> None:
    assert check(two(timestamp=NOW + 10**9), STAMPED).batch.max_timestamp == NOW


def test_a_producer_that_stamps_is_refused_on_a_stamping_topic_and_corrected_on_others() -> None:
    stamped = build_batch(TWO, timestamp=NOW, log_append_time=True)
    assert refused(stamped, STAMPED) == ErrorCode.INVALID_TIMESTAMP
    assert refused(build_batch(TWO, timestamp=-1, log_append_time=True)) == ErrorCode.INVALID_TIMESTAMP
    stored = check(stamped).batch
    assert not stored.is_log_append_time
    assert stored.crc_ok()


@pytest.mark.parametrize("lie", [NOW + 50, NOW - 50, -1])
def test_a_lying_maximum_timestamp_is_corrected_where_records_are_read(lie: int) -> None:
    stored = check(edit(two(), 35, LONG(lie)), STRICT).batch
    assert stored.max_timestamp == NOW
    assert stored.crc_ok()


def test_a_maximum_that_only_claims_to_be_in_the_future_is_corrected_on_every_topic() -> None:
    assert check(edit(two(), 35, LONG(NOW + 10**9))).batch.max_timestamp == NOW


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    payload = bytearray()
    write_record(payload, timestamp_delta=2**63 - 1, offset_delta=0, key=b"k", value=None)
    rules = AppendRules(strict=True, after_max_ms=2**63 - 1)
    assert refused(holding(payload, 1), rules) == ErrorCode.INVALID_TIMESTAMP


def test_unused_bits_survive_unless_the_attributes_are_rewritten() -> None:
    odd = edit(two(), 21, b"\xff\x80")
    assert check(odd).batch.attributes & 0xFFFF == 0xFF80
    assert check(odd, STAMPED).batch.attributes == 0x08
    assert check(odd, AppendRules(compression=Codec.GZIP)).batch.attributes == Codec.GZIP


def uneven(codec: Codec) -> bytes:
    payload = bytearray()
    for delta in (0, 0, 5):
        write_record(payload, timestamp_delta=0, offset_delta=delta, key=b"k", value=b"x")
    return holding(payload, 3, codec=codec)


def test_inner_offsets_out_of_order_are_mended_in_compressed_batches_that_are_read() -> None:
    stored = check(uneven(Codec.LZ4), STRICT).batch
    assert [record.offset for record in records_of(stored)] == [0, 1, 2]
    assert stored.codec == Codec.LZ4


def test_inner_offsets_out_of_order_stay_as_they_came_in_uncompressed_batches() -> None:
    assert bytes(check(uneven(Codec.NONE), STRICT).batch.buf) == uneven(Codec.NONE)


@pytest.mark.parametrize("came", list(Codec))
@pytest.mark.parametrize("wanted", list(Codec))
def test_a_topic_with_its_own_codec_gets_its_batches_recompressed(came: Codec, wanted: Codec) -> None:
    batch = build_batch(
        [NewRecord(b"k", b"v" * 500, (("h", None), ("i", b"1"))), NewRecord(None, None, timestamp=NOW + 5)],
        timestamp=NOW,
        codec=came,
        producer_id=9,
        producer_epoch=3,
        base_sequence=12,
        transactional=True,
    )
    stored = check(batch, AppendRules(compression=wanted)).batch
    assert stored.codec == wanted
    assert stored.crc_ok()
    assert list(records_of(stored)) == list(records_of(Batch.at(batch)))
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (9, 3, 12)
    assert stored.is_transactional
    assert stored.max_timestamp == NOW + 5


def test_a_batch_that_grows_too_large_by_recompression_is_refused() -> None:
    small = build_batch([NewRecord(b"k", bytes(5000))], timestamp=NOW, codec=Codec.GZIP)
    rules = AppendRules(compression=Codec.NONE, max_message_bytes=1000)
    assert refused(small, rules) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_small_block_of_many_bad_records_gets_a_short_answer() -> None:
    many = build_batch([NewRecord(None, b"")] * 50_000, timestamp=NOW, codec=Codec.GZIP)
    with pytest.raises(BadRecords) as refused:
        check(many, COMPACTED)
    assert len(refused.value.record_errors) == 1000
    assert "due to 50000 record errors in total" in refused.value.message
