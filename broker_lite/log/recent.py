"""Where the last batches of a segment begin, so that a reader at the tail is answered without a look at the file.

One number of 64 bits for each, in one array: the first offset, counted from the segment's, and below it 32 bits of
position.  Rising offsets make rising numbers, so they can be searched; and the array is one stretch of memory, where a
dict of numbers would be spread over many: with thousands of partitions that is what an append waits for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

MOST = 64
FORGOTTEN = 32
"""So many of the oldest go at once when there are too many."""
_POSITION = (1 << 32) - 1


def position_of(offset: int, recent: array[int]) -> int | None:
    """Where the batch begins that was appended at `offset`, counted from the segment's; None if nobody remembers."""
    if not recent or offset < recent[0] >> 32:
        return None
    found = recent[-1]
    if offset < found >> 32:
        found = recent[bisect_left(recent, offset << 32)]
    return found & _POSITION if found >> 32 == offset else None
