"""Where a scenario takes place: one client under test, a reference to check it by, and names nobody else uses."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.clients.client import LATEST, Client, ClientError, Record


@dataclass(slots=True)
class World:
    """One client under test, a reference client to check it by, and names nobody else uses."""

    client: Client
    reference: Client
    reader: Client
    """The client itself, or the reference where the client can only read in groups and the broker has none yet."""
    seed: int = 0
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def fresh(self, what: str) -> str:
        return f"{what}-{self.client.name.replace('.', '-')}-{uuid.uuid4().hex[:8]}"

    def topic(self, what: str, *, partitions: int = 1) -> str:
        """A new topic that the reference client can see."""
        name = self.fresh(what)
        self.reference.create_topic(name, partitions=partitions)
        self.until(lambda: self.reference.partitions_of(name) == partitions, f"{name} has {partitions} partitions")
        return name

    def blob(self, size: int) -> bytes:
        """Bytes of all kinds, or printable ones for a client that only handles text."""
        if "binary" in self.client.lacks:
            return bytes(self.random.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=size))
        return self.random.randbytes(size)

    def records(self, count: int, *, size: int = 100) -> list[Record]:
        return [Record(key=b"key-%d" % n, value=b"%d " % n + self.blob(size)) for n in range(count)]

    @staticmethod
    def until(true: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Poll the broker until it says so: metadata and acks=0 writes become visible a moment later on any Kafka."""
        over = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < over, f"after {seconds:g} s it is not true that {what}"
            time.sleep(0.02)

    def holds(self, topic: str, count: int) -> None:
        """Wait for the reference to see that many; a broker that just started may still say that it leads nothing."""

        def all_there() -> bool:
            try:
                return self.reference.offset_of(topic, LATEST) >= count
            except ClientError:
                return False

        self.until(all_there, f"{topic} holds {count} records")


def same(got: Sequence[Record], wanted: Sequence[Record]) -> None:
    assert len(got) == len(wanted), f"{len(wanted)} records were written, {len(got)} came back"
    for place, (one, other) in enumerate(zip(got, wanted)):
        assert one.content == other.content, (
            f"record {place} came back as {one.content!r:.200}, not {other.content!r:.200}"
        )
        if other.timestamp is not None:
            assert one.timestamp == other.timestamp, f"record {place} has time {one.timestamp}, not {other.timestamp}"
