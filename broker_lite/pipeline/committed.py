"""Which transactions are open, and which were aborted: what a reader of committed data has to know.

An aborted transaction is a producer and the offsets from its first record to its marker.  One that has no marker yet
holds everybody back: committed data ends where the first open transaction begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from broker_lite.log.layout import AbortedTxn, ProducerEntry
from broker_lite.pipeline.scan import Batches
from broker_lite.pipeline.varints import Mask


class Aborted(NamedTuple):
    producer_id: int
    first: int
    last: int


class Transactions:
    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: dict[tuple[int, int], Aborted] = {}

    @property
    def aborted(self) -> list[Aborted]:
        return sorted(self._aborted.values(), key=lambda one: one.last)

    def stable(self, high: int) -> int:
        return min([high, *self._open.values()])

    def know(self, entries: Iterable[AbortedTxn]) -> None:
        for entry in entries:
            one = Aborted(entry.producer_id, entry.first_offset, entry.last_offset)
            self._aborted[one.producer_id, one.last] = one

    def begin_with(self, producers: Iterable[ProducerEntry]) -> None:
        """The state at a snapshot, in place of what was known of open transactions."""
        self._open = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in producers
            if entry.current_txn_first_offset >= 0
        }

    def follow(self, batches: Batches, first: int) -> None:
        """Go on over these batches, as far as they begin at `first` or behind it."""
        rows = np.flatnonzero(batches.is_transactional & (batches.base_offset >= first))
        if not rows.size:
            return
        markers = batches.markers()
        for row in rows.tolist():
            producer, offset = int(batches.columns["producer_id"][row]), int(batches.base_offset[row])
            if not batches.is_control[row]:
                self._open.setdefault(producer, offset)
            elif markers[row] is not None:
                begun = self._open.pop(producer, None)
                if begun is not None and markers[row] == "abort":
                    self._aborted[producer, offset] = Aborted(producer, begun, offset)


def not_aborted(batches: Batches, aborted: Iterable[Aborted]) -> Mask:
    """The batches that are not part of an aborted transaction."""
    keep = np.ones(len(batches), dtype=np.bool_)
    if not len(batches) or not batches.is_transactional.any():
        return keep
    low, high = int(batches.base_offset[0]), int(batches.last_offset[-1])
    producers, offsets = batches.columns["producer_id"], batches.base_offset
    for one in aborted:
        if one.first <= high and one.last >= low:
            keep &= (producers != one.producer_id) | (offsets < one.first) | (offsets > one.last)
    # A producer that also writes outside of transactions loses only what was inside one.
    return keep | ~batches.is_transactional
