"""An archive, a data folder or a broker back into topics: key, value, headers, timestamp and partition stay.

Control records and those of aborted transactions are left out.  Each partition is written in order by one task; a task
may have several.  It is at least once: a task that Spark runs again writes again what it had written.

With a rate, the tasks share it.  With a speed, records come as far apart as they once came, times the speed: the driver
chooses one start instant for all, each task merges its partitions by time and waits for each record's moment.  How far
behind that moment it was at worst is told at the end.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.archive import read_manifest
from broker_lite.pipeline.entry import Entry
from broker_lite.pipeline.errors import Damaged, NotThere, PipelineError, Refused
from broker_lite.pipeline.options import Asked
from broker_lite.pipeline.progress import Progress, run_tasks
from broker_lite.pipeline.remote import Remote
from broker_lite.pipeline.sink import Sink, records_in
from broker_lite.pipeline.slices import Slice
from broker_lite.pipeline.store import Store
from broker_lite.records.build import NewRecord
from broker_lite.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAD_START = 3.0
"""Seconds from the driver's start instant to the first record, so that all tasks are there."""
_KEPT = {"retention.ms": "-1"}
"""Of a topic that is made here: its records are as old as they were, and retention would remove them at once."""
_GLANCE = 2.0
"""Seconds to look for the broker when somebody only wants to know how far it is."""
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition, from an archive's files or from slices, in order."""

    topic: str
    partition: int
    offsets: int
    archive: str | None = None
    files: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.archive is not None:
            store = Store(self.archive)
            for name in self.files:
                with pq.ParquetFile(store.open_arrow(name)) as file:
                    yield from file.iter_batches(_ROWS, columns=["key", "value", "headers", "timestamp"])
        for one in self.slices:
            for rows in one.rows():
                if not isinstance(rows, Damaged):
                    yield rows

    def records(self) -> Iterator[NewRecord]:
        for batch in self.batches():
            for at in range(0, len(batch), _ROWS):
                for _, _, record in records_in(batch.slice(at, _ROWS), self.topic):
                    yield record


@dataclass(frozen=True, slots=True)
class Task:
    lanes: tuple[Lane, ...]
    bootstrap: str
    entry: Entry
    rename: str | None
    codec: str
    rate: float | None
    """Records a second of this task."""
    speed: float | None
    begin: float
    """Seconds since 1970: when the first record of all is due."""
    first_ms: int
    """The time of the first record of all."""


@dataclass(frozen=True, slots=True)
class Replayed:
    records: int
    lag: float
    """Seconds that the latest record was behind its moment."""


@dataclass(slots=True)
class Summary:
    records: int
    partitions: int
    seconds: float
    lag: float


def lanes_of_archive(place: str, topics: tuple[str, ...] = ()) -> list[Lane]:
    manifest = read_manifest(Store(place))
    if manifest is None:
        raise NotThere(f"{place} is no archive: it has no manifest")
    there = {one.name for one in Store(place).listing()}
    found: dict[TopicPartition, list[tuple[int, int, str]]] = {}
    for one in manifest.files:
        if topics and one.topic not in topics:
            continue
        if one.file not in there:
            raise Refused(f"{place} is not finished: {one.file} is missing; run the archive job again")
        found.setdefault(TopicPartition(one.topic, one.partition), []).append((one.first, one.end, one.file))
    missing = sorted(set(topics) - {one.topic for one in found})
    if missing:
        raise NotThere(f"{place} has no topic {missing[0]}")
    return [
        Lane(
            part.topic,
            part.partition,
            sum(end - first for first, end, _ in files),
            place,
            tuple(name for _, _, name in sorted(files)),
        )
        for part, files in sorted(found.items())
    ]


def lanes_of_log(asked: Asked) -> list[Lane]:
    found: dict[TopicPartition, list[Slice]] = {}
    for one in plan.batch_slices(asked):
        found.setdefault(one.of, []).append(one)
    return [
        Lane(part.topic, part.partition, sum(one.end - one.first for one in slices), slices=tuple(slices))
        for part, slices in sorted(found.items())
    ]


