"""Four codecs behind two functions, as Kafka's clients really write them.

    gzip    gzip members, one or more
    snappy  a raw block (librdkafka), or the framing of the Java client, called xerial: a 16-byte head,
            then blocks of at most 32 KiB, each with its length in front.  Read both, write xerial
    lz4     the LZ4 *frame* format, blocks independent, since Java's reader knows no others
    zstd    zstd frames, one or more

`inflate` never holds more than `max_bytes` of output (and a piece): what a frame says about its own size is
not believed, because forty bytes can claim four gigabytes.  A batch that would grow beyond is MessageTooLarge;
bytes that are not what the codec says are InvalidRecord.  Kafka answers UNKNOWN_SERVER_ERROR to those, which
tells a client nothing.  Between two pieces it looks whether its time is over (`patience.py`).

The libraries are imported at the first use: a broker that nobody sends zstd to never loads it.
"""

from __future__ import annotations

import zlib
from enum import IntEnum

from broker_lite.errors import InvalidRecord, MessageTooLarge
from broker_lite.records.patience import go_on

_FEED = 1 << 16
_GZIP_PIECE = 1 << 20
_PIECE = 1 << 18
"""Output is asked for in pieces of at least this size, so that a small batch costs a small buffer."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_SNAPPY_GROWTH = 22
"""A snappy copy of three bytes yields at most 64: no honest block grows more."""

_ZSTD_WINDOW = 1 << 27
"""The largest window that zstd (and with it Java's reader) accepts unasked: 128 MiB, of which only what is
really decompressed is touched."""

_LZ4_FAST = 9
"""Not the library's 9: what KIP-390 calls lz4's default level is the fast compressor, and all others are the thorough
one, which begins at the library's 3."""


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def inflate(codec: int, data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    """The bytes that were compressed. At most `max_bytes`, or MessageTooLarge."""
    match codec:
        case Codec.NONE:
            if len(data) > max_bytes:
                raise _too_large(Codec.NONE, max_bytes)
            return bytes(data)
        case Codec.GZIP:
            return _inflate_gzip(data, max_bytes)
        case Codec.SNAPPY:
            return _inflate_snappy(memoryview(data), max_bytes)
        case Codec.LZ4:
            return _inflate_lz4(data, max_bytes)
        case Codec.ZSTD:
            return _inflate_zstd(data, max_bytes)
    raise InvalidRecord(f"compression codec {codec} is unknown; 0 to 4 are none, gzip, snappy, lz4, zstd")


def deflate(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress as the Java client would, with the codec's own default level unless told. Levels are Kafka's."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            gzip = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, 31)
            return gzip.compress(data) + gzip.flush()
        case Codec.SNAPPY:
            return _deflate_xerial(memoryview(data))
        case Codec.LZ4:
            import lz4.frame

            return bytes(
                lz4.frame.compress(
                    bytes(data),
                    compression_level=0 if level is None or level == _LZ4_FAST else max(3, level),
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    block_linked=False,
                    content_checksum=False,
                    store_size=False,
                )
            )
        case Codec.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(bytes(data))
    raise InvalidRecord(f"compression codec {codec} is unknown; 0 to 4 are none, gzip, snappy, lz4, zstd")


def _too_large(codec: Codec, max_bytes: int) -> MessageTooLarge:
    return MessageTooLarge(f"the {codec.name.lower()} batch inflates to more than {max_bytes} bytes")


def _broken(codec: Codec, why: object) -> InvalidRecord:
    return InvalidRecord(f"the batch says {codec.name.lower()} but cannot be inflated: {why}")


def _inflate_gzip(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    """In pieces of the input, too: the library copies what it did not use of one, for each of its members."""
    view = memoryview(data)
    out: list[bytes] = []
    left = max_bytes
    pos = 0
    member = zlib.decompressobj(31)
    while True:
        go_on()
        fresh = view[pos : pos + _FEED]
        try:
            piece = member.decompress(fresh, min(_GZIP_PIECE, left + 1))
        except zlib.error as error:
            raise _broken(Codec.GZIP, error) from None
        used = len(fresh) - len(member.unused_data if member.eof else member.unconsumed_tail)
        pos += used
        left -= len(piece)
        if left < 0:
            raise _too_large(Codec.GZIP, max_bytes)
        if piece:
            out.append(piece)
        if member.eof:
            # Java stops without a word at a tail that is no further member; so do we.
            if bytes(view[pos : pos + 2]) != b"\x1f\x8b":
                return out[0] if len(out) == 1 else b"".join(out)
            member = zlib.decompressobj(31)
        elif not used and not piece:
            raise _broken(Codec.GZIP, "its end is missing")


def _inflate_snappy(data: memoryview, max_bytes: int) -> bytes:
    if data[:8] != _XERIAL_MAGIC:
        return _inflate_snappy_block(data, max_bytes, max_bytes)
    if len(data) < len(_XERIAL_HEAD):
        raise _broken(Codec.SNAPPY, "the xerial head is cut")
    out: list[bytes] = []
    left = max_bytes
    pos = len(_XERIAL_HEAD)
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if size > len(data) - pos:
            raise _broken(Codec.SNAPPY, f"a block of {size} bytes where {max(len(data) - pos, 0)} are left")
        block = _inflate_snappy_block(data[pos : pos + size], left, max_bytes)
        out.append(block)
        left -= len(block)
        pos += size
    return b"".join(out)


def _inflate_snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    """The block's first varint is its inflated size, and the library allocates what it says."""
    import snappy

    go_on()
    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise _broken(Codec.SNAPPY, "a block without a size")
    if declared > len(block) * _SNAPPY_GROWTH:
        raise _broken(Codec.SNAPPY, f"a block of {len(block)} bytes claims to hold {declared}")
    if declared > left:
        raise _too_large(Codec.SNAPPY, max_bytes)
    try:
        return bytes(snappy.uncompress(bytes(block)))
    except snappy.UncompressError as error:
        raise _broken(Codec.SNAPPY, error) from None


def _deflate_xerial(data: memoryview) -> bytes:
    import snappy

    out = [_XERIAL_HEAD]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress(bytes(data[start : start + _XERIAL_BLOCK])))
        out.append(len(block).to_bytes(4, "big"))
        out.append(block)
    return b"".join(out)


def _inflate_lz4(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    out: list[bytes] = []
    left = max_bytes
    fresh: bytes | bytearray | memoryview = data
    # The library allocates max_length at once, hence pieces.
    piece_size = max(_PIECE, 4 * len(data))
    try:
        while not frame.eof:
            go_on()
            piece = frame.decompress(fresh, max_length=min(piece_size, left + 1))
            fresh = b""
            left -= len(piece)
            if left < 0:
                raise _too_large(Codec.LZ4, max_bytes)
            out.append(piece)
            if frame.needs_input and not frame.eof:
                raise _broken(Codec.LZ4, "its end is missing")
    except (RuntimeError, EOFError, ValueError) as error:
        raise _broken(Codec.LZ4, error) from None
    return out[0] if len(out) == 1 else b"".join(out)


def _inflate_zstd(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    import zstandard

    # One call would trust the size in the frame's head, whatever max_output_size says; the reader does not.
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data, read_across_frames=True)
    out: list[bytes] = []
    left = max_bytes
    piece_size = max(_PIECE, 4 * len(data))
    try:
        while piece := reader.read(min(piece_size, left + 1)):
            go_on()
            left -= len(piece)
            if left < 0:
                raise _too_large(Codec.ZSTD, max_bytes)
            out.append(piece)
        declared = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise _broken(Codec.ZSTD, error) from None
    if declared > max_bytes - left:
        raise _broken(Codec.ZSTD, "its end is missing")
    return out[0] if len(out) == 1 else b"".join(out)
