"""Four codecs in and out, bounded, whatever the bytes say of themselves."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import subprocess
import sys
import time
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard

from broker_lite.errors import BrokerError, InvalidRecord, MessageTooLarge
from broker_lite.records.compression import Codec, deflate, inflate
from broker_lite.records.patience import TookTooLong, unless

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SAMPLES = [b"", b"a", b"hello " * 20_000, bytes(200_000), os.urandom(70_000)]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("sample", SAMPLES, ids=len)
def test_what_goes_in_comes_out(codec: Codec, sample: bytes) -> None:
    assert inflate(codec, deflate(codec, sample), len(sample)) == sample
    assert inflate(codec, memoryview(deflate(codec, memoryview(sample))), 1 << 20) == sample


@pytest.mark.parametrize("codec", list(Codec))
def test_one_byte_too_many_is_too_large(codec: Codec) -> None:
    sample = b"x" * 100_000
    with pytest.raises(MessageTooLarge):
        inflate(codec, deflate(codec, sample), len(sample) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_block_whose_end_is_missing_is_refused(codec: Codec) -> None:
    whole = deflate(codec, os.urandom(50_000))
    for kept in (0, 1, 7, 18, len(whole) // 2, len(whole) - 5):
        with pytest.raises(InvalidRecord):
            inflate(codec, whole[:kept], 1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_flipped_bits_are_refused_or_harmless_but_never_anything_else(codec: Codec) -> None:
    whole = deflate(codec, b"hello world " * 500)
    for at in range(min(len(whole), 300)):
        broken = bytearray(whole)
        broken[at] ^= 0x41
        with contextlib.suppress(BrokerError):
            assert len(inflate(codec, broken, 1 << 20)) <= 1 << 20


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_other_codecs_are_unknown(codec: int) -> None:
    with pytest.raises(InvalidRecord, match=f"codec {codec}"):
        inflate(codec, b"", 100)
    with pytest.raises(InvalidRecord, match=f"codec {codec}"):
        deflate(codec, b"")


def test_levels_are_heard() -> None:
    sample = os.urandom(2000) * 20
    assert len(deflate(Codec.GZIP, sample, 9)) < len(deflate(Codec.GZIP, sample, 0))
    assert inflate(Codec.ZSTD, deflate(Codec.ZSTD, sample, 22), 1 << 20) == sample
    assert inflate(Codec.LZ4, deflate(Codec.LZ4, sample, 9), 1 << 20) == sample


def test_every_level_that_kafka_allows_can_be_read_and_lz4_is_fast_at_its_nine() -> None:
    sample = b"".join(b"%d is followed by %d; " % (at * at, at) for at in range(4000))
    sizes = {level: len(deflate(Codec.LZ4, sample, level)) for level in range(1, 18)}
    assert sizes[9] == len(deflate(Codec.LZ4, sample)) > sizes[1] >= sizes[5] >= sizes[17]
    for codec, levels in {Codec.GZIP: (-1, 1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, -1, 22)}.items():
        for level in levels:
            assert inflate(codec, deflate(codec, sample, level), 1 << 20) == sample


def test_snappy_is_read_raw_and_in_xerial_framing_and_written_in_the_latter() -> None:
    sample = b"hello " * 20_000
    assert inflate(Codec.SNAPPY, snappy.compress(sample), 1 << 20) == sample
    framed = deflate(Codec.SNAPPY, sample)
    assert framed[:16] == bytes.fromhex("82534e415050590000000001" + "00000001")
    blocks = b""
    pos = 16
    while pos < len(framed):
        (size,) = struct.unpack_from(">i", framed, pos)
        block = snappy.uncompress(framed[pos + 4 : pos + 4 + size])
        assert len(block) <= 32 * 1024
        blocks += block
        pos += 4 + size
    assert blocks == sample


def test_lz4_is_a_frame_of_independent_blocks_as_java_reads_it() -> None:
    frame = deflate(Codec.LZ4, os.urandom(200_000))
    facts = lz4.frame.get_frame_info(frame)
    assert not facts["block_linked"]
    assert facts["content_size"] == 0
    assert lz4.frame.decompress(frame)


def test_lz4_frames_of_other_writers_are_read() -> None:
    sample = b"hello " * 20_000
    for options in ({}, {"block_linked": False, "store_size": False, "content_checksum": True}):
        assert inflate(Codec.LZ4, lz4.frame.compress(sample, **options), 1 << 20) == sample


def test_gzip_members_and_zstd_frames_may_follow_one_another() -> None:
    assert inflate(Codec.GZIP, gzip.compress(b"a" * 10) + gzip.compress(b"b" * 10), 20) == b"a" * 10 + b"b" * 10
    with pytest.raises(MessageTooLarge):
        inflate(Codec.GZIP, gzip.compress(b"a" * 10) + gzip.compress(b"b" * 10), 19)
    one = zstandard.ZstdCompressor().compress(b"a" * 10)
    assert inflate(Codec.ZSTD, one + one, 20) == b"a" * 20


def test_a_great_many_empty_gzip_members_take_no_longer_than_their_bytes() -> None:
    """The library copies all that comes after a member: 52,000 times a megabyte."""
    members = gzip.compress(b"") * 52_000
    begin = time.thread_time()
    assert inflate(Codec.GZIP, members, 100) == b""
    assert time.thread_time() - begin < 4


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_gzip_of_any_size_in_and_out_is_read_whole(size: int) -> None:
    for sample in (os.urandom(size), bytes(size)):
        whole = gzip.compress(sample)
        assert inflate(Codec.GZIP, whole + whole + b"tail", 2 * size) == sample * 2
        with pytest.raises(MessageTooLarge):
            inflate(Codec.GZIP, whole, size - 1)
        with pytest.raises(InvalidRecord, match="its end is missing"):
            inflate(Codec.GZIP, whole[:-1], size)


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        *((codec, deflate(codec, bytes(1 << 22))) for codec in COMPRESSED),
        (Codec.SNAPPY, snappy.compress(bytes(1 << 22))),
    ],
)
def test_whoever_inflates_stops_when_his_time_is_over(codec: Codec, block: bytes) -> None:
    with unless(lambda: True), pytest.raises(TookTooLong):
        inflate(codec, block, 1 << 23)
    assert len(inflate(codec, block, 1 << 23)) == 1 << 22


def test_zstd_of_unknown_size_is_read_as_streams_write_it() -> None:
    stream = zstandard.ZstdCompressor(level=19).compressobj()
    block = stream.compress(b"hello " * 1000) + stream.flush()
    assert zstandard.frame_content_size(block) == -1
    assert inflate(Codec.ZSTD, block, 6000) == b"hello " * 1000


def bomb(codec: Codec) -> bytes:
    zeros = bytes(64 << 20)
    if codec is Codec.SNAPPY:
        return bytes(snappy.compress(zeros))
    return deflate(codec, zeros)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_no_more_than_the_limit(codec: Codec) -> None:
    block = bomb(codec)
    with pytest.raises(MessageTooLarge):
        inflate(codec, block, 100)  # the library is loaded now
    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLarge):
            inflate(codec, block, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (4 << 20) + 5 * len(block)


def test_a_zstd_frame_that_declares_gigabytes_is_not_believed() -> None:
    honest = zstandard.ZstdCompressor().compress(bytes(1000))
    # Frame head: magic, descriptor with an 8-byte size and a single segment, then the size.
    forged = honest[:4] + b"\xe0" + struct.pack("<Q", 1 << 40) + honest[4 + 3 :]
    with pytest.raises((InvalidRecord, MessageTooLarge)):
        inflate(Codec.ZSTD, forged, 1 << 20)


def test_a_zstd_window_beyond_the_usual_is_refused() -> None:
    # Descriptor 0: a window byte follows; exponent 21 is a window of 2 GiB.
    huge = b"\x28\xb5\x2f\xfd\x00" + bytes([21 << 3]) + b"\x03\x00\x00" + b"xyz"
    with pytest.raises(InvalidRecord):
        inflate(Codec.ZSTD, huge, 1 << 20)


def test_a_snappy_block_that_declares_more_than_it_can_hold_is_refused_before_allocating() -> None:
    for size in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x1f"):
        with pytest.raises(InvalidRecord, match="claims to hold"):
            inflate(Codec.SNAPPY, size + b"\x00a", 1 << 30)
    with pytest.raises(InvalidRecord, match="without a size"):
        inflate(Codec.SNAPPY, b"\xff" * 10, 1 << 30)


def test_a_xerial_block_that_declares_more_than_there_is_is_refused() -> None:
    head = deflate(Codec.SNAPPY, b"")
    with pytest.raises(InvalidRecord):
        inflate(Codec.SNAPPY, head + b"\x7f\xff\xff\xff" + b"abc", 1 << 30)
    with pytest.raises(InvalidRecord):
        inflate(Codec.SNAPPY, head + b"\x00\x00", 1 << 30)


def test_the_libraries_are_loaded_only_when_used() -> None:
    asked = (
        "import sys, broker_lite.records.check; print([m for m in ('lz4', 'snappy', 'zstandard') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