def replay(
    spark: SparkSession,
    lanes: list[Lane],
    bootstrap: str,
    progress: Progress,
    *,
    entry: Entry | None = None,
    rename: str | None = None,
    codec: str = "none",
    rate: float | None = None,
    speed: float | None = None,
) -> Summary:
    begun = time.monotonic()
    entry = entry or Entry()
    _prepare(lanes, bootstrap, entry, rename)
    count = max(1, min(len(lanes), spark.sparkContext.defaultParallelism))
    # The longest lanes first, each to the task that has least: tasks end at about the same time.
    shares: list[list[Lane]] = [[] for _ in range(count)]
    for lane in sorted(lanes, key=lambda lane: -lane.offsets):
        min(shares, key=lambda share: sum(one.offsets for one in share)).append(lane)
    shares = [share for share in shares if share]
    first_ms = _first_time(lanes) if speed is not None else 0
    begin = time.time() + _HEAD_START
    tasks = [
        Task(
            tuple(share),
            bootstrap,
            entry,
            rename,
            codec,
            None if rate is None else rate / len(shares),
            speed,
            begin,
            first_ms,
        )
        for share in shares
    ]
    with Remote(bootstrap, entry, patience=_GLANCE) as remote:
        arrived = Arrived(remote, {(rename or lane.topic, lane.partition) for lane in lanes})
        done = run_tasks(
            spark,
            tasks,
            send,
            progress,
            size=lambda task: sum(lane.offsets for lane in task.lanes),
            watch=arrived.since,
        )
    return Summary(
        sum(one.records for one in done),
        len(lanes),
        time.monotonic() - begun,
        max((one.lag for one in done), default=0.0),
    )


def _prepare(lanes: list[Lane], bootstrap: str, entry: Entry, rename: str | None) -> None:
    """Topics that are not there are made, with as many partitions as are needed; too small ones are refused."""
    needed: dict[str, int] = {}
    for lane in lanes:
        topic = rename or lane.topic
        needed[topic] = max(needed.get(topic, 0), lane.partition + 1)
    with Remote(bootstrap, entry) as remote:
        there = remote.topics()
        for topic, partitions in needed.items():
            if topic not in there:
                remote.create(topic, partitions, _KEPT)
            elif len(there[topic]) < partitions:
                raise Refused(f"{topic} has {len(there[topic])} partitions, {partitions} are needed")


class Arrived:
    """How many records have come to the topics since it was made, from whomever: good enough to tell how far it is."""

    def __init__(self, remote: Remote, parts: Iterable[tuple[str, int]]) -> None:
        self._remote = remote
        self._topics: dict[str, list[int]] = {}
        for topic, part in sorted(parts):
            self._topics.setdefault(topic, []).append(part)
        self._seen = 0
        self._before = self._ends()

    def since(self) -> int:
        with suppress(PipelineError):  # whether the broker is away for good is for those to say who write to it
            self._seen = self._ends() - self._before
        return self._seen

    def _ends(self) -> int:
        told = (self._remote.bounds_of(topic, parts, committed=False) for topic, parts in self._topics.items())
        return sum(bounds.end for each in told for bounds in each.values())


def _first_time(lanes: list[Lane]) -> int:
    times = [record.timestamp for lane in lanes for record in [next(lane.records(), None)] if record is not None]
    return min((time for time in times if time is not None), default=0)


def send(task: Task) -> Replayed:
    """All lanes of a task, on a worker."""
    lag = 0.0
    pace = Pace(task)
    with Remote(task.bootstrap, task.entry) as remote:
        sink = Sink(remote, Codec[task.codec.upper()])
        for lane, record in _merged(task):
            late = pace.wait(record, sink)
            lag = max(lag, late)
            sink.add(task.rename or lane.topic, lane.partition, record)
        sink.flush()
        return Replayed(sink.written, lag)


def _merged(task: Task) -> Iterator[tuple[Lane, NewRecord]]:
    """By time if timing matters, else one lane after the other."""
    if task.speed is None:
        for lane in task.lanes:
            for record in lane.records():
                yield lane, record
        return

    def timed(lane: Lane, number: int) -> Iterator[tuple[int, int, Lane, NewRecord]]:
        # The log's order is kept even where its times go back: a record is due no earlier than the one before it.
        latest = 0
        for record in lane.records():
            latest = max(latest, record.timestamp or 0)
            yield latest, number, lane, record

    lanes = [timed(lane, number) for number, lane in enumerate(task.lanes)]
    for _, _, lane, record in heapq.merge(*lanes, key=lambda one: one[:2]):
        yield lane, record


class Pace:
    """When the next record may go: as fast as it can, so many a second, or at its own moment."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._begin = time.time()
        self._sent = 0
        self._latest = 0

    def wait(self, record: NewRecord, sink: Sink) -> float:
        """Wait; the seconds by which its moment is past."""
        task = self._task
        if task.rate is not None:
            due = self._begin + self._sent / task.rate
            self._sent += 1
        elif task.speed is not None:
            self._latest = max(self._latest, record.timestamp or 0)
            due = task.begin + (self._latest - task.first_ms) / 1000 / task.speed
        else:
            return 0.0
        ahead = due - time.time()
        if ahead > 0.01:
            sink.flush()  # what is due must not wait for what is not
            while (ahead := due - time.time()) > 0:
                time.sleep(min(ahead, 1.0))
        return max(-ahead, 0.0)
