"""What one task of an audit sees in its slice of a partition: faults inside it, and what its neighbours have to know.

A slice is looked at in one pass over the batch headers, a few array operations for some hundred batches.  Whatever
spans two slices (offsets, sequences, times, transactions) is told by its two ends, and `joining.py` compares the ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from broker_lite.pipeline.deals import Deals
from broker_lite.pipeline.folder import Folder
from broker_lite.pipeline.scan import Batches
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.varints import Ints, Mask
from broker_lite.pipeline.volume import Volume

AT_MOST = 1000
"""Findings of one kind that a task tells one by one; it counts all."""
CIRCLE = 2**31
"""Sequences begin again at 0 here."""


@dataclass(frozen=True, slots=True)
class Task:
    slice: Slice
    is_first: bool
    """Of its partition: a batch that begins before the slice is its own, not the neighbour's."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Two numbers that should follow each other and do not."""

    offset: int
    before: int
    after: int
    producer: tuple[int, int] = (-1, -1)


@dataclass(slots=True)
class Ends:
    """The first and the last of a row of numbers that should rise by one."""

    first: int
    at: int
    """The offset at which the first was seen."""
    last: int


@dataclass(slots=True)
class Disorder:
    times: int = 0
    step: int = 0
    offset: int = -1

    def add(self, times: int, step: int, offset: int) -> None:
        if self.offset < 0 or 0 <= offset < self.offset:
            self.offset = offset
        self.times, self.step = self.times + times, max(self.step, step)


@dataclass(slots=True)
class Listed:
    """Up to AT_MOST of something, and how many there are."""

    each: list[Jump] = field(default_factory=list)
    count: int = 0

    def add(self, one: Jump) -> None:
        self.count += 1
        if len(self.each) < AT_MOST:
            self.each.append(one)


@dataclass(slots=True)
class Words:
    """The same of places that are told in words: (offset, text)."""

    each: list[tuple[int | None, str]] = field(default_factory=list)
    count: int = 0

    def add(self, offset: int | None, text: str) -> None:
        self.count += 1
        if len(self.each) < AT_MOST:
            self.each.append((offset, text))


@dataclass(slots=True)
class Seen:
    """Everything that a task tells of its slice."""

    topic: str
    partition: int
    batches: int = 0
    records: int = 0
    bytes: int = 0
    offsets: Ends | None = None
    leader_epochs: Ends | None = None
    sequences: dict[tuple[int, int], Ends] = field(default_factory=dict)
    times: tuple[int, int, int] | None = None
    """Time, type and offset of the first batch that has a time."""
    last_time: int = -1
    begun: int | None = None
    ended: int | None = None
    damage: Words = field(default_factory=Words)
    checksums: Words = field(default_factory=Words)
    indexes: Words = field(default_factory=Words)
    thin: Listed = field(default_factory=Listed)
    gaps: Listed = field(default_factory=Listed)
    epoch_jumps: Listed = field(default_factory=Listed)
    sequence_jumps: Listed = field(default_factory=Listed)
    disorder: dict[int, Disorder] = field(default_factory=dict)
    deals: Deals = field(default_factory=Deals)
    volume: Volume = field(default_factory=Volume)


def look(task: Task) -> Seen:
    """One slice, on a worker."""
    seen = Seen(task.slice.topic, task.slice.partition)
    indexes = Indexes(task.slice.place.path)
    for found, _, first in task.slice.pieces():
        own = found.base_offset < task.slice.end
        own &= (found.last_offset >= first) if task.is_first else (found.base_offset >= task.slice.first)
        sound = found.sound()
        for index in np.flatnonzero(own & ~sound).tolist():
            at = found.origin + int(found.position[index])
            seen.checksums.add(int(found.base_offset[index]), f"{found.where}: byte {at}: the checksum does not fit")
        _count(seen, found, own)
        _offsets(seen, found, own)
        good = own & sound
        _insides(seen, found, good)
        _sequences(seen, found, good)
        _times(seen, found, good)
        seen.deals.follow(found, good)
        for text in indexes.lies(found):
            seen.indexes.add(None, text)
        if found.fault is not None:
            seen.damage.add(None, str(found.fault))
    return seen


def _count(seen: Seen, found: Batches, own: Mask) -> None:
    columns = found.columns
    counts = np.where(found.is_control, 0, columns["count"])[own]
    seen.batches += int(own.sum())
    seen.records += int(counts.sum())
    seen.bytes += int(found.size[own].sum())
    times = columns["max_timestamp"][own]
    timed = times >= 0
    if timed.any():
        low, high = int(times[timed].min()), int(times[timed].max())
        seen.begun = low if seen.begun is None else min(seen.begun, low)
        seen.ended = high if seen.ended is None else max(seen.ended, high)
        seen.volume.add(times[timed], found.size[own][timed], counts[timed])


