"""Is a log sound, and what happened in it: every batch header and checksum, looked at where the data is.

Tasks look at slices (looking.py) and tell little; here the slices of a partition are joined in order, and what they
saw becomes findings.  A finding is a *fault* (something is lost, twice there or damaged), *unexplained* (it would be
one, unless the topic is compacted, which nobody told us), or a *note* (worth knowing, nobody's fault).

- checksum, damage    bytes that are not what was written
- gap, overlap        offsets missing between two batches, at the start or at the end; offsets that are there twice
- sequence gap        an idempotent producer's numbers jump: something it wrote is lost
- duplicate           they repeat: something it wrote is there twice
- disorder            LogAppendTime went back (a fault); CreateTime went back (a note: clients may send what they like)
- leader epoch        it went back: two brokers wrote this log
- index               an offset index leads to where its offset does not begin
- endless transaction a producer went on in a later epoch without a marker: the marker is lost
- open transaction    neither committed nor aborted, up to the end of what was read (a note)
- empty transaction   a marker without records (a note: a client may add a partition and write nothing)

Compaction removes batches and records on purpose, so in a compacted topic gaps of both kinds are no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.deals import LISTED, OPEN, Deals
from broker_lite.pipeline.folder import Bounds, Folder
from broker_lite.pipeline.looking import AT_MOST, CIRCLE, Disorder, Jump, Listed, Seen, Task, Words, look
from broker_lite.pipeline.options import Asked
from broker_lite.pipeline.progress import Progress, run_tasks
from broker_lite.pipeline.volume import Volume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARES = 8
"""Tasks of Spark's for each of its cores.  One costs 11 ms of processor time and more of waiting, in which twenty
megabytes of log are looked at; eight are enough that none of them is waited for long at the end."""
FAULT, UNEXPLAINED, NOTE = "fault", "unexplained", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    weight: str
    topic: str
    partition: int
    offset: int | None
    text: str


@dataclass(slots=True)
class PartitionFacts:
    topic: str
    partition: int
    start: int
    end: int
    batches: int = 0
    records: int = 0
    bytes: int = 0
    begun: int | None = None
    ended: int | None = None


@dataclass(slots=True)
class Report:
    partitions: list[PartitionFacts] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    untold: int = 0
    """Findings beyond those that are told one by one."""
    transactions: list[dict[str, object]] = field(default_factory=list)
    """Of each: topic, partition, producer_id, producer_epoch, first, last, records, outcome, time."""
    outcomes: dict[str, int] = field(default_factory=dict)
    volume: list[tuple[str, int, int, int]] = field(default_factory=list)
    """topic, time in ms, bytes, records."""

    @property
    def sound(self) -> bool:
        return all(one.weight == NOTE for one in self.findings)


@dataclass(slots=True)
class Known:
    """What is known of the topics besides their batches."""

    bounds: dict[TopicPartition, Bounds]
    compacted: dict[str, bool | None]
    """None: nobody told."""
    lost: set[TopicPartition]
    """Partitions without any file, though there should be one if anything was written."""

    def weight(self, topic: str) -> str | None:
        """How much it matters that something is missing in this topic; None where it is meant to be."""
        return {True: None, False: FAULT, None: UNEXPLAINED}[self.compacted.get(topic)]


Run = Callable[[Sequence[Task]], Iterable[Seen]]


def audit(asked: Asked, run: Run, *, compacted: Iterable[str] = ()) -> Report:
    """`run` looks at all tasks, in their order: on Spark (`on_spark`), or one after the other with `map(look, …)`."""
    known = _known(asked, set(compacted))
    slices = sorted(
        (one for one in plan.batch_slices(asked) if one.of not in known.lost), key=lambda one: (one.of, one.first)
    )
    tasks = [Task(one, at == 0 or slices[at - 1].of != one.of) for at, one in enumerate(slices)]
    report = Report()
    volumes: dict[str, Volume] = {}
    seen = {one: list(group) for one, group in groupby(run(tasks), lambda seen: (seen.topic, seen.partition))}
    for one, bounds in sorted(known.bounds.items()):
        facts = PartitionFacts(one.topic, one.partition, bounds.start, bounds.end)
        report.partitions.append(facts)
        Joining(report, known, one, facts).join(seen.get((one.topic, one.partition), []))
        for each in seen.get((one.topic, one.partition), []):
            volumes.setdefault(one.topic, Volume()).join(each.volume)
    step = max((volume.step for volume in volumes.values()), default=1)
    for topic, volume in sorted(volumes.items()):
        volume.widen(step)
        report.volume += [(topic, at * volume.step, *sums) for at, sums in sorted(volume.sums.items())]
    report.transactions = report.transactions[:LISTED]
    report.findings.sort(key=lambda one: (one.topic, one.partition, -1 if one.offset is None else one.offset, one.kind))
    return report


def on_spark(spark: SparkSession, progress: Progress) -> Run:
    def run(tasks: Sequence[Task]) -> list[Seen]:
        slots = min(len(tasks), SHARES * spark.sparkContext.defaultParallelism)
        size = lambda task: task.slice.end - task.slice.first  # noqa: E731
        return run_tasks(spark, tasks, look, progress, size=size, slots=slots)

    return run


def _known(asked: Asked, compacted: set[str]) -> Known:
    with plan.place_of(asked).opened() as source:
        parts = plan.choose(source, asked)
        bounds = plan.all_bounds(source, parts, committed=False)
        topics = {one.topic for one in parts}
        told: dict[str, dict[str, str] | None]
        lost: set[TopicPartition] = set()
        if isinstance(source, Folder):
            journal = source.journal
            told = {
                topic: None if journal is None else journal[topic].configs if topic in journal else {}
                for topic in topics
            }
            lost = {one for one in parts if source.is_lost(one)}
        else:
            told = {topic: source.configs(topic) for topic in topics}
    policies: dict[str, bool | None] = {}
    for topic, configs in told.items():
        policy = None if configs is None else "compact" in configs.get("cleanup.policy", "delete")
        policies[topic] = True if topic in compacted else policy
    return Known(bounds, policies, lost)


class Joining:
    """The slices of one partition, joined: what they saw, and what only shows between them."""

    def __init__(self, report: Report, known: Known, one: TopicPartition, facts: PartitionFacts) -> None:
        self._report, self._one, self._facts = report, one, facts
        self._bounds = known.bounds[one]
        self._weight = known.weight(one.topic)
        self._reached = self._bounds.start - 1
        self._epoch = -1
        self._sequences: dict[tuple[int, int], int] = {}
        self._time = -1
        self._disorder: dict[int, Disorder] = {}
        self._deals = Deals()
        self._told: dict[str, int] = {}
        self._said: set[str] = set()

    def join(self, slices: Iterable[Seen]) -> None:
        for seen in slices:
            self._count(seen)
            self._words("damage", seen.damage)
            self._words("checksum", seen.checksums)
            self._words("index", seen.indexes)
            self._offsets(seen)
            self._epochs(seen)
            self._jumps(seen)
            self._times(seen)
            self._deals.join(seen.deals)
        if self._reached + 1 < self._bounds.end:
            self._lost(self._reached + 1, self._bounds.end)
        for kind, told in sorted(self._disorder.items()):
            name = "LogAppendTime" if kind == 1 else "CreateTime"
            text = f"{name} goes back {told.times} times, at most by {told.step} ms"
            self._add("disorder", FAULT if kind == 1 else NOTE, told.offset, text)
        self._transactions()

    def _add(self, kind: str, weight: str | None, offset: int | None, text: str) -> None:
        if weight is None:
            return
        self._told[kind] = self._told.get(kind, 0) + 1
        if self._told[kind] > AT_MOST:
            self._report.untold += 1
            return
        self._report.findings.append(Finding(kind, weight, self._one.topic, self._one.partition, offset, text))

    def _words(self, kind: str, words: Words) -> None:
        for offset, text in words.each:
            # A slice begins where the index leads, which may be before its first batch: neighbours see the same place.
            if text not in self._said:
                self._said.add(text)
                self._add(kind, FAULT, offset, text)
        self._report.untold += words.count - len(words.each)

    def _each(self, listed: Listed, tell: Callable[[Jump], None]) -> None:
        for jump in listed.each:
            tell(jump)
        self._report.untold += listed.count - len(listed.each)

    def _count(self, seen: Seen) -> None:
        facts = self._facts
        facts.batches, facts.records = facts.batches + seen.batches, facts.records + seen.records
        facts.bytes += seen.bytes
        facts.begun = min((at for at in (facts.begun, seen.begun) if at is not None), default=None)
        facts.ended = max((at for at in (facts.ended, seen.ended) if at is not None), default=None)

    def _lost(self, first: int, end: int) -> None:
        self._add("gap", self._weight, first, f"offsets {first} to {end - 1} are missing")

    def _offsets(self, seen: Seen) -> None:
        if seen.offsets is None:
            return
        first = seen.offsets.first
        # A log may start inside a batch: then the batch begins before it.
        if first > self._reached + 1 or (first <= self._reached and self._reached >= self._bounds.start):
            self._jump(Jump(first, self._reached, min(self._reached, seen.offsets.last)))
        self._each(seen.gaps, self._jump)
        self._reached = max(self._reached, seen.offsets.last)

    def _jump(self, jump: Jump) -> None:
        if jump.offset > jump.before:
            self._lost(jump.before + 1, jump.offset)
        else:
            text = f"offsets {jump.offset} to {jump.after} are there twice"
            self._add("overlap", FAULT, jump.offset, text)

    def _epochs(self, seen: Seen) -> None:
        if seen.leader_epochs is None:
            return
        if seen.leader_epochs.first < self._epoch:
            self._epoch_back(Jump(seen.leader_epochs.at, self._epoch, seen.leader_epochs.first))
        self._each(seen.epoch_jumps, self._epoch_back)
        self._epoch = seen.leader_epochs.last

    def _epoch_back(self, jump: Jump) -> None:
        text = f"the leader epoch goes back from {jump.before} to {jump.after}"
        self._add("leader epoch", FAULT, jump.offset, text)

    def _jumps(self, seen: Seen) -> None:
        def thin(jump: Jump) -> None:
            text = f"a batch of {jump.before} offsets has {jump.after} records"
            self._add("gap", self._weight, jump.offset, text)

        self._each(seen.thin, thin)
        for who, ends in seen.sequences.items():
            before = self._sequences.get(who)
            if before is None:
                if ends.first != 0 and self._bounds.start == 0:
                    text = f"producer {who[0]} epoch {who[1]} begins with sequence {ends.first}, expected 0"
                    self._add("sequence gap", self._weight, ends.at, text)
            elif ends.first != (before + 1) % CIRCLE:
                self._sequence(Jump(ends.at, before, ends.first, who))
            self._sequences[who] = ends.last
        self._each(seen.sequence_jumps, self._sequence)

    def _sequence(self, jump: Jump) -> None:
        who = f"producer {jump.producer[0]} epoch {jump.producer[1]}"
        if (jump.after - jump.before - 1) % CIRCLE < CIRCLE // 2:
            text = f"{who} goes from sequence {jump.before} to {jump.after}"
            self._add("sequence gap", self._weight, jump.offset, text)
        else:
            text = f"{who} repeats sequence {jump.after} after {jump.before}"
            self._add("duplicate", FAULT, jump.offset, text)

    def _times(self, seen: Seen) -> None:
        if seen.times is not None:
            first, kind, offset = seen.times
            if first < self._time:
                self._disorder.setdefault(kind, Disorder()).add(1, self._time - first, offset)
            self._time = seen.last_time
        for kind, told in seen.disorder.items():
            self._disorder.setdefault(kind, Disorder()).add(told.times, told.step, told.offset)

    def _transactions(self) -> None:
        deals, outcomes = self._deals, self._report.outcomes
        for name, count in deals.outcomes.items():
            outcomes[name] = outcomes.get(name, 0) + count
        if still := len(deals.now) + len(deals.endless):
            outcomes[OPEN] = outcomes.get(OPEN, 0) + still
        place = {"topic": self._one.topic, "partition": self._one.partition}
        self._report.transactions += [place | asdict(deal) for deal in deals.all()]
        for deal in deals.endless:
            text = f"producer {deal.producer_id} epoch {deal.producer_epoch} went on without ending its transaction"
            self._add("endless transaction", self._weight, deal.first, text)
        for deal in sorted(deals.now.values(), key=lambda deal: deal.first):
            text = f"producer {deal.producer_id} has an open transaction of {deal.records} records"
            self._add("open transaction", NOTE, deal.first, text)
        for deal in deals.empty if self._weight is not None and self._bounds.start == 0 else ():
            text = f"producer {deal.producer_id} ended a transaction ({deal.outcome}) that has no records here"
            self._add("empty transaction", NOTE, deal.first, text)
