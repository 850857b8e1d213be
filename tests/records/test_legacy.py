"""Message sets, against bytes that are known and against kafka-python, which has its own reader and writer of them."""

from __future__ import annotations

import contextlib
import gzip
import struct
from zlib import crc32

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from broker_lite.errors import BrokerError, CorruptMessage, ErrorCode, InvalidRecord, MessageTooLarge
from broker_lite.records import legacy
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.check import AppendRules
from broker_lite.records.compression import Codec
from broker_lite.records.control import build_marker
from broker_lite.records.downconvert import down_convert
from broker_lite.records.legacy import as_batch, messages_of, old_records, write_message, write_wrapper
from broker_lite.records.lz4_header import with_right_checksum, with_wrong_checksum, xxh32
from broker_lite.records.record import Record, records_of
from broker_lite.records.upconvert import check_message_set

NOW = 1_714_000_000_000
HELLO_V0 = bytes.fromhex("0000000000000000 00000013 87A77AB2 00 00 FFFFFFFF 00000005 68656C6C6F")
HELLO_V1 = bytes.fromhex("0000000000000000 0000001B 1667D8AD 01 00 0000018F125C7400 FFFFFFFF 00000005 68656C6C6F")
OLD = [(magic, codec) for magic in (0, 1) for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)]
FOR_KAFKA_PYTHON = [one for one in OLD if one != (0, Codec.LZ4)]
"""It needs one more library for the checksum that is wrong."""


def up(records: bytes, rules: AppendRules | None = None) -> list[Record]:
    checked = check_message_set(memoryview(records), rules=rules or AppendRules(), now_ms=NOW)
    assert checked is not None
    assert checked.batch.crc_ok()
    return list(records_of(checked.batch))


def refusal(records: bytes, rules: AppendRules | None = None) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        up(records, rules)
    return refused.value.code


def down(batch: bytes, magic: int, from_offset: int = 0) -> bytes:
    return b"".join(down_convert(memoryview(batch), magic=magic, from_offset=from_offset))


def written_by_kafka_python(magic: int, codec: Codec) -> bytes:
    builder = MemoryRecordsBuilder(magic, int(codec), 1 << 20)
    for at in range(5):
        builder.append(timestamp=NOW + at, key=b"k%d" % at, value=b"v" * at)
    builder.close()
    return bytes(builder.buffer())


def read_by_kafka_python(records: bytes) -> list[tuple[int, int | None, bytes | None, bytes | None]]:
    """Offset, timestamp, key, value."""
    found = []
    sets = MemoryRecords(records)
    while sets.has_next():
        found += [(one.offset, one.timestamp, one.key, one.value) for one in sets.next_batch()]
    return found


@pytest.mark.parametrize(("magic", "known"), [(0, HELLO_V0), (1, HELLO_V1)])
def test_hello_is_written_as_it_always_was(magic: int, known: bytes) -> None:
    assert write_message(0, None, b"hello", magic=magic, timestamp=NOW) == known
    (message,) = messages_of(known)
    assert (message.magic, message.key) == (magic, None)
    assert message.value is not None
    assert bytes(message.value) == b"hello"
    assert message.timestamp == (NOW if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), FOR_KAFKA_PYTHON)
def test_what_an_old_producer_wrote_becomes_one_batch(magic: int, codec: Codec) -> None:
    written = written_by_kafka_python(magic, codec)
    checked = check_message_set(memoryview(written), rules=AppendRules(), now_ms=NOW)
    assert checked is not None
    batch = checked.batch
    assert (batch.codec, batch.count, batch.last_offset_delta, batch.base_offset) == (codec, 5, 4, 0)
    times = [NOW + at if magic else -1 for at in range(5)]
    assert batch.max_timestamp == max(times)
    assert list(records_of(batch)) == [Record(at, times[at], b"k%d" % at, b"v" * at) for at in range(5)]


@pytest.mark.parametrize(("magic", "codec"), FOR_KAFKA_PYTHON)
def test_an_old_reader_gets_records_offsets_and_times(magic: int, codec: Codec) -> None:
    new = [NewRecord(b"k%d" % at, None if at == 2 else b"v" * at, (("h", b"x"),), NOW + at) for at in range(5)]
    batch = build_batch(new, timestamp=NOW, codec=codec, base_offset=40)
    expected = [(40 + at, NOW + at if magic else None, b"k%d" % at, None if at == 2 else b"v" * at) for at in range(5)]
    assert read_by_kafka_python(down(batch, magic)) == expected
    assert read_by_kafka_python(down(batch, magic, from_offset=42)) == expected[2:]


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_that_compaction_left_out_stay_left_out(magic: int) -> None:
    records = [(7, NOW, b"a", b"1"), (9, NOW, b"b", b"2"), (12, NOW, b"c", b"3")]
    wrapper = write_wrapper(records, magic=magic, codec=Codec.GZIP)
    assert [one[0] for one in read_by_kafka_python(wrapper)] == [7, 9, 12]
    assert [record.offset for record in records_of(as_batch(wrapper))] == [7, 9, 12]