def _offsets(seen: Seen, found: Batches, own: Mask) -> None:
    base, last = found.base_offset[own], found.last_offset[own]
    if not len(base):
        return
    if seen.offsets is None:
        seen.offsets = Ends(int(base[0]), int(base[0]), int(base[0]) - 1)
    # An offset that jumps ahead and comes back is one overlap, not one for each batch that follows.
    reached = np.maximum.accumulate(np.concatenate([[seen.offsets.last], last]))
    for index in np.flatnonzero(base != reached[:-1] + 1).tolist():
        seen.gaps.add(Jump(int(base[index]), int(reached[index]), min(int(last[index]), int(reached[index]))))
    seen.offsets.last = int(reached[-1])
    epochs = found.columns["leader_epoch"][own]
    known = np.flatnonzero(epochs >= 0)
    if known.size:
        if seen.leader_epochs is None:
            seen.leader_epochs = Ends(int(epochs[known[0]]), int(base[known[0]]), int(epochs[known[0]]))
        before = np.concatenate([[seen.leader_epochs.last], epochs[known][:-1]])
        for index in np.flatnonzero(epochs[known] < before).tolist():
            place = int(known[index])
            seen.epoch_jumps.add(Jump(int(base[place]), int(before[index]), int(epochs[place])))
        seen.leader_epochs.last = int(epochs[known[-1]])


def _insides(seen: Seen, found: Batches, good: Mask) -> None:
    due = found.last_offset - found.base_offset + 1
    thin = good & (found.columns["magic"] == 2) & (found.columns["count"] != due)
    for index in np.flatnonzero(thin).tolist():
        seen.thin.add(Jump(int(found.base_offset[index]), int(due[index]), int(found.columns["count"][index])))


def _sequences(seen: Seen, found: Batches, good: Mask) -> None:
    columns = found.columns
    rows = np.flatnonzero(good & (columns["producer_id"] >= 0) & (columns["base_sequence"] >= 0) & ~found.is_control)
    if not rows.size:
        return
    order = rows[np.lexsort((rows, columns["producer_epoch"][rows], columns["producer_id"][rows]))]
    producer, epoch = columns["producer_id"][order], columns["producer_epoch"][order]
    first = columns["base_sequence"][order]
    last = (first + found.last_offset[order] - found.base_offset[order]) % CIRCLE
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (producer[1:] != producer[:-1]) | (epoch[1:] != epoch[:-1])
    for index in np.flatnonzero(~new[1:] & (first[1:] != (last[:-1] + 1) % CIRCLE)).tolist():
        who = int(producer[index]), int(epoch[index])
        at = int(found.base_offset[order[index + 1]])
        seen.sequence_jumps.add(Jump(at, int(last[index]), int(first[index + 1]), who))
    starts = np.flatnonzero(new)
    stops = np.concatenate([starts[1:], [len(order)]]) - 1
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        who = int(producer[start]), int(epoch[start])
        at = int(found.base_offset[order[start]])
        ends = seen.sequences.get(who)
        if ends is None:
            seen.sequences[who] = Ends(int(first[start]), at, int(last[stop]))
            continue
        if int(first[start]) != (ends.last + 1) % CIRCLE:
            seen.sequence_jumps.add(Jump(at, ends.last, int(first[start]), who))
        ends.last = int(last[stop])


def _times(seen: Seen, found: Batches, good: Mask) -> None:
    columns = found.columns
    rows = np.flatnonzero(good & ~found.is_control & (columns["count"] > 0) & (columns["max_timestamp"] >= 0))
    if not rows.size:
        return
    times: Ints = columns["max_timestamp"][rows]
    kinds = np.where(columns["magic"][rows] == 0, -1, found.is_log_append_time[rows].astype(np.int64))
    offsets = found.base_offset[rows]
    if seen.times is None:
        seen.times = int(times[0]), int(kinds[0]), int(offsets[0])
    back = np.concatenate([[seen.last_time], times[:-1]]) - times
    for kind in np.unique(kinds[back > 0]).tolist():
        there = (back > 0) & (kinds == kind)
        told = seen.disorder.setdefault(int(kind), Disorder())
        told.add(int(there.sum()), int(back[there].max()), int(offsets[there].min()))
    seen.last_time = int(times[-1])


class Indexes:
    """The offset indexes of a folder, held against the batches they speak of."""

    def __init__(self, path: str | None) -> None:
        self._folder = None if path is None else Folder(path)
        self._name = ""
        self._base = 0
        self._entries: list[Ints] = []

    def lies(self, found: Batches) -> Iterator[str]:
        """What a segment's index says of these batches that is not so."""
        if self._folder is None or not len(found):
            return
        if found.where != self._name:
            self._name = found.where
            self._base, *self._entries = self._folder.index_of(found.where)
        offsets, positions = self._entries
        there = (positions >= found.origin) & (positions < found.origin + found.end)
        batch = np.searchsorted(found.position + found.origin, positions[there], side="right") - 1
        # Kafka looks for the last entry at or below an offset and reads on from there: no more is promised.
        wrong = (found.position[batch] + found.origin != positions[there]) | (
            found.base_offset[batch] > offsets[there] + self._base
        )
        for entry in np.flatnonzero(wrong).tolist():
            offset, position = int(offsets[there][entry]) + self._base, int(positions[there][entry])
            yield f"{found.where}: its index leads to byte {position} for offset {offset}, which does not begin there"
