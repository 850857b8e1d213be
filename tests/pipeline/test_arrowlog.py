"""The vectorised decoder says what an independent reader says, and names what is wrong with bytes that are wrong."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from broker_lite.pipeline import inflating
from broker_lite.pipeline.arrowlog import BATCHES, RECORDS, batch_rows, find_next, records, scan
from broker_lite.pipeline.errors import BadRecord, CutBatch, Damaged, WrongChecksum
from broker_lite.records.build import NewRecord, build_batch, sealed
from broker_lite.records.compression import Codec, deflate
from broker_lite.records.control import build_marker
from tests.pipeline import building
from tests.pipeline.building import NOW

Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def table(data: bytes, **options: object) -> pa.Table:
    return pa.Table.from_batches(records(scan(data, "test.log"), **options), RECORDS)  # type: ignore[arg-type]


def rows(data: bytes, **options: object) -> list[Row]:
    found = table(data, **options)
    columns = found.set_column(3, "timestamp", found["timestamp"].cast(pa.int64())).to_pylist()
    return [
        (
            row["offset"],
            row["timestamp"],
            row["timestamp_type"],
            row["key"],
            row["value"],
            None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]],
        )
        for row in columns
    ]


def rows_of_kafka_python(data: bytes) -> list[Row]:
    found: list[Row] = []
    for batch in MemoryRecords(data):
        if getattr(batch, "is_control_batch", False):
            continue
        assert batch.validate_crc()
        if batch.magic == 2 and batch.records_count == 0:
            continue
        for record in batch:
            kind = -1 if batch.magic == 0 else record.timestamp_type
            stamp = -1 if record.timestamp is None else record.timestamp
            found.append((record.offset, stamp, kind, record.key, record.value, list(record.headers) or None))
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(building.pieces())
def test_an_independent_reader_reads_the_same(data: bytes) -> None:
    assert rows(data) == rows_of_kafka_python(data)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(building.records, min_size=1, max_size=6), st.integers(50, 90), building.codecs)
def test_many_batches_in_lockstep_are_read_the_same(inside: list[NewRecord], count: int, codec: Codec) -> None:
    data = b"".join(
        build_batch(inside[: 1 + at % len(inside)], timestamp=NOW, codec=codec, base_offset=10 * at)
        for at in range(count)
    )
    assert rows(data) == rows_of_kafka_python(data)


@pytest.mark.parametrize("size", [0, 50, 70, 8000, 20_000, 3_000_000])
@pytest.mark.parametrize("lanes", [1, 60])
def test_lengths_of_every_width_are_read(size: int, lanes: int) -> None:
    if size * lanes > 60_000_000:
        lanes = 45
    values = [b"x" * size, None, b"y" * (size // 3)]
    one = [NewRecord(None, value, headers=(("h" * (size % 7), value),)) for value in values]
    data = b"".join(build_batch(one, timestamp=NOW, base_offset=3 * at) for at in range(lanes if size < 10**6 else 2))
    found = table(data)
    assert found["value"].to_pylist() == values * (len(found) // 3)
    assert found["headers"][0].as_py() == [{"key": "h" * (size % 7), "value": values[0]}]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(building.pieces(max_batches=4), st.data())
def test_bytes_that_lie_are_refused_by_name_even_with_a_true_checksum(data: bytes, draw: st.DataObject) -> None:
    bad = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        if bad:
            bad[draw.draw(st.integers(0, len(bad) - 1))] = draw.draw(st.integers(0, 255))
    batches = scan(bytes(bad), "hostile.log")
    for index in np.flatnonzero(batches.columns["magic"] == 2).tolist():
        at, size = int(batches.position[index]), int(batches.size[index])
        bad[at : at + size] = sealed(bad[at : at + size])
    with suppress(Damaged):
        for found in records(scan(bytes(bad), "hostile.log"), max_inflated=1 << 20):
            found.validate(full=True)


def test_a_wrong_checksum_is_told_before_anything_inside_is_believed() -> None:
    data = bytearray(build_batch([NewRecord(b"k", b"v")], timestamp=NOW, base_offset=41) * 2)
    data[len(data) // 2 + 61] = 0xFF  # the length of the only record of the second batch
    with pytest.raises(WrongChecksum, match=r"x\.log: byte 70, batch at offset 41: the checksum does not fit"):
        list(records(scan(bytes(data), "x.log")))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (57, (9).to_bytes(4, "big"), "9 records are declared in 18 bytes"),
        (57, (1).to_bytes(4, "big"), "9 bytes are left behind the 1 declared records"),
        (61, b"\x7e", "record 0 says it has 63 bytes where 17 are left"),
        (61, b"\x01", "record 0 says it has -1 bytes"),
        (65, b"\x7e", "a key goes"),
        (67, b"\x20", "a value goes"),
        (69, b"\x02", "a record has more headers than bytes"),
        (69, b"\x01", "negative number of headers"),
        (64, b"\x08", "offset lies outside its batch"),
    ],
)
@pytest.mark.parametrize("copies", [1, 50])
def test_each_lie_has_its_words(at: int, value: bytes, why: str, copies: int) -> None:
    good = build_batch([NewRecord(b"k", b"v"), NewRecord(b"k", b"w")], timestamp=NOW, base_offset=8)
    lying = bytearray(good)
    lying[at : at + len(value)] = value
    data = good * (copies - 1) + bytes(sealed(lying))
    with pytest.raises(BadRecord) as caught:
        list(records(scan(data, "x.log", origin=1000)))
    assert why in caught.value.why
    assert (caught.value.position, caught.value.offset) == (1000 + len(good) * (copies - 1), 8)


def test_a_batch_without_its_end_is_where_the_scan_stops() -> None:
    one = build_batch([NewRecord(b"k", b"v")], timestamp=NOW)
    found = scan(one + one[:-1], "x.log")
    assert (len(found), found.end, found.fault) == (1, len(one), None)


def test_a_length_that_no_batch_has_ends_the_scan_with_a_fault_and_the_next_sound_batch_is_found() -> None:
    one, two = (build_batch([NewRecord(b"k", b"v")], timestamp=NOW, base_offset=at) for at in (5, 6))
    data = memoryview(one + b"\0" * 40 + two)
    found = scan(data, "x.log")
    assert isinstance(found.fault, CutBatch)
    assert "byte 70: no batch can begin here" in str(found.fault)
    assert find_next(data, found.end, above=5) == len(one) + 40
    assert find_next(data, found.end, above=6) is None


def test_offsets_outside_the_range_are_left_out() -> None:
    data = b"".join(
        build_batch([NewRecord(None, b"%d" % n) for n in range(10)], timestamp=NOW, base_offset=10 * at)
        for at in range(5)
    )
    assert [row[0] for row in rows(data, first=7, end=33)] == list(range(7, 33))
    assert len(scan(data, "x.log", before=20)) == 2


def test_only_the_columns_asked_for_are_made() -> None:
    data = build_batch([NewRecord(b"k", b"v")], timestamp=NOW)
    (found,) = records(scan(data, "x.log"), columns=("offset", "value"))
    assert found.to_pylist() == [{"value": b"v", "offset": 0}]


def test_a_header_name_that_is_no_utf_8_is_read_as_kafka_reads_it() -> None:
    data = bytearray(build_batch([NewRecord(b"k", b"v", headers=(("é", b"1"),))], timestamp=NOW))
    data[data.index("é".encode())] = 0xFF
    assert rows(bytes(sealed(data)))[0][5] == [("\ufffd\ufffd", b"1")]


def test_a_batch_that_would_inflate_beyond_the_limit_is_refused() -> None:
    data = build_batch([NewRecord(None, b"\0" * 2_000_000)], timestamp=NOW, codec=Codec.GZIP)
    with pytest.raises(BadRecord, match="inflates to more than 1000000 bytes"):
        list(records(scan(data, "x.log"), max_inflated=1_000_000))


def test_lz4_of_magic_0_is_read_with_its_wrong_header_checksum() -> None:
    inner = building.message_set(4, [NewRecord(b"k", b"v", timestamp=NOW)] * 3, magic=0, codec=0)
    frame = bytearray(deflate(Codec.LZ4, inner))
    frame[6] ^= 0x55  # the descriptor's checksum: a flag byte and a block size are all that lies before it
    message = struct.pack(">bbii", 0, int(Codec.LZ4), -1, len(frame)) + frame
    data = struct.pack(">qiI", 6, len(message) + 4, zlib.crc32(message)) + message
    assert [row[0] for row in rows(data)] == [4, 5, 6]


@pytest.mark.parametrize("before", [b"", build_batch([NewRecord(b"k", b"v")], timestamp=NOW)])
def test_last_messages_with_fewer_bytes_than_the_header_of_a_batch_are_read(before: bytes) -> None:
    old = building.message_set(7, [NewRecord(None, None, timestamp=NOW)] * 2, magic=1, codec=0)
    assert len(old) == 2 * 34

    batches = scan(before + old, "test.log")

    assert batches.fault is None
    assert batches.columns["magic"].tolist()[-2:] == [1, 1]
    assert batches.size.tolist()[-2:] == [34, 34]
    assert rows(before + old)[-2:] == [(7, NOW, 0, None, None, None), (8, NOW, 0, None, None, None)]


def test_one_row_a_batch_tells_everything_its_header_says() -> None:
    data = build_batch(
        [NewRecord(b"k", b"v")] * 3,
        timestamp=NOW,
        codec=Codec.ZSTD,
        producer_id=4,
        producer_epoch=1,
        base_sequence=6,
        transactional=True,
        base_offset=10,
        leader_epoch=2,
    )
    data += build_marker(4, 1, commit=False, coordinator_epoch=0, timestamp=NOW)
    broken = bytearray(build_batch([NewRecord(b"k", b"v")], timestamp=NOW, log_append_time=True))
    broken[-1] ^= 1
    data += bytes(broken) + building.message_set(50, [NewRecord(b"k", b"v", timestamp=NOW)] * 2, magic=1, codec=1)
    found = batch_rows(scan(data, "0.log", origin=100))
    assert found.schema == BATCHES
    first, marker, bad, old = found.to_pylist()
    assert first == {
        "segment": "0.log",
        "position": 100,
        "size": first["size"],
        "base_offset": 10,
        "last_offset": 12,
        "count": 3,
        "magic": 2,
        "codec": "zstd",
        "timestamp_type": 0,
        "base_timestamp": NOW,
        "max_timestamp": NOW,
        "leader_epoch": 2,
        "producer_id": 4,
        "producer_epoch": 1,
        "base_sequence": 6,
        "transactional": True,
        "control": False,
        "marker": None,
        "crc_ok": True,
    }
    assert (marker["control"], marker["marker"], marker["crc_ok"]) == (True, "abort", True)
    assert (bad["crc_ok"], bad["timestamp_type"]) == (False, 1)
    assert (old["magic"], old["codec"], old["base_offset"], old["last_offset"], old["count"]) == (1, "gzip", 50, 51, 2)
    assert old["crc_ok"]


def test_the_decoder_needs_no_spark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import broker_lite.pipeline.arrowlog"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def streamed(data: bytes) -> bytes:
    """A zstd frame that does not tell its size, as librdkafka and the Java client write it."""
    import zstandard

    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def framed(data: bytes) -> bytes:
    """An LZ4 frame as librdkafka and the Java client write it."""
    import lz4.frame

    return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))


def batch_of(payload: bytes, codec: Codec, *, records: int) -> bytes:
    """A batch of so many records whose payload is what is given."""
    whole = bytearray(build_batch([NewRecord(None, b"x")] * records, timestamp=NOW, codec=codec))
    made = whole[:61] + payload
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    return bytes(sealed(made))


VALUES = {"short": b"short", "text": b"twenty records like this " * 40, "zeros": bytes(3_000_000)}
VALUES["1M"] = bytes(range(256)) * 4000
VALUES["noise"] = np.random.default_rng(1).bytes(500)
FRAMES = pytest.mark.parametrize(
    ("codec", "compress"), [(Codec.ZSTD, streamed), (Codec.LZ4, framed)], ids=["zstd", "lz4"]
)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@FRAMES
def test_a_frame_that_does_not_tell_its_size_is_read_whole_however_much_it_grows(
    codec: Codec, compress: Callable[[bytes], bytes], value: bytes
) -> None:
    plain = build_batch([NewRecord(b"k", value)] * 3, timestamp=NOW)
    frame = compress(plain[61:])
    assert rows(batch_of(frame, codec, records=3) * 50) == rows(plain * 50)
    wrong_ones = [frame[:-4], frame[:11] + b"\xff" * (len(frame) - 15) + frame[-4:]]
    if codec == Codec.ZSTD:  # of LZ4 Kafka reads the first frame alone, and nothing behind it
        two_frames = batch_of(streamed(plain[61:80]) + streamed(plain[80:]), codec, records=3)
        assert rows(two_frames) == rows(plain)
        wrong_ones += [frame + b"behind", frame + streamed(b"more")]
    for wrong in wrong_ones:
        with pytest.raises(BadRecord):
            rows(batch_of(wrong, codec, records=3))


@FRAMES
def test_a_damaged_frame_behind_many_good_ones_is_told_and_nothing_is_told_twice(
    codec: Codec, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflating, "GROUP_BYTES", 10_000)
    plain = build_batch([NewRecord(b"k", VALUES["text"])] * 3, timestamp=NOW)
    frame = compress(plain[61:])
    good = batch_of(frame, codec, records=3)
    damaged = batch_of(frame[:11] + b"\xff" * (len(frame) - 15) + frame[-4:], codec, records=3)
    batches = scan(good * 20 + damaged + good, "x.log")
    read: list[bytes] = []
    with pytest.raises(BadRecord) as caught:
        read.extend(value for group in records(batches) for value in group["value"].to_pylist())
    assert caught.value.position == 20 * len(good)
    assert 30 < len(read) <= 60
    assert set(read) == {VALUES["text"]}


def test_two_readers_in_one_thread_do_not_disturb_each_other() -> None:
    def numbered(letter: bytes) -> bytes:
        return b"".join(
            build_batch([NewRecord(None, letter * 400_000)], timestamp=NOW, codec=Codec.LZ4, base_offset=at)
            for at in range(60)
        )

    readers = {letter: records(scan(numbered(letter), "x.log")) for letter in (b"a", b"b")}
    seen: dict[bytes, list[pa.RecordBatch]] = {b"a": [], b"b": []}
    for pair in zip(*readers.values(), strict=True):
        for letter, found in zip(readers, pair, strict=True):
            seen[letter].append(found)
    for letter, groups in seen.items():
        assert len(groups) > 1
        assert {value for group in groups for value in group["value"].to_pylist()} == {letter * 400_000}