def test_the_append_time_of_a_batch_is_the_time_of_its_messages() -> None:
    for codec in (Codec.NONE, Codec.LZ4):
        batch = build_batch([NewRecord(None, b"a", (), 5)], timestamp=NOW, codec=codec, log_append_time=True)
        converted = down(batch, 1)
        (message,) = messages_of(converted)
        assert message.is_log_append_time
        assert message.timestamp == NOW
        assert [record.timestamp for record in old_records(message)] == [NOW]


def test_old_readers_never_see_a_marker_or_zstd() -> None:
    assert down(build_marker(7, 0, commit=True, coordinator_epoch=0, timestamp=NOW), 1) == b""
    with pytest.raises(BrokerError) as refused:
        down(build_batch([NewRecord(None, b"a")], timestamp=NOW, codec=Codec.ZSTD), 1)
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_what_is_old_enough_already_is_sent_as_it_lies_there() -> None:
    assert down(HELLO_V0, 1) == HELLO_V0
    assert read_by_kafka_python(down(HELLO_V1, 0)) == [(0, None, None, b"hello")]


def test_several_messages_of_either_magic_are_one_batch() -> None:
    assert [record.value for record in up(HELLO_V0 + HELLO_V1 + HELLO_V0)] == [b"hello"] * 3


def test_a_message_whose_end_is_missing_is_left_out() -> None:
    for cut in range(1, len(HELLO_V1)):
        assert len(up(HELLO_V0 + HELLO_V1[:-cut])) == 1
    assert check_message_set(memoryview(b""), rules=AppendRules(), now_ms=NOW) is None
    assert check_message_set(None, rules=AppendRules(), now_ms=NOW) is None


@pytest.mark.parametrize("known", [HELLO_V0, HELLO_V1])
def test_one_wrong_byte_is_found(known: bytes) -> None:
    for at in range(12, len(known)):
        bad = bytearray(known)
        bad[at] ^= 0x10
        assert refusal(bytes(bad)) == ErrorCode.CORRUPT_MESSAGE
    small = bytearray(known)
    small[8:12] = (13).to_bytes(4, "big")
    assert refusal(bytes(small)) == ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_byte_inside_a_wrapper_is_found() -> None:
    inside = bytearray(HELLO_V1)
    inside[-1] ^= 1
    assert refusal(_wrapped(bytes(inside))) == ErrorCode.CORRUPT_MESSAGE


def test_wrappers_are_not_nested_not_empty_and_not_mixed() -> None:
    assert refusal(_wrapped(_wrapped(HELLO_V1))) == ErrorCode.INVALID_RECORD
    assert refusal(_wrapped(b"")) == ErrorCode.INVALID_RECORD
    assert refusal(_wrapped(HELLO_V0)) == ErrorCode.INVALID_RECORD
    assert refusal(_wrapped(HELLO_V1) + HELLO_V1) == ErrorCode.INVALID_RECORD
    assert refusal(HELLO_V1 + _wrapped(HELLO_V1)) == ErrorCode.INVALID_RECORD
    assert refusal(write_message(0, None, None, magic=1, attributes=Codec.GZIP)) == ErrorCode.INVALID_RECORD
    assert refusal(write_message(0, None, b"x", magic=1, attributes=Codec.ZSTD)) == ErrorCode.INVALID_RECORD


def test_fields_longer_than_the_message_are_refused() -> None:
    body = struct.pack(">bbiii", 0, 0, 2**31 - 1, 5, 5)
    message = struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body
    assert refusal(message) == ErrorCode.INVALID_RECORD
    body = struct.pack(">bbiiq", 0, 0, -1, 5, 0)
    message = struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body
    assert refusal(message) == ErrorCode.INVALID_RECORD


def test_a_small_wrapper_cannot_become_a_large_batch() -> None:
    bomb = _wrapped(write_message(0, None, bytes(1 << 20), magic=1, timestamp=NOW))
    assert len(bomb) < 2000
    assert refusal(bomb, AppendRules(max_inflated_bytes=1 << 19)) == ErrorCode.MESSAGE_TOO_LARGE
    assert len(up(bomb)) == 1


