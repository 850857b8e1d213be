"""Micro-batches: what a stream reads next, and which offsets that were.

A micro-batch is a range of offsets for each partition, written down by Spark before it is read, so each offset is in
exactly one committed micro-batch whatever happens between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.errors import DataLost, WrongOption
from broker_lite.pipeline.folder import Bounds
from broker_lite.pipeline.options import Asked
from broker_lite.pipeline.rows import Part, rows
from broker_lite.pipeline.worker import settle

Offsets = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, asked: Asked, names: list[str]) -> None:
        self._asked, self._names = asked, names
        self._target: dict[TopicPartition, Bounds] | None = None

    def initialOffset(self) -> Offsets:
        with plan.place_of(self._asked).opened() as source:
            bounds = plan.all_bounds(source, plan.choose(source, self._asked), committed=self._asked.committed)
            return _as_json(plan.edges(source, self._asked.start, bounds, self._asked, start=True))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._asked.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._there()

    def _there(self) -> dict[TopicPartition, Bounds]:
        with plan.place_of(self._asked).opened() as source:
            return plan.all_bounds(source, plan.choose(source, self._asked), committed=self._asked.committed)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        there = self._target if self._target is not None else self._there()
        begun = _from_json(start)
        self._same_topics(begun, there)
        for one, known in there.items():
            if begun.get(one, 0) > known.end and self._asked.fail_on_loss:
                raise DataLost(
                    f"{one.topic}-{one.partition}: the checkpoint is at offset {begun[one]}, the log only goes to "
                    f"{known.end}: it was cut, or made anew"
                )
        new = {one: (begun.get(one, known.start), known.end) for one, known in there.items()}
        if isinstance(limit, ReadMaxRows):
            new = _at_most(new, limit.max_rows)
        return _as_json({one: end for one, (_, end) in new.items()})

    def reportLatestOffset(self) -> Offsets:
        return _as_json({one: known.end for one, known in self._there().items()})

    def _same_topics(self, begun: plan.Edges, now: Collection[TopicPartition]) -> None:
        """A checkpoint that knows partitions which are not read any more belongs to another query."""
        gone = sorted(set(begun) - set(now))
        if gone and self._asked.fail_on_loss:
            raise WrongOption(
                f"the checkpoint is of another query: it knows {gone[0].topic}-{gone[0].partition}, "
                "which is not read here"
            )

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        starts, ends = _from_json(start), _from_json(end)
        self._same_topics(starts, ends)
        with plan.place_of(self._asked).opened() as source:
            bounds = plan.all_bounds(source, ends, committed=self._asked.committed)
            begun = {one: starts.get(one, bounds[one].start) for one in ends}
            for one, known in bounds.items():
                if begun[one] < known.start and begun[one] < ends[one] and self._asked.fail_on_loss:
                    raise DataLost(
                        f"{one.topic}-{one.partition}: offset {begun[one]} is gone, the log begins at {known.start}"
                    )
                if ends[one] > known.end and self._asked.fail_on_loss:
                    raise DataLost(
                        f"{one.topic}-{one.partition}: the checkpoint goes to offset {ends[one]}, "
                        f"the log only to {known.end}"
                    )
            return [Part(one) for one in plan.slices_between(source, self._asked, bounds, begun, ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        return rows(cast(Part, partition).slice, self._names)


def _as_json(edges: plan.Edges) -> Offsets:
    out: Offsets = {}
    for one, offset in sorted(edges.items()):
        out.setdefault(one.topic, {})[str(one.partition)] = offset
    return out


def _from_json(offsets: Offsets) -> plan.Edges:
    return {TopicPartition(topic, int(part)): at for topic, parts in offsets.items() for part, at in parts.items()}


def _at_most(ranges: dict[TopicPartition, tuple[int, int]], most: int) -> dict[TopicPartition, tuple[int, int]]:
    """Each partition's share of `most` offsets, by how much it has; at least one where there is any."""
    total = sum(max(end - begin, 0) for begin, end in ranges.values())
    if total <= most:
        return ranges
    return {
        one: (begin, min(end, begin + max(1, (end - begin) * most // total)) if end > begin else end)
        for one, (begin, end) in ranges.items()
    }
