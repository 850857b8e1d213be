"""Reading a log of which nothing may be missing: the metadata journal.

Other logs are served up to the first damage.  The journal cannot be: a broker that starts with a part of it starts
without a DENY rule, or with a user who was deleted.  So every byte is checked from the first one on (checksums, and
offsets that follow each other without a gap, also from one segment to the next), and nothing on the disk is changed.
Indexes are not looked at.

What is not intact is either a *torn tail*, which a start cuts off, or *damage*, with which there is no start.  A crash
in the middle of an append leaves one of two things behind the last whole batch, and nothing behind those:

- the first bytes of the batch: the process was killed, or the file grew as it was written;
- zeros for at least one of its disk sectors, or up to the end of the file: the power went when the file had its new
  length and not yet its bytes.

Everything else was written whole and has changed since.  In particular the last batch is damaged, not torn, if it has
its full length and the wrong checksum without such zeros, or if its checksum is right for all that is left of the file,
so that only its offset, length or magic has changed.  That matters because nothing records how far the journal was
synced: the last batch may have been acknowledged.

Two things cannot be told from a crash: a file cut short within or after its last batch, and a last batch of which a
sector is zeros now.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from broker_lite.crc import crc32c
from broker_lite.log import layout
from broker_lite.log.disk import Disk
from broker_lite.log.scan import Damaged, Readable, checked, intact_after
from broker_lite.records.batch import CRC_FROM, HEADER_SIZE, LOG_OVERHEAD, MAGIC, Batch

SECTOR = 512
FEWEST_ZEROS = 16
"""A batch has at most eleven zeros in a row (offset 0 and the start of the length), so more were never written."""
_OFFSET = struct.Struct(">q")
_STAMP = struct.Struct(">qiib")
_CRC = struct.Struct(">17xI")


class Place(NamedTuple):
    """A batch and where it lies."""

    path: Path
    position: int
    batch: Batch


class LogDamaged(Exception):
    """The log is not what was written; the message names the file and the byte."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


def read_whole(disk: Disk, folder: Path) -> Iterator[Place]:
    """Every batch, oldest first, up to the end or to a torn tail. LogDamaged where something else is wrong."""
    sizes = disk.sizes(folder)
    names = sorted(found[0] for name in sizes if (found := layout.parse_file_name(name)) and found[1] == layout.LOG)
    if not names and any(not name.endswith(".tmp") for name in sizes):
        raise LogDamaged(folder / layout.file_name(0, layout.LOG), 0, "the file is missing, others are there")
    due = names[0] if names else 0
    for base, following in zip(names, [*names[1:], None]):
        path = folder / layout.file_name(base, layout.LOG)
        if base != due:
            raise LogDamaged(path, 0, f"it begins with offset {base} where {due} is due")
        file = disk.open_read(path)
        try:
            for position, batch in _batches(file, sizes[path.name], base, is_last=following is None):
                due = batch.next_offset
                yield Place(path, position, batch)
        except Damaged as error:
            raise LogDamaged(path, error.position, str(error).partition(": ")[2]) from None
        finally:
            file.close()


def _batches(file: Readable, size: int, base: int, *, is_last: bool) -> Iterator[tuple[int, Batch]]:
    due = base
    try:
        for step, body in checked(file, 0, size, base=base, consecutive_from=base):
            if step.magic != MAGIC:
                raise Damaged(step.position, f"a message of magic {step.magic}")
            due = step.last + 1
            yield step.position, Batch(body)
    except Damaged as error:
        if not (is_last and _is_torn(file, error.position, size, due)):
            raise


def _is_torn(file: Readable, position: int, end: int, due: int) -> bool:
    """Whether a crash in the middle of an append may have left what lies from `position` on."""
    if intact_after(file, position, end, old=False) is not None:
        return False
    tail = file.pread(position, end - position)
    if len(tail) >= HEADER_SIZE and crc32c(tail[CRC_FROM:]) == _CRC.unpack_from(tail)[0]:
        return False
    return _is_beginning(tail, due) or _has_lost_sector(tail, position)


def _is_beginning(tail: bytes, due: int) -> bool:
    """Whether it is what an append writes first, and less than a whole batch."""
    if not _OFFSET.pack(due).startswith(tail[: _OFFSET.size]):
        return False
    if len(tail) < _STAMP.size:
        return True
    _, length, epoch, magic = _STAMP.unpack_from(tail)
    is_whole = LOG_OVERHEAD + length <= max(len(tail), HEADER_SIZE - 1)
    return bool(epoch == 0 and magic == MAGIC and not is_whole)


def _has_lost_sector(tail: bytes, position: int) -> bool:
    if len(tail) - len(tail.rstrip(b"\0")) >= FEWEST_ZEROS:
        return True
    start = 0
    while start < len(tail):
        stop = start + SECTOR - (position + start) % SECTOR
        piece = tail[start:stop]
        if len(piece) >= FEWEST_ZEROS and not piece.strip(b"\0"):
            return True
        start = stop
    return False
