"""Producer ids, never given twice: a block is journalled before the first id of it is used.

Ids are counted up from 0 in blocks, as Kafka does it, and come from the journal alone.  What stands in a batch is the
client's word: an id of 2^63-1, written by anybody who may write to one topic, must not end the count.

Two others may know of ids that our journal does not: the folder of a Kafka that is taken over, and a transaction log
that came with it.  Those are skipped, unless they are so large that no broker has ever counted so far.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_lite.broker.journal import Change
from broker_lite.errors import ErrorCode, refusal
from broker_lite.ids import ProducerId

BLOCK = 1000
KIND = "producer-ids"
FIELDS = {"end": int}
MAX_ID = 2**63 - 1
MAX_FOREIGN = 2**48
"""Ids from elsewhere are believed up to this: at a million a second Kafka gets there in nine years."""
MAX_JOURNALLED = 2**53
"""Earlier versions let a client's id into the journal: a block above this is not one that was counted up to."""


RESET_MARGIN = 1000 * BLOCK
"""Where the journal has lost its count: ids that were given away and stand in no log."""


class ProducerIds:
    def __init__(self, write: Callable[[list[Change]], None]) -> None:
        self._write = write
        self._next = 0
        self._end = 0
        self.has_implausible_block = False
        """The journal has a block that no count has reached; whoever can look at the logs has to `reset`."""

    def apply(self, change: Change) -> None:
        """Ids below the block's end may be in use; the next one comes from a new block."""
        if change.value is not None:
            end = change.value["end"]
            assert isinstance(end, int)
            if not 0 <= end <= MAX_JOURNALLED:
                self.has_implausible_block = True
                return
            self._next = self._end = max(end, self._end)
            self.has_implausible_block = False

    def skip_past(self, seen: int) -> None:
        """`seen` is in use already: somebody else gave it away."""
        if self._next <= seen < MAX_FOREIGN:
            self._next = seen + 1
            self._end = max(self._end, self._next)

    def reset(self, seen: int) -> None:
        """Take up a count that was lost: `seen` is the highest plausible id in any log."""
        self._next = max(self._next, seen + 1) + RESET_MARGIN
        self._begin_block()
        self.has_implausible_block = False

    def new(self) -> ProducerId:
        if self._next >= self._end:
            self._begin_block()
        self._next += 1
        return ProducerId(self._next - 1)

    def _begin_block(self) -> None:
        end = self._next + BLOCK
        if end > MAX_ID:
            raise refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"all producer ids are used up, the last is {self._next - 1}")
        self._write([Change(KIND, "next", {"end": end})])
        self._end = end
