"""A long segment, made of a short one: the same batches again and again with offsets that go on."""

from __future__ import annotations

from pathlib import Path

from broker_lite.log.layout import INDEX, LOG, file_name
from broker_lite.pipeline.scan import scan
from broker_lite.records.build import sealed

INDEX_EVERY = 4096


def long_segment(origin: Path, folder: Path, size: int) -> int:
    """Write at least `size` bytes of log and an index into `folder`; returns the offset behind the last.

    Offsets lie outside of what the checksum covers.  The batches are made nobody's, since a producer that repeats its
    sequences would be a fault.
    """
    data = origin.read_bytes()
    found = scan(data, origin.name)
    batches = []
    for index in range(len(found)):
        batch = bytearray(found.bytes_of(index))
        batch[43:51], batch[51:53], batch[53:57] = b"\xff" * 8, b"\xff" * 2, b"\xff" * 4
        batches.append((bytes(sealed(batch)), int(found.last_offset[index] - found.base_offset[index]) + 1))
    offset = position = indexed = 0
    entries = bytearray()
    with (folder / file_name(0, LOG)).open("wb") as out:
        while position < size:
            for whole, taken in batches:
                if position - indexed > INDEX_EVERY:
                    entries += (offset + taken - 1).to_bytes(4, "big") + position.to_bytes(4, "big")
                    indexed = position
                out.write(offset.to_bytes(8, "big"))
                out.write(memoryview(whole)[8:])
                offset, position = offset + taken, position + len(whole)
    (folder / file_name(0, INDEX)).write_bytes(entries)
    return offset
