"""Many transactional producers on a broker in this process, while its background work meets them all the time.

Twelve producers of both generations write to a few partitions, commit offsets and end their transactions; some have
time-outs so short that the coordinator aborts them while they write.  A reader of committed records follows.  What
goes wrong beside them is the caller's: a disk that refuses and heals, topics that are deleted.  Every answer becomes
an event of a `History`, and the checker of the workload with real clients judges it.

Without kills and without lost answers the outcome of each transaction is known, so an anomaly cannot hide behind a
"maybe"; and an answer that a Kafka client would not know what to do with is an anomaly of its own (`surprises`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from broker_lite.clock import SystemClock
from broker_lite.config.start import Durability
from broker_lite.errors import ErrorCode as E
from broker_lite.log.disk import Disk
from broker_lite.records.batch import walk
from broker_lite.records.control import read_marker
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.apis.test_transactions import Producer
from tests.support.housekeeping import BUSY
from tests.support.talk import Talk, bytes_of, talking
from tests.transactions.checker import check
from tests.transactions.history import Event, History, Json, Place

TOPICS, PARTITIONS = ("t", "u"), 2
SHORT_LIVED = "gone"
"""A topic that somebody may delete at any moment; nothing is promised of its records."""
SOON_MS = 25
RETRIED = {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.NOT_ENOUGH_REPLICAS}
"""What every producer tries again without a word."""
FENCED = {E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH}


class Storm:
    def __init__(self, talk: Talk, dice: random.Random, *, deleting: bool = False) -> None:
        self.talk, self.dice = talk, dice
        self.topics = (*TOPICS, SHORT_LIVED) if deleting else TOPICS
        self.history = History()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.surprises: list[str] = []
        self.over = False

    def say(self, what: str, **facts: Json) -> None:
        event: Event = {"what": what, **facts}
        self.history.add(event)

    async def ask(self, what: str, request: Callable[[], Awaitable[int]], *, tries: int = 10_000) -> E:
        """The answer, after as many tries as a patient client makes."""
        code = E.NONE
        for _ in range(tries):
            await asyncio.sleep(0)  # where no disk is waited for nobody else would have a turn
            code = E(await request())
            self.answers[what, code.name] += 1
            if code not in RETRIED and code is not E.KAFKA_STORAGE_ERROR:
                break
            await asyncio.sleep(self.dice.random() * 0.003)
        return code

    def expect(self, what: str, code: E, *allowed: E) -> None:
        if code not in (E.NONE, *allowed):
            self.surprises.append(f"{what} was answered with {code.name}")


class StormyProducer:
    """One transactional id and those who hold it, one after the other."""

    def __init__(self, storm: Storm, number: int, *, hasty: bool) -> None:
        self.storm = storm
        self.hasty = hasty
        self.name = f"p{number}"
        self.producer = Producer(storm.talk, self.name, new=number % 2 == 0)
        self.incarnation = self.count = 0
        self.ready = False

    async def run(self) -> None:
        while not self.storm.over:
            if not self.ready:
                await self.init()
            await self.transaction()

    async def init(self) -> None:
        """Every producer under this name from now on."""
        began, timeout_ms = time.monotonic(), SOON_MS if self.hasty else 60_000
        code = await self.storm.ask("init", lambda: self.producer.init(timeout_ms=timeout_ms))
        self.storm.expect("InitProducerId", code)
        self.incarnation += 1
        self.storm.say("init", name=self.name, incarnation=self.incarnation, began=began, at=time.monotonic())
        self.ready = True

    async def transaction(self) -> None:
        storm, dice = self.storm, self.storm.dice
        self.count += 1
        txn = f"{self.name}-{self.incarnation}-{self.count}"
        storm.say("txn", txn=txn, name=self.name, incarnation=self.incarnation, at=time.monotonic())
        good = True
        for number in range(dice.randint(1, 3)):
            good = good and await self.send(txn, dice.choice(storm.topics), dice.randrange(PARTITIONS), number)
        if good and dice.random() < 0.3:
            good = await self.commit_offsets(txn)
        await self.end(txn, commit=good and dice.random() < 0.6)

    async def send(self, txn: str, topic: str, partition: int, number: int) -> bool:
        storm, producer = self.storm, self.producer
        lost = (E.UNKNOWN_TOPIC_OR_PARTITION,) if topic == SHORT_LIVED else ()
        late = (*FENCED, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE) if self.hasty else ()
        if not producer.new:
            code = await storm.ask("add", lambda: self._first(producer.add(topic, partition)))
            storm.expect(f"AddPartitionsToTxn of {topic}", code, *late, *lost, E.OPERATION_NOT_ATTEMPTED)
            if code:
                return False
        facts: dict[str, Json] = {"txn": txn, "topic": topic, "partition": partition, "value": f"{txn}-{number}"}
        if topic != SHORT_LIVED:
            storm.say("sent", **facts, offset=None)
        code = await storm.ask(f"send {topic}", lambda: producer.send(f"{txn}-{number}".encode(), topic, partition))
        storm.expect(f"Produce to {topic}", code, *late, *lost, *((E.OUT_OF_ORDER_SEQUENCE_NUMBER,) if lost else ()))
        if code is E.NONE and topic != SHORT_LIVED:
            storm.say("sent", **facts, offset=producer.last_offset)
        return code is E.NONE

    @staticmethod
    async def _first(codes: Awaitable[list[int]]) -> int:
        return (await codes)[0]

    async def commit_offsets(self, txn: str) -> bool:
        storm, producer, group = self.storm, self.producer, f"g-{self.name}"
        late = (*FENCED, E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.COORDINATOR_NOT_AVAILABLE)

        async def add_offsets() -> int:
            asked = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=producer.id, producer_epoch=producer.epoch, group_id=group
            )
            return (await storm.talk.ask(asked, 3, AddOffsetsToTxnResponse)).error_code

        code = E.NONE
        if not producer.new:
            code = await storm.ask("add offsets", add_offsets)
        if not code:
            code = await storm.ask("offsets", lambda: producer.commit_offset(self.count, group), tries=500)
        storm.expect("TxnOffsetCommit", code, *(late if self.hasty else ()))
        if code is E.NONE:
            storm.say("offsets", txn=txn, group=group, topic="t", partition=0, offset=self.count)
        return code is E.NONE

    async def end(self, txn: str, *, commit: bool) -> None:
        storm = self.storm
        storm.say("ending", txn=txn, commit=commit, at=time.monotonic())
        code = await storm.ask("end", lambda: self.producer.end(commit=commit))
        # An abort before anything was added is not one of the old protocol.
        late = (*FENCED, E.INVALID_TXN_STATE) if self.hasty else (E.INVALID_TXN_STATE,) if not commit else ()
        storm.expect(f"EndTxn, commit={commit}", code, *late)
        outcome = ("committed" if commit else "aborted") if code is E.NONE else "aborted"
        storm.say("ended", txn=txn, outcome=outcome, at=time.monotonic())
        self.ready = code is E.NONE


async def follow(storm: Storm, place: Place) -> None:
    """A reader of committed records, who never sees anything that is aborted."""
    name, at = f"reader-{place[0]}-{place[1]}", 0
    while not storm.over:
        at, seen = await read(storm.talk, place, at, committed=True)
        if seen:
            facts: list[Json] = [[*place, offset, value] for offset, value in seen]
            storm.say("polled", reader=name, committed=True, at=time.monotonic(), records=facts)
        await asyncio.sleep(0.005)


async def read(talk: Talk, place: Place, at: int, *, committed: bool) -> tuple[int, list[tuple[int, str]]]:
    """What a consumer makes of the records from `at` on, and where it goes on."""
    seen: list[tuple[int, str]] = []
    while True:
        answer = await talk.fetch(place[0], at, partition=place[1], committed=committed)
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0, E(part.error_code)
        waiting = sorted((txn.first_offset, txn.producer_id) for txn in part.aborted_transactions or [])
        aborted: set[int] = set()
        before = at
        for batch in walk(memoryview(bytes_of(part))):
            while waiting and waiting[0][0] <= batch.base_offset + batch.last_offset_delta:
                aborted.add(waiting.pop(0)[1])
            if batch.is_control:
                marker = read_marker(batch)
                if marker is not None and not marker.commit:
                    aborted.discard(batch.producer_id)
            elif batch.producer_id not in aborted:
                seen += [(one.offset, (one.value or b"").decode()) for one in records_of(batch) if one.offset >= at]
            at = max(at, batch.next_offset)
        if at == before:
            return at, seen


async def finish(storm: Storm) -> None:
    """Nobody writes any more: end what is left open, then read everything to its end."""
    for number in range(len(storm.history.inits)):
        producer = Producer(storm.talk, f"p{number}")
        storm.expect("the last InitProducerId", await storm.ask("init", producer.init))
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            for committed in (True, False):
                answer = await storm.talk.fetch(topic, 0, partition=partition, committed=committed)
                part = answer.responses[0].partitions[0]
                _, seen = await read(storm.talk, (topic, partition), 0, committed=committed)
                found: list[Json] = [[offset, value] for offset, value in seen]
                storm.say(
                    "final",
                    topic=topic,
                    partition=partition,
                    committed=committed,
                    high=part.high_watermark,
                    stable=part.last_stable_offset,
                    records=found,
                )
    committed_by: dict[str, int] = {}
    for txn in storm.history.txns.values():
        if txn.outcome == "committed":
            for (group, _), offset in txn.offsets.items():
                committed_by[group] = offset
    for group, offset in committed_by.items():
        now = storm.talk.broker.groups.of(group).offsets.get(group, "t", 0)
        if now is None or now.offset != offset:
            storm.surprises.append(f"{group} committed offset {offset} last, it is at {now}")


@asynccontextmanager
async def stormy(
    folder: Path,
    seed: int,
    *,
    durability: Durability,
    disk: Disk | None = None,
    deleting: bool = False,
    hasty: int = 0,
    producers: int = 12,
) -> AsyncIterator[Storm]:
    """A storm that lasts as long as the block; afterwards its history is whole. `hasty` of the producers time out."""
    dice = random.Random(seed)
    async with talking(folder, SystemClock(), durability=durability, settings=BUSY, disk=disk) as talk:
        storm = Storm(talk, dice, deleting=deleting)
        for topic in storm.topics:
            talk.broker.topics.create(topic, PARTITIONS, {})
        async with asyncio.TaskGroup() as tasks:
            for number in range(producers):
                tasks.create_task(StormyProducer(storm, number, hasty=number < hasty).run())
            for topic in TOPICS:
                for partition in range(PARTITIONS):
                    tasks.create_task(follow(storm, (topic, partition)))
            try:
                yield storm
            finally:
                storm.over = True
        await finish(storm)


def anomalies(storm: Storm) -> list[str]:
    return storm.surprises + check(storm.history)
