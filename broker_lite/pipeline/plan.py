"""From what was asked to slices: which partitions, from which offset to which, cut how.

All of it runs on the driver and looks only at names, checkpoints and indexes, never at records, except where a
time has to be turned into an offset or the outcome of transactions is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from broker_lite.ids import TopicPartition
from broker_lite.pipeline.errors import DataLost, NotThere, WrongOption
from broker_lite.pipeline.folder import SPLIT_BYTES, Bounds, Folder
from broker_lite.pipeline.options import EARLIEST, LATEST, Asked, Where
from broker_lite.pipeline.slices import Place, Slice

if TYPE_CHECKING:
    from broker_lite.pipeline.remote import Remote

Source: TypeAlias = "Folder | Remote"
Edges = dict[TopicPartition, int]
_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""No pattern means these: a broker does not list them either."""


def place_of(asked: Asked) -> Place:
    return Place(asked.path, asked.bootstrap, asked.entry)


def choose(source: Source, asked: Asked) -> list[TopicPartition]:
    """The partitions that were asked for; each must exist."""
    there = source.partitions()
    if asked.assigned is not None:
        wanted = [TopicPartition(topic, part) for topic, parts in asked.assigned.items() for part in parts]
        missing = sorted(set(wanted) - set(there))
        if missing:
            raise NotThere(f"{source.place} has no {missing[0].topic}-{missing[0].partition}")
        return sorted(wanted)
    if asked.pattern is not None:
        if isinstance(source, Folder):
            there = [one for one in there if one.topic not in _INTERNAL]
        # It may match anywhere in the name, as in the connector.
        found = [one for one in there if re.search(asked.pattern, one.topic)]
        if not found:
            raise NotThere(f"{source.place} has no topic that matches {asked.pattern!r}")
        return found
    if not asked.topics:
        if not isinstance(source, Folder):
            raise WrongOption("which topics? give subscribe, subscribePattern or assign")
        return [one for one in there if not one.topic.startswith("__")]
    for topic in asked.topics:
        if topic not in {one.topic for one in there}:
            raise NotThere(f"{source.place} has no topic {topic}")
    return [one for one in there if one.topic in asked.topics]


def all_bounds(source: Source, parts: Iterable[TopicPartition], *, committed: bool) -> dict[TopicPartition, Bounds]:
    if isinstance(source, Folder):
        return {one: source.bounds(one, committed=committed) for one in parts}
    found: dict[TopicPartition, Bounds] = {}
    by_topic: dict[str, list[int]] = {}
    for one in parts:
        by_topic.setdefault(one.topic, []).append(one.partition)
    for topic, indexes in by_topic.items():
        for index, bounds in source.bounds_of(topic, indexes, committed=committed).items():
            found[TopicPartition(topic, index)] = bounds
    return found


def edges(source: Source, where: Where, bounds: Mapping[TopicPartition, Bounds], asked: Asked, *, start: bool) -> Edges:
    """The offset at which reading starts (or ends) in each partition."""
    told = where.offsets or where.timestamps
    if told:
        given = {TopicPartition(topic, part) for topic, parts in told.items() for part in parts}
        if given != set(bounds):
            missing = sorted(set(bounds) ^ given)[0]
            raise WrongOption(
                f"the {'starting' if start else 'ending'} offsets and the partitions that are read differ: "
                f"{missing.topic}-{missing.partition} is only in one of them"
            )
    return {one: _edge(source, where, one, known, asked, start=start) for one, known in bounds.items()}


def _edge(source: Source, where: Where, one: TopicPartition, known: Bounds, asked: Asked, *, start: bool) -> int:
    timestamp = where.timestamp
    if where.timestamps:
        timestamp = where.timestamps[one.topic][one.partition]
    if timestamp is not None:
        found = source.offset_by_time(one, timestamp, known)
        if found is None and start and asked.no_later_is_an_error:
            raise WrongOption(f"{one.topic}-{one.partition} has no record at or after {timestamp}")
        return known.end if found is None else min(found, known.end)
    offset = where.offsets[one.topic][one.partition] if where.offsets else where.offset
    if offset == EARLIEST:
        return known.start
    if offset == LATEST or offset is None:
        return known.end
    if start and not known.start <= offset <= known.end:
        if asked.fail_on_loss:
            raise DataLost(
                f"{one.topic}-{one.partition}: offset {offset} is not there, the log has {known.start} to {known.end}"
            )
        return min(max(offset, known.start), known.end)
    if offset > known.end and asked.fail_on_loss:
        raise DataLost(f"{one.topic}-{one.partition}: offset {offset} is not there, the log ends at {known.end}")
    return min(offset, known.end)


def batch_slices(asked: Asked) -> list[Slice]:
    """Everything that a batch query reads."""
    with place_of(asked).opened() as source:
        bounds = all_bounds(source, choose(source, asked), committed=asked.committed)
        starts = edges(source, asked.start, bounds, asked, start=True)
        ends = edges(source, asked.end, bounds, asked, start=False)
        for one, first in starts.items():
            if first > ends[one]:
                raise WrongOption(
                    f"{one.topic}-{one.partition}: the start, offset {first}, is behind the end, offset {ends[one]}"
                )
        return slices_between(source, asked, bounds, starts, ends)


def slices_between(
    source: Source, asked: Asked, bounds: Mapping[TopicPartition, Bounds], starts: Edges, ends: Edges
) -> list[Slice]:
    total = sum(max(ends[one] - starts[one], 0) for one in ends)
    found: list[Slice] = []
    for one, end in ends.items():
        first = starts[one]
        if first >= end:
            continue
        share = max(1, round((asked.min_partitions or 0) * (end - first) / max(total, 1)))
        for low, high in cut(source, one, first, end, at_least=share):
            aborted = tuple(txn for txn in bounds[one].aborted if txn.last >= low and txn.first < high)
            found.append(
                Slice(
                    place_of(asked),
                    one.topic,
                    one.partition,
                    low,
                    high,
                    asked.committed,
                    aborted,
                    asked.fail_on_loss,
                    asked.on_corrupt,
                )
            )
    return found


def cut(
    source: Source, one: TopicPartition, first: int, end: int, *, at_least: int = 1, size: int = SPLIT_BYTES
) -> list[tuple[int, int]]:
    """Files are cut by bytes between batches; what comes over the wire by offsets, since nobody knows the bytes."""
    ranges = source.split(one, first, end, size) if isinstance(source, Folder) else [(first, end)]
    if len(ranges) >= at_least:
        return ranges
    edges = [first + (end - first) * n // at_least for n in range(at_least + 1)]
    return [(low, high) for low, high in pairwise(edges) if low < high]
