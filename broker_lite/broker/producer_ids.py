"""Producer ids, never given twice: a block is journalled before the first id of it is used."""

from __future__ import annotations

from collections.abc import Callable

from broker_lite.broker.journal import Change
from broker_lite.ids import ProducerId

BLOCK = 1000
KIND = "producer-ids"


class ProducerIds:
    def __init__(self, write: Callable[[list[Change]], None]) -> None:
        self._write = write
        self._next = 0
        self._end = 0

    def apply(self, change: Change) -> None:
        """Ids below the block's end may be in use; the next one comes from a new block."""
        if change.value is not None:
            end = change.value["end"]
            assert isinstance(end, int)
            self._next = self._end = max(end, self._end)

    def skip_past(self, seen: int) -> None:
        """`seen` is in use already: it stands in a log that we did not write."""
        if seen >= self._next:
            self._next = seen + 1
            self._end = max(self._end, self._next)

    def new(self) -> ProducerId:
        if self._next >= self._end:
            end = self._next + BLOCK
            self._write([Change(KIND, "next", {"end": end})])
            self._end = end
        self._next += 1
        return ProducerId(self._next - 1)
