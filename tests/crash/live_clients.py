"""Clients that write, read, delete, configure, and remember what they were told. See `live_model`.

An operation is a method of `LiveClient` with a weight in `OPERATIONS`; a new one is a line there.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from broker_lite.clock import Clock
from broker_lite.errors import ErrorCode
from broker_lite.ids import NO_TOPIC_ID
from broker_lite.records.batch import walk
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of
from broker_lite.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from broker_lite.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.crash.live_model import AGING, KEYED, PLAIN, RETENTION_MS, Known, Part, Told
from tests.support.talk import Talk, bytes_of

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
NOT_WRITTEN = ("cannot append", "cannot roll", "cannot make", "cannot cut")
"""How a refusal begins that comes before anything is written."""
CLEANUP = {
    PLAIN: {"retention.ms": "-1"},
    KEYED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "5000"},
    AGING: {"retention.ms": str(RETENTION_MS), "segment.ms": "3000"},
}


class Anomaly(AssertionError):
    pass


class LiveClient:
    def __init__(self, number: int, talk: Talk, clock: Clock, chance: random.Random, *, definite: bool) -> None:
        self.told = Told(f"client{number}-")
        self.talk = talk
        self._clock = clock
        self._chance = chance
        self._definite = definite
        """A refusal means that nothing has happened: syncs are not waited for, so none can fail afterwards."""
        self._number = 0
        self._producers: dict[tuple[bytes, int], tuple[int, int]] = {}
        """(topic, partition) -> its producer id and next sequence."""
        self.answers: dict[str, list[int]] = {}

    async def step(self) -> None:
        (operation,) = self._chance.choices(list(OPERATIONS), list(OPERATIONS.values()))
        await (operation(self) if self.told.topics else self.create())

    def _check(self, what: str, code: int, *allowed: int) -> bool:
        """Whether it was done; Anomaly if it ended as nothing may."""
        counts = self.answers.setdefault(what, [0, 0])
        counts[code != 0] += 1
        if code not in (0, REFUSED, *allowed):
            raise Anomaly(f"{what} was answered with {ErrorCode(code).name}")
        return code == 0

    def _some_topic(self) -> tuple[str, Known]:
        return self._chance.choice(list(self.told.topics.items()))

    def _value(self) -> bytes:
        self._number += 1
        return b"%s%d " % (self.told.prefix.encode(), self._number) + b"." * self._chance.randrange(0, 120)

    # --- records --------------------------------------------------------------------------------------------------

    async def produce(self) -> None:
        name, known = self._some_topic()
        index = self._chance.randrange(len(known.parts))
        part, records = known.parts[index], self._records(known.kind)
        part.tried.update(record.value or b"" for record in records)
        now_ms = self._clock.now_ms()
        batch = build_batch(records, timestamp=now_ms)
        told = await self.talk.produce(name, partition=index, batch=batch)
        if self._check("produce", told.error_code):
            self._acknowledged(part, told.base_offset, records, now_ms)
        else:
            self._refused(part, records, told.error_message)

    async def produce_once(self) -> None:
        """An idempotent producer, which repeats what was refused."""
        name, known = self._some_topic()
        index = self._chance.randrange(len(known.parts))
        producer = await self._producer(known, index)
        if producer is None:
            return
        part, records, now_ms = known.parts[index], self._records(known.kind), self._clock.now_ms()
        part.tried.update(record.value or b"" for record in records)
        batch = build_batch(
            records,
            timestamp=now_ms,
            producer_id=producer[0],
            producer_epoch=0,
            base_sequence=producer[1],
        )
        why: list[str | None] = []
        for attempt in range(6):
            told = await self.talk.produce(name, partition=index, batch=batch)
            if self._check("produce once", told.error_code):
                self._acknowledged(part, told.base_offset, records, now_ms)
                self._producers[known.id, index] = producer[0], producer[1] + len(records)
                if attempt or self._chance.random() < 0.2:
                    again = await self.talk.produce(name, partition=index, batch=batch)
                    if self._check("repeat", again.error_code) and again.base_offset != told.base_offset:
                        raise Anomaly(f"a repeat is at {again.base_offset}, the original at {told.base_offset}")
                return
            why.append(told.error_message)
        del self._producers[known.id, index]
        self._refused(part, records, *why)

    async def _producer(self, known: Known, index: int) -> tuple[int, int] | None:
        found = self._producers.get((known.id, index))
        if found is None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            told = await self.talk.ask(request, 4, InitProducerIdResponse)
            if self._check("init producer id", told.error_code):
                found = self._producers[known.id, index] = (told.producer_id, 0)
        return found

    def _records(self, kind: str) -> list[NewRecord]:
        key = b"key %d" % self._chance.randrange(5) if kind == KEYED else None
        return [NewRecord(key=key, value=self._value()) for _ in range(self._chance.choice((1, 1, 1, 3)))]

    def _acknowledged(self, part: Part, base: int, records: list[NewRecord], now_ms: int) -> None:
        for offset, record in enumerate(records, base):
            if offset in part.acked:
                raise Anomaly(f"offset {offset} was acknowledged twice")
            part.acked[offset] = record.value or b""
            part.written_ms[offset] = now_ms
            if record.key is not None:
                part.keys[record.key] = (offset, record.value or b"")

    def _refused(self, part: Part, records: list[NewRecord], *why: str | None) -> None:
        if self._definite or all((one or "").startswith(NOT_WRITTEN) for one in why):
            part.refused.update(record.value or b"" for record in records)

    async def fetch(self) -> None:
        name, known = self._some_topic()
        index = self._chance.randrange(len(known.parts))
        part = known.parts[index]
        offset = self._chance.randrange(part.start, part.end + 1)
        told = await self.talk.fetch(name, offset, partition=index)
        if not self._check("fetch", told.error_code):
            return
        answer = told.responses[0].partitions[0]
        if not self._check("fetch", answer.error_code, ErrorCode.OFFSET_OUT_OF_RANGE):
            return
        for batch in walk(bytes_of(answer)):
            for record in records_of(batch):
                if record.value not in part.tried:
                    raise Anomaly(f"{name}-{index} gave {record.value!r} at {record.offset}, which nobody sent")
                if part.acked.get(record.offset, record.value) != record.value:
                    raise Anomaly(f"{name}-{index} gave {record.value!r} at {record.offset}")

    async def delete_records(self) -> None:
        name, known = self._some_topic()
        index = self._chance.randrange(len(known.parts))
        part = known.parts[index]
        if known.kind != PLAIN:
            return
        part.asked_start = target = self._chance.randrange(part.start, part.end + 1)
        wanted = [DeleteRecordsPartition(partition_index=index, offset=target)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=wanted)], timeout_ms=1000)
        told = (await self.talk.ask(request, 2, DeleteRecordsResponse)).topics[0].partitions[0]
        part.asked_start = None
        if self._check("delete records", told.error_code):
            if told.low_watermark != target:
                raise Anomaly(f"{name}-{index} starts at {told.low_watermark}, {target} was asked for")
            part.start = target
            return
        for partition in self.talk.broker.topics.open_partitions():
            if partition.tp == (name, index) and partition.offsets.start != part.start:
                raise Anomaly(f"{name}-{index} starts at {partition.offsets.start} after a refusal, not {part.start}")

    # --- topics ---------------------------------------------------------------------------------------------------

    async def create(self) -> None:
        told = self.told
        if len(told.topics) >= 3:
            return
        free = [name for name in (f"{told.prefix}{letter}" for letter in "abcd") if name not in told.topics]
        name, kind = self._chance.choice(free), self._chance.choice((PLAIN, PLAIN, KEYED, AGING))
        configs = {
            "internal.segment.bytes": str(self._chance.choice((600, 1000, 3000))),
            "file.delete.delay.ms": self._chance.choice(("0", "1500")),
            "index.interval.bytes": "100",
            **CLEANUP[kind],
        }
        told.creating = name
        asked = CreatableTopic(
            name=name,
            num_partitions=self._chance.randrange(1, 3),
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        answer = (await self.talk.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)).topics[0]
        told.creating = None
        parts = [Part() for _ in range(asked.num_partitions)]
        if self._check("create", answer.error_code):
            told.topics[name] = Known(answer.topic_id, kind, configs, parts)
        elif (there := self.talk.broker.topics.get(name)) is not None:
            self._in_the_air(f"{name} was refused and is there")
            told.topics[name] = Known(there.id, kind, configs, parts, unsure=True)

    def _in_the_air(self, what: str) -> None:
        """A change of which an error was told counts all the same: only where a sync failed after it was written."""
        if self._definite:
            raise Anomaly(what)

    async def delete(self) -> None:
        name, known = self._some_topic()
        known.deleting = True
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=NO_TOPIC_ID)], timeout_ms=1000)
        answer = (await self.talk.ask(request, 6, DeleteTopicsResponse)).responses[0]
        known.deleting = False
        if not self._check("delete", answer.error_code):
            if self.talk.broker.topics.get(name) is not None:
                return
            self._in_the_air(f"{name} was not to be deleted and is gone")
        del self.told.topics[name]
        if answer.error_code == 0:
            self.told.gone.add(known.id)
        else:
            self.told.creating = name  # it may come back

    async def grow(self) -> None:
        name, known = self._some_topic()
        known.asked_count = len(known.parts) + 1
        topic = CreatePartitionsTopic(name=name, count=known.asked_count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        answer = (await self.talk.ask(request, 3, CreatePartitionsResponse)).results[0]
        if self._check("grow", answer.error_code):
            known.parts.append(Part())
        elif (there := self.talk.broker.topics.get(name)) is None or there.partition_count != len(known.parts):
            self._in_the_air(f"{name} was not to grow and has")
            known.unsure = True
            return
        known.asked_count = None

    async def configure(self) -> None:
        name, known = self._some_topic()
        value = str(self._chance.randrange(100_000, 200_000))
        known.asked_configs = {**known.configs, "max.message.bytes": value}
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=[AlterableConfig(name="max.message.bytes", config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = (await self.talk.ask(request, 1, IncrementalAlterConfigsResponse)).responses[0]
        if self._check("configure", answer.error_code):
            known.configs = known.asked_configs
        elif (there := self.talk.broker.topics.get(name)) is None or there.configs != known.configs:
            self._in_the_air(f"{name} was not to be configured and is")
            known.unsure = True
            return
        known.asked_configs = None

    # --- rules ----------------------------------------------------------------------------------------------------

    async def allow(self) -> None:
        principal = f"User:{self.told.prefix}{self._chance.randrange(10)}"
        self.told.asked_rules.add(principal)
        rule = AclCreation(
            resource_type=2, resource_name="t", principal=principal, host="*", operation=3, permission_type=2
        )
        answer = (await self.talk.ask(CreateAclsRequest(creations=[rule]), 3, CreateAclsResponse)).results[0]
        if self._check("allow", answer.error_code):
            self.told.rules.add(principal)
        elif not self._definite:
            return
        self.told.asked_rules.discard(principal)

    async def forbid(self) -> None:
        principal = f"User:{self.told.prefix}{self._chance.randrange(10)}"
        self.told.asked_rules.add(principal)
        wanted = DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter=None,
            principal_filter=principal,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = (await self.talk.ask(DeleteAclsRequest(filters=[wanted]), 3, DeleteAclsResponse)).filter_results[0]
        if self._check("forbid", answer.error_code):
            self.told.rules.discard(principal)
        elif not self._definite:
            return
        self.told.asked_rules.discard(principal)


OPERATIONS: dict[Callable[[LiveClient], Awaitable[None]], int] = {
    LiveClient.produce: 40,
    LiveClient.produce_once: 25,
    LiveClient.fetch: 10,
    LiveClient.delete_records: 8,
    LiveClient.create: 6,
    LiveClient.delete: 3,
    LiveClient.grow: 1,
    LiveClient.configure: 3,
    LiveClient.allow: 2,
    LiveClient.forbid: 2,
}
