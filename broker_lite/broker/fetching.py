"""Reading for a fetch: what to read, when it is enough, and waiting for more.

A fetch is answered at once when it has bytes enough, an error to tell, or no time to wait; otherwise it is parked under
its partitions and read once more when an append makes it enough or its time is over.  What is read stays on disk as
file slices until the socket takes it; slices of a first look that was not enough are given back.

Enough is what Kafka takes for it: not the bytes that are sent but those that lie there, of each partition as many as
it may give.  Kafka sends just these, with the last batch cut off; here an answer ends with a whole batch, so it is
mostly smaller.  To wait would bring no more, nor would it for a reader in a segment that is no longer written to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable
from typing import TYPE_CHECKING

from broker_lite.broker.fetch_sessions import Want
from broker_lite.errors import BrokerError, ErrorCode, UnknownTopicId
from broker_lite.ids import NO_TOPIC_ID, Offset
from broker_lite.log.layout import AbortedTxn
from broker_lite.log.slice import FileSlice
from broker_lite.shapes import dataclass

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker
    from broker_lite.partition.partition import Partition

LONGEST_WAIT_MS = 60_000
"""However long a client would wait, it hears from us after so long; those who mean it ask again."""


@dataclass(slots=True)
class Fetched:
    """What one partition gives to a fetch."""

    want: Want
    error: ErrorCode = ErrorCode.NONE
    high: int = -1
    stable: int = -1
    start: int = -1
    records: FileSlice | bytes | None = None
    """Bytes only where they had to be converted."""
    aborted: list[AbortedTxn] | None = None
    diverging: tuple[int, int] | None = None
    old: bool = False
    """There may be messages of magic 0 or 1 among the records."""


@dataclass(slots=True)
class Appetite:
    """How much a fetch wants, and how long it waits for it."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    committed: bool
    one_of_each: bool = False
    """Not only the first partition with records gives at least one batch: each does."""


class Fetch:
    """One fetch request on its way."""

    def __init__(self, broker: Broker, wants: list[Want], appetite: Appetite) -> None:
        self._broker = broker
        self._wants = wants
        self._appetite = appetite

    def run(self) -> list[Fetched] | Awaitable[list[Fetched]]:
        """The answer, or something to wait for that gives it."""
        results, size, must_tell = self._read()
        if must_tell or not self._wants or self._appetite.max_wait_ms <= 0 or self._is_enough(size):
            return results
        release(results)
        return self._wait_and_read()

    async def _wait_and_read(self) -> list[Fetched]:
        try:
            by_partition: dict[Hashable, Want] = {self._find(want).tp: want for want in self._wants}
        except BrokerError:
            return self._read()[0]  # a topic was deleted a moment ago

        def is_enough(changed: Hashable | None) -> bool:
            if self._appetite.min_bytes > 1:
                return self._has_enough_bytes()
            wants = self._wants if changed is None else [by_partition[changed]]
            return any(self._has_some(want) for want in wants)

        await self._broker.purgatory.wait(
            by_partition, is_enough, within=min(self._appetite.max_wait_ms, LONGEST_WAIT_MS) / 1000
        )
        return self._read()[0]

    def _has_some(self, want: Want) -> bool:
        """Is there something to tell of this partition? Cheap, because one byte is mostly all that is waited for."""
        try:
            return self._find(want).offsets.visible(committed=self._appetite.committed) > want.offset
        except BrokerError:
            return True

    def _has_enough_bytes(self) -> bool:
        results, size, must_tell = self._read()
        release(results)
        return must_tell or self._is_enough(size)

    def _is_enough(self, size: int) -> bool:
        """Is it, if `size` bytes would be sent?"""
        if size >= self._appetite.min_bytes:
            return True
        if self._appetite.min_bytes <= 1:
            return False
        lie_there = 0
        for want in self._wants:
            try:
                found = self._find(want).ahead(Offset(want.offset), committed=self._appetite.committed)
            except (BrokerError, OSError):
                return True  # reading tells what is wrong
            if found is None:
                return True
            lie_there += min(found, want.max_bytes)
        return lie_there >= self._appetite.min_bytes

    def _read(self) -> tuple[list[Fetched], int, bool]:
        """All partitions in plan order; how many bytes that is; whether something must be told without waiting."""
        results: list[Fetched] = []
        size, must_tell = 0, False
        left = self._appetite.max_bytes
        for want in self._wants:
            fetched = self.read_one(want, left, at_least_one=size == 0 or (self._appetite.one_of_each and left > 0))
            results.append(fetched)
            if fetched.records is not None:
                size += len(fetched.records)
                left = max(0, left - len(fetched.records))
            must_tell = must_tell or fetched.error != ErrorCode.NONE or fetched.diverging is not None
        return results, size, must_tell

    def read_one(self, want: Want, left: int, *, at_least_one: bool) -> Fetched:
        try:
            partition = self._find(want)
            partition.check_leader_epoch(want.current_leader_epoch)
            if want.last_fetched_epoch >= 0:
                diverging = partition.diverging(Offset(want.offset), want.last_fetched_epoch)
                if diverging is not None:
                    offsets = partition.offsets
                    return Fetched(
                        want, high=offsets.high, stable=offsets.stable, start=offsets.start, diverging=diverging
                    )
            read = partition.read(
                Offset(want.offset),
                max_bytes=min(want.max_bytes, left),
                committed=self._appetite.committed,
                at_least_one=at_least_one,
            )
        except BrokerError as error:
            return Fetched(want, error.code)
        return Fetched(
            want,
            high=read.high,
            stable=read.stable,
            start=read.start,
            records=read.records,
            aborted=read.aborted,
            old=want.offset < partition.old_until,
        )

    def _find(self, want: Want) -> Partition:
        topics = self._broker.topics
        if want.topic_id == NO_TOPIC_ID and want.topic:
            return topics.partition(want.topic, want.partition)
        topic = topics.by_id(want.topic_id)
        if topic is None:
            raise UnknownTopicId("no topic has this id")
        return topics.partition(topic.name, want.partition)


def release(results: list[Fetched]) -> None:
    """Give back what was read and is not sent."""
    for fetched in results:
        if isinstance(fetched.records, FileSlice):
            fetched.records.release()
            fetched.records = None
