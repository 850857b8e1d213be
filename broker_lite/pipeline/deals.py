"""What became of each transaction, as batches and markers tell it; told by slices that can be joined in order.

A transaction of a producer in a partition is its batches up to the next marker.  At the beginning of a slice nobody
knows whether one was open, so the first of each producer is kept apart, and so is the last if it is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from broker_lite.pipeline.scan import Batches
from broker_lite.pipeline.varints import Mask

LISTED = 1000
OPEN = "open"


@dataclass(slots=True)
class Deal:
    producer_id: int
    producer_epoch: int
    """Of its records; the marker's may be one more (KIP-890)."""
    first: int
    """Its first offset; if it has no records here, that of its marker."""
    last: int
    records: int
    outcome: str
    time: int

    @property
    def is_bare(self) -> bool:
        """A marker and nothing else."""
        return self.outcome != OPEN and self.records == 0 and self.first == self.last

    def is_left_by(self, later: Deal) -> bool:
        """Whether the producer wrote again in a later epoch without a marker between."""
        return not later.is_bare and later.producer_epoch > self.producer_epoch

    def goes_on_with(self, later: Deal) -> Deal:
        return Deal(
            self.producer_id,
            self.producer_epoch,
            self.first,
            later.last,
            self.records + later.records,
            later.outcome,
            max(self.time, later.time),
        )


@dataclass(slots=True)
class Deals:
    first: dict[int, Deal] = field(default_factory=dict)
    """Of each producer: what the slice begins with, whole or not."""
    now: dict[int, Deal] = field(default_factory=dict)
    """Of each producer that had a marker in the slice: what is open behind its last one."""
    ended: set[int] = field(default_factory=set)
    """Producers that had a marker in the slice."""
    outcomes: dict[str, int] = field(default_factory=dict)
    each: list[Deal] = field(default_factory=list)
    endless: list[Deal] = field(default_factory=list)
    """Open ones whose producer went on in a later epoch, which it may only do behind a marker."""
    empty: list[Deal] = field(default_factory=list)
    """Markers without records before them."""

    def follow(self, found: Batches, good: Mask) -> None:
        rows = np.flatnonzero(good & found.is_transactional)
        if not rows.size:
            return
        columns, markers, control = found.columns, found.markers(), found.is_control
        for row in rows.tolist():
            if control[row] and markers[row] is None:
                continue
            deal = Deal(
                int(columns["producer_id"][row]),
                int(columns["producer_epoch"][row]),
                int(found.base_offset[row]),
                int(found.last_offset[row]),
                0 if control[row] else int(columns["count"][row]),
                markers[row] or OPEN,
                int(columns["max_timestamp"][row]),
            )
            self._add(deal)

    def _add(self, deal: Deal) -> None:
        who = deal.producer_id
        if who not in self.ended:
            known = self.first.get(who)
            if known is None or not known.is_left_by(deal):
                self.first[who] = deal if known is None else known.goes_on_with(deal)
                if deal.outcome != OPEN:
                    self.ended.add(who)
                return
            self.ended.add(who)  # the one before has no marker: what follows is another one
        known = self.now.pop(who, None)
        if known is not None and known.is_left_by(deal):
            self.endless.append(known)
            known = None
        whole = deal if known is None else known.goes_on_with(deal)
        if whole.outcome == OPEN:
            self.now[who] = whole
        else:
            self._close(whole)

    def _close(self, deal: Deal) -> None:
        if deal.is_bare:
            if len(self.empty) < LISTED:
                self.empty.append(deal)
            return
        self.outcomes[deal.outcome] = self.outcomes.get(deal.outcome, 0) + 1
        if len(self.each) < LISTED:
            self.each.append(deal)

    def join(self, later: Deals) -> None:
        """Go on with the slice that follows. Of the whole partition `first` is empty: nothing came before."""
        for who, deal in later.first.items():
            known = self.now.pop(who, None)
            if known is not None and known.is_left_by(deal):
                self.endless.append(known)
                known = None
            whole = deal if known is None else known.goes_on_with(deal)
            if whole.outcome != OPEN:
                self._close(whole)
            elif who in later.ended:
                self.endless.append(whole)
            else:
                self.now[who] = whole
        self.now |= later.now
        for name, count in later.outcomes.items():
            self.outcomes[name] = self.outcomes.get(name, 0) + count
        self.each += later.each[: LISTED - len(self.each)]
        self.empty += later.empty[: LISTED - len(self.empty)]
        self.endless += later.endless

    def all(self) -> Iterable[Deal]:
        """What is listed, and everything that is open."""
        return sorted([*self.each, *self.endless, *self.now.values()], key=lambda deal: deal.first)
