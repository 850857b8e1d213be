"""One segment, read a few megabytes at a time, always in whole batches.

A file that a broker still writes to may end in half a batch: that is the end, if the offsets asked for lie before it,
and damage if they do not.  Behind bytes that cannot be a batch the search goes on for the next sound one, if whoever
reads wants to go on; that the offsets between are missing is for him to tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.pipeline.errors import CutBatch
from broker_lite.pipeline.scan import Batches, find_next, scan
from broker_lite.pipeline.store import Reading
from broker_lite.records.batch import HEADER_SIZE, LOG_OVERHEAD

CHUNK = 8 << 20


def chunks(file: Reading, where: str, *, start: int, end: int, chunk: int = CHUNK) -> Iterator[Batches]:
    """Batches from byte `start` on whose first offset is before `end`; a file with a room has one piece at a time.

    Where `fault` is set, the next piece begins at the next sound batch.
    """
    position, above = start, -1
    while position < file.size:
        found = scan(file.next(position, min(chunk, file.size - position)), where, origin=position, before=end)
        if not len(found) and found.fault is None and not _reaches(found, end):
            large = _one_large(file, where, position, end)
            if large is None:
                return
            found = large
        if len(found):
            above = int(found.last_offset[-1])
        yield found
        position += found.end
        if found.fault is not None:
            position = _search(file, position, above, chunk)
        elif above + 1 >= end or _reaches(found, end):
            return


def _reaches(found: Batches, end: int) -> bool:
    """Whether the scan stopped because the batch that follows is not wanted any more."""
    head = found.buf[found.end : found.end + 17]
    return len(head) == 17 and head[16] == 2 and int.from_bytes(head[:8], "big", signed=True) >= end


def _one_large(file: Reading, where: str, position: int, end: int) -> Batches | None:
    """The batch at `position`, which is longer than a chunk or than the file; None if the log ends here."""
    head = file.at(position, LOG_OVERHEAD)
    offset = int.from_bytes(head[:8], "big", signed=True)
    size = LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True) if len(head) == LOG_OVERHEAD else HEADER_SIZE
    left = file.size - position
    if 0 < size <= left:
        return scan(file.next(position, size), where, origin=position, before=end)
    if offset >= end:
        return None
    cut = scan(b"", where, origin=position)
    cut.fault = CutBatch(where, position, f"a batch of {size} bytes is cut: {left} are left in the file")
    return cut


def _search(file: Reading, position: int, above: int, chunk: int) -> int:
    """Where the next sound batch behind `position` begins; the end of the file if there is none.

    Windows overlap by half, so that every batch of half a window lies whole in one of them.
    """
    after = 0
    while position < file.size:
        view = file.at(position, min(2 * chunk, file.size - position))
        found = find_next(view, after, above=above)
        if found is not None:
            return position + found
        if len(view) < 2 * chunk:
            break
        position, after = position + chunk, -1
    return file.size
