"""What clients were told, and whether a broker holds it.

`Known` is what one client knows of its own topics and rules; nobody else touches them, so what it was told is true.
What is under way when a copy of the folder is taken may have happened or not; what was refused for sure has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker_lite.broker.broker import Broker
from broker_lite.ids import Offset
from broker_lite.partition.partition import Partition
from broker_lite.records.record import records_of
from broker_lite.security.acls import Filter

PLAIN, KEYED, AGING = "plain", "keyed", "aging"
RETENTION_MS = 20_000


@dataclass
class Part:
    """One partition."""

    acked: dict[int, bytes] = field(default_factory=dict)
    written_ms: dict[int, int] = field(default_factory=dict)
    keys: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Where each key was acknowledged last."""
    tried: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    """Those of which was said for sure that they were not written."""
    start: int = 0
    asked_start: int | None = None
    """A deletion that is under way."""

    @property
    def end(self) -> int:
        return max(self.acked, default=-1) + 1


@dataclass
class Known:
    """A topic that was acknowledged."""

    id: bytes
    kind: str
    configs: dict[str, str]
    parts: list[Part]
    asked_configs: dict[str, str] | None = None
    asked_count: int | None = None
    deleting: bool = False
    unsure: bool = False
    """The disk failed under it, so a power cut may take it away."""


@dataclass
class Told:
    """All that one client was told."""

    prefix: str
    topics: dict[str, Known] = field(default_factory=dict)
    creating: str | None = None
    gone: set[bytes] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    asked_rules: set[str] = field(default_factory=set)
    """Rules whose making or removal is under way, or was left in the air."""


def anomalies(broker: Broker, told: Told, *, now_ms: int, power_cut: bool = False) -> Iterator[str]:
    """In what the broker holds something else than was acknowledged."""
    there = {topic.name: topic for topic in broker.topics if topic.name.startswith(told.prefix)}
    for name, known in told.topics.items():
        topic = there.pop(name, None)
        if topic is None or topic.id != known.id:
            if not known.deleting and not (known.unsure and power_cut):
                yield f"{name} is gone"
            continue
        if topic.configs not in (known.configs, known.asked_configs) and not (known.unsure and power_cut):
            yield f"{name} is configured to {topic.configs}, not {known.configs}"
        if topic.partition_count not in (len(known.parts), known.asked_count):
            yield f"{name} has {topic.partition_count} partitions, not {len(known.parts)}"
        for index, part in enumerate(known.parts):
            for one in of_partition(broker.topics.partition(name, index), part, known.kind, now_ms):
                yield f"{name}-{index}: {one}"
    for name, topic in there.items():
        if topic.id in told.gone:
            yield f"{name} was deleted and is back"
        elif name != told.creating and name not in told.topics:
            yield f"{name} was refused and is there"
    rules = {one.principal for one in broker.acls.matching(Filter()) if one.principal.startswith(f"User:{told.prefix}")}
    if wrong := (rules ^ told.rules) - told.asked_rules:
        yield f"rules that are there or missing: {sorted(wrong)}"


def of_partition(partition: Partition, part: Part, kind: str, now_ms: int) -> Iterator[str]:
    log = partition.log
    if log.recovered.damage is not None:
        yield f"damaged: {log.recovered.damage}"
        return
    found = {
        record.offset: (record.key, record.value or b"")
        for batch in log.batches(log.start)
        for record in records_of(batch)
        if record.offset >= log.start
    }
    values = [value for _, value in found.values()]
    if kind != KEYED and list(found) != list(range(log.start, log.end)):
        yield f"offsets from {log.start} to {log.end} are not all there: {sorted(found)}"
    if len(set(values)) != len(values):
        yield "a value is there twice"
    if wrong := part.refused.intersection(values):
        yield f"refused and there: {sorted(wrong)}"
    if wrong := set(values) - part.tried:
        yield f"never sent: {sorted(wrong)}"
    yield from of_start(part, kind, log.start, now_ms)
    for offset, value in part.acked.items():
        if offset >= log.start and (offset in found or kind != KEYED) and found.get(offset, (b"", b""))[1] != value:
            yield f"offset {offset} of {log.start} to {log.end} is {found.get(offset)}, not {value!r} ({kind})"
    if log.end < part.end:
        yield f"the end is {log.end}, {part.end} was acknowledged"
    latest = {key: offset for offset, (key, _) in found.items()}
    for key, (offset, value) in part.keys.items():
        if latest.get(key, -1) < offset:
            yield f"key {key!r} was written at {offset} ({value!r}) and is at {latest.get(key)}"


def of_start(part: Part, kind: str, start: Offset, now_ms: int) -> Iterator[str]:
    if kind == AGING:
        young = [one for one in part.acked if one < start and now_ms - part.written_ms[one] <= RETENTION_MS]
        if young and max(young) >= max(part.start, part.asked_start or 0):
            ages = [now_ms - part.written_ms[one] for one in young]
            yield f"the start is {start}, and offsets {young} were too young for that: {ages} ms"
        if start < part.start:
            yield f"the start is {start}, {part.start} was acknowledged"
    elif start not in (part.start, part.asked_start):
        yield f"the start is {start}, {part.start} was acknowledged"
