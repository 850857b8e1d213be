"""Is a log sound, and what happened in it: SQL over one row a batch.

A finding is a *fault* (something is lost, twice there or damaged), *unexplained* (it would be one, unless the topic is
compacted, which nobody told us), or a *note* (worth knowing, nobody's fault).

- checksum, damage    bytes that are not what was written
- gap, overlap        offsets missing between two batches, at the start or at the end; offsets that are there twice
- sequence gap        an idempotent producer's numbers jump: something it wrote is lost
- duplicate           they repeat: something it wrote is there twice
- disorder            LogAppendTime went back (a fault); CreateTime went back (a note: clients may send what they like)
- open transaction    neither committed nor aborted, up to the end of what was read (a note)

Compaction removes batches and records on purpose, so in a compacted topic gaps of both kinds are no findings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_lite.ids import TopicPartition
from broker_lite.pipeline import plan
from broker_lite.pipeline.folder import Bounds
from broker_lite.pipeline.options import Asked
from broker_lite.pipeline.remote import Remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FAULT, UNEXPLAINED, NOTE = "fault", "unexplained", "note"
AT_MOST = 1000
"""Findings of one kind that are told one by one."""
_CIRCLE = 2**31

_BATCHES = "audited_batches"
_CHECKSUMS = f"""
SELECT topic, partition, base_offset, segment, position, fault FROM {_BATCHES}
WHERE NOT crc_ok ORDER BY topic, partition, position LIMIT {AT_MOST}"""
_GAPS = f"""
SELECT topic, partition, before, base_offset FROM (
  SELECT topic, partition, base_offset,
         LAG(last_offset) OVER (PARTITION BY topic, partition ORDER BY base_offset, position) AS before
  FROM {_BATCHES} WHERE fault IS NULL)
WHERE base_offset <> before + 1 ORDER BY topic, partition, base_offset LIMIT {AT_MOST}"""
_THIN = f"""
SELECT topic, partition, base_offset, last_offset, count FROM {_BATCHES}
WHERE fault IS NULL AND magic = 2 AND crc_ok AND count <> last_offset - base_offset + 1
ORDER BY topic, partition, base_offset LIMIT {AT_MOST}"""
_SEQUENCES = f"""
SELECT topic, partition, producer_id, producer_epoch, base_offset, base_sequence, before FROM (
  SELECT *, LAG((base_sequence + last_offset - base_offset) % {_CIRCLE}) OVER (
    PARTITION BY topic, partition, producer_id, producer_epoch ORDER BY base_offset, position) AS before
  FROM {_BATCHES} WHERE fault IS NULL AND crc_ok AND producer_id >= 0 AND base_sequence >= 0 AND NOT control)
WHERE (before IS NULL AND base_sequence <> 0) OR base_sequence <> (before + 1) % {_CIRCLE}
ORDER BY topic, partition, base_offset LIMIT {AT_MOST}"""
_DISORDER = f"""
SELECT topic, partition, timestamp_type, COUNT(*) AS times, MAX(before - max_timestamp) AS step,
       MIN(base_offset) AS base_offset
FROM (
  SELECT *, LAG(max_timestamp) OVER (PARTITION BY topic, partition ORDER BY base_offset, position) AS before
  FROM {_BATCHES} WHERE fault IS NULL AND crc_ok AND NOT control AND count > 0 AND max_timestamp >= 0)
WHERE max_timestamp < before GROUP BY topic, partition, timestamp_type ORDER BY topic, partition"""
_TRANSACTIONS = f"""
SELECT topic, partition, producer_id, MAX(producer_epoch) AS producer_epoch, MIN(base_offset) AS first,
       MAX(last_offset) AS last, SUM(CASE WHEN control THEN 0 ELSE count END) AS records,
       COALESCE(MAX(marker), 'open') AS outcome, MAX(max_timestamp) AS time
