"""A partition against a model that remembers everything and decides from the whole history.

The model is the list of what was written.  What a producer may send next, which transactions are open and what a
read_committed consumer sees is worked out from that list anew each time, by the rules as a person would tell them.
The partition must agree after any mixture of appends, repeats, fencing, markers, deletions, restarts and kills, and
of appends that a full disk refuses half way.  Once where everybody may read what is written, once where only what is
synced may be read: there a reader sees what the history was when the last sync was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker_lite.errors import BrokerError, ErrorCode, InvalidProducerEpoch, StorageFailed
from broker_lite.ids import Offset
from broker_lite.log.log import LogSettings
from broker_lite.partition.partition import PartitionSettings
from broker_lite.records.batch import walk
from broker_lite.records.control import read_marker
from tests.partition.house import FullDisk, House, batch, delete_records

WRAP = 2**31
PRODUCERS = st.integers(1, 3)


@dataclass
class Event:
    base: int
    count: int
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    commit: bool | None = None
    """Of a marker; None: records."""


class History:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def upto(self, offset: int) -> History:
        """What is known to somebody who sees nothing from this offset on."""
        known = History()
        known.events = [event for event in self.events if event.base < offset]
        return known

    @property
    def end(self) -> int:
        return self.events[-1].base + self.events[-1].count if self.events else 0

    def of(self, producer: int) -> list[Event]:
        return [event for event in self.events if event.producer == producer]

    def epoch(self, producer: int) -> int | None:
        mine = self.of(producer)
        return mine[-1].epoch if mine else None

    def window(self, producer: int) -> list[Event]:
        """The last five batches, as far as the epoch has not changed since."""
        mine, found = self.of(producer), []
        for event in reversed(mine):
            if event.epoch != mine[-1].epoch:
                break
            if event.commit is None:
                found.append(event)
        return found[4::-1]

    def open_since(self, producer: int) -> int | None:
        first = None
        for event in self.of(producer):
            if event.commit is not None:
                first = None
            elif event.transactional and first is None:
                first = event.base
        return first

    def next_sequence(self, producer: int) -> int:
        window = self.window(producer)
        return (window[-1].sequence + window[-1].count) % WRAP if window else 0

    def verdict(self, sent: Event) -> int | ErrorCode:
        """The base offset that the producer must hear, or the error."""
        epoch = self.epoch(sent.producer)
        if epoch is None:
            return self.end
        for event in self.window(sent.producer):
            if (event.epoch, event.sequence, event.count) == (sent.epoch, sent.sequence, sent.count):
                return event.base
        if sent.epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = 0 if sent.epoch > epoch else self.next_sequence(sent.producer)
        if sent.sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since(sent.producer) is not None and not sent.transactional:
            return ErrorCode.INVALID_TXN_STATE
        return self.end

    def stable(self) -> int:
        begun = [self.open_since(producer) for producer in {event.producer for event in self.events}]
        return min((first for first in begun if first is not None), default=self.end)

    def committed(self, start: int) -> list[int]:
        """First offsets of the batches that a read_committed consumer gets."""
        seen = []
        for event in self.events:
            if event.commit is not None or event.base >= self.stable() or event.base + event.count <= start:
                continue
            if event.transactional:
                markers = [one for one in self.of(event.producer) if one.commit is not None and one.base > event.base]
                if not markers or not markers[0].commit:
                    continue
            seen.append(event.base)
        return seen


class OnePartition(RuleBasedStateMachine):
    hold_high_until_synced = False

    @initialize()
    def open(self) -> None:
        small = PartitionSettings(
            log=LogSettings(segment_bytes=900, index_interval_bytes=100),
            hold_high_until_synced=self.hold_high_until_synced,
        )
        self.disk = FullDisk()
        self.house = House(Path("/data"), self.disk, small)
        self.history = History()
        self.start = self.synced = 0

    @property
    def high(self) -> int:
        return self.synced if self.hold_high_until_synced else self.history.end

    @property
    def visible(self) -> History:
        return self.history.upto(self.high)

    def send(self, sent: Event) -> None:
        expected = self.history.verdict(sent)
        one = batch(
            *[b"x"] * sent.count,
            producer=sent.producer,
            epoch=sent.epoch,
            sequence=sent.sequence,
            transactional=sent.transactional,
        )
        if isinstance(expected, ErrorCode):
            with pytest.raises(BrokerError) as refused:
                self.house.append(one)
            assert refused.value.code == expected
            return
        appended = self.house.append(one)
        assert appended.base == expected
        assert appended.last == appended.base + sent.count - 1
        assert appended.duplicate == (expected != self.history.end)
        if not appended.duplicate:
            sent.base = appended.base
            self.history.events.append(sent)

    @rule(count=st.integers(1, 3))
    def append_without_a_producer(self, count: int) -> None:
        base = self.house.append(batch(*[b"x"] * count)).base
        assert base == self.history.end
        self.history.events.append(Event(base, count))

    @rule(
        producer=PRODUCERS,
        count=st.integers(1, 3),
        begin=st.sampled_from([0, 1000, WRAP - 1, WRAP - 2]),
        transactional=st.sampled_from([True, True, None]),
    )
    def append_in_order(self, producer: int, count: int, begin: int, transactional: bool | None) -> None:
        history = self.history
        epoch = history.epoch(producer)
        sequence = begin if epoch is None else history.next_sequence(producer)
        if transactional is None:
            transactional = history.open_since(producer) is not None
        self.send(Event(0, count, producer, epoch or 0, sequence, transactional))

    @rule(
        producer=PRODUCERS,
        count=st.integers(1, 3),
        epochs=st.integers(-1, 2),
        ahead=st.sampled_from([0, 0, 1, -1, -2, 7, None]),
        transactional=st.booleans(),
    )
    def append_as_it_comes(
        self, producer: int, count: int, epochs: int, ahead: int | None, transactional: bool
    ) -> None:
        epoch = max(0, (self.history.epoch(producer) or 0) + epochs)
        sequence = 0 if ahead is None else (self.history.next_sequence(producer) + ahead) % WRAP
        self.send(Event(0, count, producer, epoch, sequence, transactional))

    @rule(producer=PRODUCERS, back=st.integers(0, 6))
    def repeat(self, producer: int, back: int) -> None:
        written = [event for event in self.history.of(producer) if event.commit is None]
        if back < len(written):
            old = written[-1 - back]
            self.send(Event(0, old.count, producer, old.epoch, old.sequence, old.transactional))

    @rule(producer=PRODUCERS, epochs=st.sampled_from([0, 0, 1, -1]), commit=st.booleans())
    def end_a_transaction(self, producer: int, epochs: int, commit: bool) -> None:
        known = self.history.epoch(producer)
        epoch = max(0, (known or 0) + epochs)
        if known is not None and epoch < known:
            with pytest.raises(InvalidProducerEpoch):
                self.house.end(producer, epoch, commit=commit)
            return
        base = self.house.end(producer, epoch, commit=commit).base
        self.history.events.append(Event(base, 1, producer, epoch, commit=commit))

    @rule(part=st.integers(0, 3))
    def delete_some(self, part: int) -> None:
        """At most up to the oldest open transaction, and leaving what the producers are remembered by."""
        oldest = [event.base for producer in range(1, 4) for event in self.history.of(producer)[-6:]]
        upto = min([self.history.stable(), self.visible.stable(), *oldest])
        self.start = max(self.start, self.start + (upto - self.start) * part // 4)
        assert delete_records(self.house.partition, self.start) == self.start

    @rule(producer=PRODUCERS, marker=st.booleans())
    def a_full_disk_refuses(self, producer: int, marker: bool) -> None:
        """As if nobody had asked: the next one who asks the same is answered as the first should have been."""
        epoch = self.history.epoch(producer) or 0
        sequence = self.history.next_sequence(producer)
        one = batch(producer=producer, epoch=epoch, sequence=sequence, transactional=True)
        self.disk.full = True
        with pytest.raises(StorageFailed):
            self.house.end(producer, epoch) if marker else self.house.append(one)
        self.disk.full = False

    @rule()
    def sync(self) -> None:
        job = self.house.partition.unsynced()
        if job is not None:
            job.run()
            self.house.partition.synced(job.upto)
        self.synced = self.history.end

    @rule()
    def stop_and_start(self) -> None:
        self.house.restart()
        self.synced = self.history.end

    @rule()
    def kill_and_start(self) -> None:
        self.house.kill()
        self.synced = self.history.end

    def consume_committed(self, max_bytes: int) -> None:
        assert self.consumed(max_bytes) == self.visible.committed(self.start)

    def teardown(self) -> None:
        if hasattr(self, "history"):
            for max_bytes in (1, 150, 700, 1 << 20):
                self.consume_committed(max_bytes)

    def consumed(self, max_bytes: int) -> list[int]:
        """As Kafka's consumer does it: what is aborted is told by the list, until the marker comes by."""
        seen: list[int] = []
        offset = self.start
        while True:
            answer = self.house.read(offset, committed=True, max_bytes=max_bytes)
            assert answer.aborted is not None
            if answer.records is None:
                assert offset == answer.stable
                return seen
            waiting = sorted(answer.aborted, key=lambda entry: entry.first_offset)
            skipping: set[int] = set()
            for one in walk(answer.records.read_all()):
                while waiting and waiting[0].first_offset <= one.last_offset:
                    skipping.add(waiting.pop(0).producer_id)
                if one.is_control:
                    marker = read_marker(one)
                    if marker is not None and not marker.commit:
                        skipping.discard(one.producer_id)
                elif not (one.is_transactional and one.producer_id in skipping):
                    seen.append(one.base_offset)
                offset = Offset(one.next_offset)
            assert not waiting, "told of a transaction that has nothing in the answer"

    @invariant()
    def the_four_offsets_are_right(self) -> None:
        if hasattr(self, "history"):
            stable = max(self.start, self.visible.stable())
            assert self.house.all_four == (self.start, stable, self.high, self.history.end)

    @invariant()
    def open_transactions_are_right(self) -> None:
        if hasattr(self, "history"):
            begun = {producer: self.history.open_since(producer) for producer in range(1, 4)}
            assert self.house.partition.open_transactions() == {
                producer: first for producer, first in begun.items() if first is not None
            }


class OneSyncedPartition(OnePartition):
    hold_high_until_synced = True


for machine in (OnePartition, OneSyncedPartition):
    machine.TestCase.settings = settings(
        max_examples=80,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
TestOnePartition = OnePartition.TestCase
TestOneSyncedPartition = OneSyncedPartition.TestCase
