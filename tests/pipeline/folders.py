"""A data folder made by hand, so that every kind of fault can be put into it."""

from __future__ import annotations

from pathlib import Path

from broker_lite.ids import TopicPartition
from broker_lite.log.layout import HIGH_WATERMARKS, META_PROPERTIES, file_name, format_offsets, format_properties
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec
from broker_lite.records.control import build_marker, read_marker
from tests.pipeline.building import NOW


class Written:
    """One partition: batches are appended with rising offsets, and then what was written may be tampered with."""

    def __init__(self, data: Path, topic: str, partition: int = 0) -> None:
        self.one = TopicPartition(topic, partition)
        self.folder = data / f"{topic}-{partition}"
        self.folder.mkdir(parents=True)
        self.batches: list[bytearray] = []
        self.next = 0

    def add(
        self, count: int = 5, *, sequence: int = -1, producer: int = -1, producer_epoch: int = 0, **how: object
    ) -> Written:
        made = build_batch(
            [NewRecord(b"k", b"v" * 20) for _ in range(count)],
            timestamp=NOW + self.next,
            base_offset=self.next,
            producer_id=producer,
            producer_epoch=producer_epoch if producer >= 0 else -1,
            base_sequence=sequence,
            **how,  # type: ignore[arg-type]
        )
        self.batches.append(bytearray(made))
        self.next += count
        return self

    def end(self, producer: int, *, commit: bool) -> Written:
        made = bytearray(build_marker(producer, 0, commit=commit, coordinator_epoch=0, timestamp=NOW + self.next))
        made[:8] = self.next.to_bytes(8, "big")
        self.batches.append(made)
        self.next += 1
        return self

    @staticmethod
    def is_commit(marker: bytearray) -> bool:
        found = read_marker(Batch(memoryview(marker)))
        assert found is not None
        return found.commit

    def save(self) -> None:
        (self.folder / file_name(0, ".log")).write_bytes(b"".join(self.batches))


def finish(data: Path, partitions: list[Written]) -> Path:
    for one in partitions:
        one.save()
    (data / META_PROPERTIES).write_bytes(format_properties({"version": "1", "cluster.id": "by-hand"}))
    (data / HIGH_WATERMARKS).write_bytes(format_offsets({one.one: one.next for one in partitions}))
    return data


def idempotent(data: Path, topic: str) -> Written:
    """Six batches of a producer with sequences."""
    made = Written(data, topic)
    for index in range(6):
        made.add(5, producer=3, sequence=5 * index)
    return made


__all__ = ["Codec", "Written", "finish", "idempotent"]