FROM (
  SELECT *, COALESCE(SUM(CASE WHEN marker IS NULL THEN 0 ELSE 1 END) OVER (
    PARTITION BY topic, partition, producer_id ORDER BY base_offset, position
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS number
  FROM {_BATCHES} WHERE fault IS NULL AND crc_ok AND transactional)
GROUP BY topic, partition, producer_id, number
HAVING SUM(CASE WHEN control THEN 0 ELSE 1 END) > 0"""
_PARTITIONS = f"""
SELECT topic, partition, COUNT(base_offset) AS batches, MIN(base_offset) AS first, MAX(last_offset) AS last,
       SUM(CASE WHEN control OR fault IS NOT NULL THEN 0 ELSE count END) AS records, SUM(size) AS bytes,
       MIN(CASE WHEN max_timestamp >= 0 THEN max_timestamp END) AS begun, MAX(max_timestamp) AS ended
FROM {_BATCHES} GROUP BY topic, partition"""


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
    transactions: list[dict[str, object]] = field(default_factory=list)
    """Of each: topic, partition, producer_id, producer_epoch, first, last, records, outcome."""
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


def audit(spark: SparkSession, asked: Asked, frame: DataFrame, *, compacted: Iterable[str] = ()) -> Report:
    """`frame` is what `broker_lite_batches` reads for `asked`."""
    known = _known(asked, set(compacted))
    frame.persist()
    frame.createOrReplaceTempView(_BATCHES)
    try:
        report = Report()
        _partitions(spark, known, report)
        _damage(spark, report)
        _gaps(spark, known, report)
        _sequences(spark, known, report)
        _times(spark, report)
        _outcomes(spark, report)
        report.volume = _volume(spark, report)
        return report
    finally:
        spark.catalog.dropTempView(_BATCHES)
        frame.unpersist()


def _known(asked: Asked, compacted: set[str]) -> Known:
    with plan.place_of(asked).opened() as source:
        parts = plan.choose(source, asked)
        bounds = plan.all_bounds(source, parts, committed=False)
        topics = {one.topic for one in parts}
        told: dict[str, dict[str, str] | None]
        if isinstance(source, Remote):
            told = {topic: source.configs(topic) for topic in topics}
        else:
            journal = source.topic_configs()
            told = {topic: None if journal is None else journal.get(topic, {}) for topic in topics}
    policies: dict[str, bool | None] = {}
    for topic, configs in told.items():
        policy = None if configs is None else "compact" in configs.get("cleanup.policy", "delete")
        policies[topic] = True if topic in compacted else policy
    return Known(bounds, policies)


def _add(report: Report, kind: str, weight: str, row: Row, text: str, offset: int | None = None) -> None:
    report.findings.append(Finding(kind, weight, row.topic, row.partition, offset, text))


def _partitions(spark: SparkSession, known: Known, report: Report) -> None:
    found = {TopicPartition(row.topic, row.partition): row for row in spark.sql(_PARTITIONS).collect()}
    for one, bounds in sorted(known.bounds.items()):
        facts = PartitionFacts(one.topic, one.partition, bounds.start, bounds.end)
        report.partitions.append(facts)
        row = found.get(one)
        lost: tuple[int, int] | None = (bounds.start, bounds.end) if bounds.end > bounds.start else None
        if row is not None and row.first is not None:
            facts.batches, facts.records, facts.bytes = row.batches, row.records, row.bytes
            facts.begun, facts.ended = row.begun, row.ended
            lost = (row.last + 1, bounds.end) if row.last + 1 < bounds.end else None
            if row.first > bounds.start:
                _lost(report, known, one, bounds.start, row.first)
        if lost is not None:
            _lost(report, known, one, *lost)


def _lost(report: Report, known: Known, one: TopicPartition, first: int, end: int) -> None:
    weight = _weight(known, one.topic)
    if weight is not None:
        text = f"offsets {first} to {end - 1} are missing"
        report.findings.append(Finding("gap", weight, one.topic, one.partition, first, text))


def _weight(known: Known, topic: str) -> str | None:
    """How much it matters that something is missing in this topic; None where it is meant to be."""
    return {True: None, False: FAULT, None: UNEXPLAINED}[known.compacted.get(topic)]


def _damage(spark: SparkSession, report: Report) -> None:
    for row in spark.sql(_CHECKSUMS).collect():
        if row.fault is not None:
            _add(report, "damage", FAULT, row, row.fault)
        else:
            text = f"{row.segment}: byte {row.position}: the checksum does not fit"
            _add(report, "checksum", FAULT, row, text, row.base_offset)


def _gaps(spark: SparkSession, known: Known, report: Report) -> None:
    for row in spark.sql(_GAPS).collect():
        if row.base_offset <= row.before:
            text = f"offsets {row.base_offset} to {row.before} are there twice"
            _add(report, "overlap", FAULT, row, text, row.base_offset)
        else:
            _lost(report, known, TopicPartition(row.topic, row.partition), row.before + 1, row.base_offset)
    for row in spark.sql(_THIN).collect():
        weight = _weight(known, row.topic)
        if weight is not None:
            due = row.last_offset - row.base_offset + 1
            text = f"a batch of {due} offsets has {row['count']} records"
            _add(report, "gap", weight, row, text, row.base_offset)


def _sequences(spark: SparkSession, known: Known, report: Report) -> None:
    for row in spark.sql(_SEQUENCES).collect():
        who = f"producer {row.producer_id} epoch {row.producer_epoch}"
        weight = _weight(known, row.topic)
        if row.before is None:
            if known.bounds[TopicPartition(row.topic, row.partition)].start == 0 and weight is not None:
                text = f"{who} begins with sequence {row.base_sequence}, expected 0"
                _add(report, "sequence gap", weight, row, text, row.base_offset)
            continue
        expected = (row.before + 1) % _CIRCLE
        if (row.base_sequence - expected) % _CIRCLE < _CIRCLE // 2:
            if weight is not None:
                text = f"{who} goes from sequence {row.before} to {row.base_sequence}"
                _add(report, "sequence gap", weight, row, text, row.base_offset)
        else:
            text = f"{who} repeats sequence {row.base_sequence} after {row.before}"
            _add(report, "duplicate", FAULT, row, text, row.base_offset)


def _times(spark: SparkSession, report: Report) -> None:
    for row in spark.sql(_DISORDER).collect():
        stamped = row.timestamp_type == 1
        name = "LogAppendTime" if stamped else "CreateTime"
        text = f"{name} goes back {row.times} times, at most by {row.step} ms"
        _add(report, "disorder", FAULT if stamped else NOTE, row, text, row.base_offset)


def _outcomes(spark: SparkSession, report: Report) -> None:
    spark.sql(_TRANSACTIONS).createOrReplaceTempView("audited_transactions")
    counted = spark.sql("SELECT outcome, COUNT(*) AS n FROM audited_transactions GROUP BY outcome").collect()
    report.outcomes = {row.outcome: row.n for row in counted}
    rows = spark.sql(f"SELECT * FROM audited_transactions ORDER BY topic, partition, first LIMIT {AT_MOST}").collect()
    report.transactions = [row.asDict() for row in rows]
    for row in spark.sql("SELECT * FROM audited_transactions WHERE outcome = 'open' ORDER BY 1, 2, 3").collect():
        text = f"producer {row.producer_id} has an open transaction of {row.records} records"
        _add(report, "open transaction", NOTE, row, text, row.first)


def _volume(spark: SparkSession, report: Report) -> list[tuple[str, int, int, int]]:
    """Bytes and records of each topic in about two hundred steps of time."""
    begun = min((one.begun for one in report.partitions if one.begun is not None), default=0)
    ended = max((one.ended for one in report.partitions if one.ended is not None), default=0)
    step = max((ended - begun) // 200, 1)
    rows = spark.sql(
        f"SELECT topic, {begun} + FLOOR((max_timestamp - {begun}) / {step}) * {step} AS time, SUM(size) AS bytes, "
        f"SUM(CASE WHEN control THEN 0 ELSE count END) AS records FROM {_BATCHES} "
        "WHERE fault IS NULL AND max_timestamp >= 0 GROUP BY 1, 2 ORDER BY 1, 2"
    ).collect()
    return [(row.topic, int(row.time), int(row.bytes), int(row.records)) for row in rows]
