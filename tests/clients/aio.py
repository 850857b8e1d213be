"""aiokafka: asyncio, old versions of most requests (ApiVersions v0 first)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import aiokafka
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition

from tests.clients.client import EARLIEST, LATEST, READ_SECONDS, Client, ClientError, Fenced, Record, Start

T = TypeVar("T")
WAIT = 25.0


def _record(message: ConsumerRecord[bytes, bytes]) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=tuple((name, value) for name, value in message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )


class AioKafka(Client):
    name = "aiokafka"
    lacks = frozenset({"new-protocol"})
    more_keys = MappingProxyType({"alter config": frozenset({33})})

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.members: dict[str, aiokafka.AIOKafkaConsumer] = {}
        self.producers: dict[str, aiokafka.AIOKafkaProducer] = {}

    def version(self) -> str:
        return str(aiokafka.__version__)

    def _run(self, work: Coroutine[object, object, T], within: float = WAIT) -> T:
        """Run it in the loop, with its errors in our words."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, within), self.loop)
        try:
            return future.result()
        except errors.ProducerFenced as refused:
            raise Fenced(repr(refused)) from refused
        except (errors.KafkaError, TimeoutError) as refused:
            raise ClientError(repr(refused)) from refused

    def _admin(self, act: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        async def work() -> T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                return await act(admin)
            finally:
                await admin.close()

        return self._run(work())

    @staticmethod
    def _check(error: int) -> None:
        if error:
            raise ClientError(repr(errors.for_code(error)()))

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(config or {}))
        self._check(self._admin(lambda admin: admin.create_topics([new])).topic_errors[0][1])

    def delete_topic(self, topic: str) -> None:
        self._check(self._admin(lambda admin: admin.delete_topics([topic])).topic_error_codes[0][1])

    def list_topics(self) -> list[str]:
        return self._admin(lambda admin: admin.list_topics())

    def partitions_of(self, topic: str) -> int:
        return len(self._admin(lambda admin: admin.describe_topics([topic]))[0]["partitions"])

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._admin(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        self._check(self._admin(lambda admin: admin.alter_configs([resource]))[0].resources[0][0])

    def get_config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: ""})
        told = self._admin(lambda admin: admin.describe_configs([resource]))[0].resources[0]
        return str(next(entry[1] for entry in told[4] if entry[0] == name))

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        async def work() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all" if acks == -1 else acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
                max_request_size=2_000_000,
                **self._entering(),
            )
            await producer.start()
            try:
                return await self._write(producer, topic, records, partition)
            finally:
                await producer.stop()

        offsets = self._run(work())
        return offsets if acks else []

    @staticmethod
    async def _write(
        producer: aiokafka.AIOKafkaProducer, topic: str, records: Sequence[Record], partition: int
    ) -> list[int]:
        sent = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        return [getattr(await future, "offset", -1) for future in sent]

    def _entering(self) -> dict[str, object]:
        return self.door.keywords() if self.door else {}

    def _consumer(self, **settings: object) -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            **self._entering(),
            **settings,
        )

    def _reading(self, act: Callable[[aiokafka.AIOKafkaConsumer], Awaitable[T]], **settings: object) -> T:
        async def work() -> T:
            consumer = self._consumer(**settings)
            await consumer.start()
            try:
                return await act(consumer)
            finally:
                await consumer.stop()

        return self._run(work(), READ_SECONDS + 10)

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        place = TopicPartition(topic, partition)

        async def act(consumer: aiokafka.AIOKafkaConsumer) -> list[Record]:
            offset = start.offset
            consumer.assign([place])
            if start.timestamp is not None:
                offset = (await consumer.offsets_for_times({place: start.timestamp}))[place].offset
            consumer.seek(place, offset)
            return await self._poll(consumer, count)

        return self._reading(act, isolation_level="read_committed" if committed else "read_uncommitted")

    @staticmethod
    async def _poll(consumer: aiokafka.AIOKafkaConsumer, count: int) -> list[Record]:
        records: list[Record] = []
        over = asyncio.get_running_loop().time() + READ_SECONDS
        while len(records) < count and asyncio.get_running_loop().time() < over:
            for batch in (await consumer.getmany(timeout_ms=200, max_records=count - len(records))).values():
                records += map(_record, batch)
        return records

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)

        async def act(consumer: aiokafka.AIOKafkaConsumer) -> int:
            if at == EARLIEST:
                return int((await consumer.beginning_offsets([place]))[place])
            if at == LATEST:
                return int((await consumer.end_offsets([place]))[place])
            found = (await consumer.offsets_for_times({place: at}))[place]
            return -1 if found is None else int(found.offset)

        return self._reading(act)

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        async def work() -> aiokafka.AIOKafkaConsumer:
            consumer = self._consumer(group_id=group, session_timeout_ms=10_000, heartbeat_interval_ms=500)
            consumer.subscribe([topic])
            await consumer.start()
            return consumer

        self.members[member] = self._run(work())

    def take(self, member: str, count: int) -> list[Record]:
        return self._run(self._poll(self.members[member], count), READ_SECONDS + 5)

    def assigned(self, member: str) -> list[int]:
        return [place.partition for place in self.members[member].assignment()]

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._run(self.members[member].commit(self._places(topic, offsets)))

    @staticmethod
    def _places(topic: str, offsets: Mapping[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition(topic, p): OffsetAndMetadata(offset, "") for p, offset in offsets.items()}

    def leave(self, member: str) -> None:
        self._run(self.members.pop(member).stop())

    def groups(self) -> list[str]:
        return [found[0] for found in self._admin(lambda admin: admin.list_consumer_groups())]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        told = self._admin(lambda admin: admin.list_consumer_group_offsets(group))
        return {place.partition: found.offset for place, found in told.items() if place.topic == topic}

    def open_producer(self, producer: str, transactional_id: str) -> None:
        async def work() -> aiokafka.AIOKafkaProducer:
            made = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=transactional_id, transaction_timeout_ms=30_000
            )
            await made.start()
            return made

        self.producers[producer] = self._run(work())

    def begin(self, producer: str) -> None:
        self._run(self.producers[producer].begin_transaction())

    def send(self, producer: str, topic: str, records: Sequence[Record], *, partition: int = 0) -> None:
        self._run(self._write(self.producers[producer], topic, records, partition))

    def send_offsets(self, producer: str, member: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self._run(self.producers[producer].send_offsets_to_transaction(self._places(topic, offsets), group))

    def end(self, producer: str, *, commit: bool) -> None:
        made = self.producers[producer]
        self._run(made.commit_transaction() if commit else made.abort_transaction())

    def close_producer(self, producer: str) -> None:
        made = self.producers.pop(producer)
        try:
            self._run(made.stop())
        except Fenced:
            return

    def close(self) -> None:
        for member in list(self.members):
            self.leave(member)
        for producer in list(self.producers):
            self.close_producer(producer)