def test_size_is_looked_at_before_the_checksum_is_believed_and_after_the_conversion() -> None:
    assert refusal(HELLO_V1, AppendRules(max_message_bytes=38)) == ErrorCode.MESSAGE_TOO_LARGE
    # Each message fits, the batch that they would make does not.
    assert refusal(HELLO_V1, AppendRules(max_message_bytes=39)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(HELLO_V1 * 100, AppendRules(max_message_bytes=500)) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_topic_asks_old_messages_for_keys_and_times_too() -> None:
    assert refusal(HELLO_V0, AppendRules(compacted=True)) == ErrorCode.INVALID_RECORD
    late = write_message(0, b"k", b"v", magic=1, timestamp=NOW + 3_600_001)
    assert refusal(late) == ErrorCode.INVALID_TIMESTAMP
    early = write_message(0, b"k", b"v", magic=1, timestamp=NOW - 11)
    assert refusal(early, AppendRules(before_max_ms=10)) == ErrorCode.INVALID_TIMESTAMP
    stamped = write_message(0, b"k", b"v", magic=1, timestamp=NOW, attributes=8)
    assert refusal(stamped) == ErrorCode.INVALID_TIMESTAMP
    assert up(HELLO_V0, AppendRules(before_max_ms=10))[0].timestamp == -1


def test_a_topic_that_stamps_stamps_old_messages() -> None:
    for message in (HELLO_V0, HELLO_V1, _wrapped(HELLO_V1)):
        checked = check_message_set(memoryview(message), rules=AppendRules(log_append_time=True), now_ms=NOW + 5)
        assert checked is not None
        assert checked.log_append_time == NOW + 5
        assert [record.timestamp for record in records_of(checked.batch)] == [NOW + 5]


def test_a_topic_with_its_own_codec_gets_it() -> None:
    for message in (HELLO_V0, _wrapped(HELLO_V1)):
        rules = AppendRules(compression=Codec.ZSTD)
        checked = check_message_set(memoryview(message), rules=rules, now_ms=NOW)
        assert checked is not None
        assert checked.batch.codec == Codec.ZSTD
        assert [record.value for record in records_of(checked.batch)] == [b"hello"]


def test_lz4_of_magic_0_has_its_checksum_wrong_and_both_are_read() -> None:
    records = [(3, NOW, None, b"a" * 100), (4, NOW, None, b"b")]
    wrapper = write_wrapper(records, magic=0, codec=Codec.LZ4)
    (message,) = messages_of(wrapper)
    assert message.value is not None
    frame = bytes(message.value)
    right = with_right_checksum(frame)
    assert frame != right
    assert with_wrong_checksum(right) == frame
    assert [one.offset for one in legacy.inner_messages(message)] == [3, 4]
    mended = write_message(4, None, right, magic=0, attributes=Codec.LZ4)
    assert [record.value for record in records_of(as_batch(mended))] == [b"a" * 100, b"b"]
    (as_v1,) = messages_of(write_message(4, None, frame, magic=1, timestamp=NOW, attributes=Codec.LZ4))
    with pytest.raises(InvalidRecord):
        list(legacy.inner_messages(as_v1))


def test_xxh32_is_what_others_compute() -> None:
    assert xxh32(b"") == 0x02CC5D05
    assert xxh32(b"a") == 0x550D7456
    assert xxh32(b"abc") == 0x32D153FF
    for sized in (True, False):
        frame = lz4.frame.compress(b"a" * 1000, store_size=sized)
        assert with_right_checksum(frame) == frame
        assert with_right_checksum(with_wrong_checksum(frame)) == frame != with_wrong_checksum(frame)
    assert with_right_checksum(b"no frame") == b"no frame"


def test_an_old_message_on_disk_is_read_as_a_batch() -> None:
    batch = as_batch(write_message(77, b"k", None, magic=1, timestamp=NOW))
    assert (batch.base_offset, batch.last_offset, batch.count, batch.max_timestamp) == (77, 77, 1, NOW)
    assert Batch.at(batch.buf).crc_ok()
    with pytest.raises(CorruptMessage):
        as_batch(HELLO_V1[:-1])
    with pytest.raises(MessageTooLarge):
        as_batch(_wrapped(write_message(0, None, bytes(1 << 20), magic=1)), max_bytes=1 << 19)


def _wrapped(inside: bytes) -> bytes:
    return write_message(0, None, gzip.compress(inside), magic=1, timestamp=NOW, attributes=Codec.GZIP)


@given(st.binary(max_size=200), st.integers(0, 5))
def test_no_bytes_do_more_than_be_refused(noise: bytes, copies: int) -> None:
    for data in (noise, HELLO_V1 * copies + noise, _wrapped(HELLO_V1 * copies + noise)):
        with contextlib.suppress(BrokerError):
            check_message_set(memoryview(data), rules=AppendRules(), now_ms=NOW)
        with contextlib.suppress(BrokerError):
            as_batch(data)


@given(
    st.sampled_from([HELLO_V0, HELLO_V1, *(written_by_kafka_python(*one) for one in FOR_KAFKA_PYTHON)]),
    st.integers(0, 400),
    st.binary(min_size=1, max_size=8),
)
def test_lies_with_a_true_checksum_do_no_more_than_be_refused(good: bytes, at: int, lie: bytes) -> None:
    bad = bytearray(good)
    at %= len(bad)
    bad[at : at + len(lie)] = lie[: len(bad) - at]
    bad[12:16] = crc32(bad[16:]).to_bytes(4, "big")
    with contextlib.suppress(BrokerError):
        checked = check_message_set(memoryview(bad), rules=AppendRules(), now_ms=NOW)
        if checked is not None:
            assert len(list(records_of(checked.batch))) == checked.batch.count
    with contextlib.suppress(BrokerError):
        batch = as_batch(bytes(bad))
        assert len(list(records_of(batch))) == batch.count
