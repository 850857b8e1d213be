"""kafka-python: pure Python, its own protocol code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import kafka
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.clients.client import EARLIEST, LATEST, READ_SECONDS, Client, ClientError, Fenced, Record, Start

T = TypeVar("T")
WAIT = 20.0


def _record(told: object) -> Record:
    message: kafka.consumer.fetcher.ConsumerRecord = told
    return Record(
        key=message.key,
        value=message.value,
        headers=tuple((name, value) for name, value in message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )


def _told(act: Callable[[], T]) -> T:
    """Its errors in our words."""
    try:
        return act()
    except (errors.ProducerFencedError, errors.InvalidProducerEpochError) as refused:
        raise Fenced(repr(refused)) from refused
    except errors.KafkaError as refused:
        kinds = ("ProducerFenced", "InvalidProducerEpoch")
        raise (Fenced if any(kind in repr(refused) for kind in kinds) else ClientError)(repr(refused)) from refused


class KafkaPython(Client):
    name = "kafka-python"
    lacks = frozenset({"new-protocol"})

    def __init__(self) -> None:
        self.members: dict[str, kafka.KafkaConsumer] = {}
        self.backlog: dict[str, list[Record]] = {}
        self.producers: dict[str, kafka.KafkaProducer] = {}

    def version(self) -> str:
        return str(kafka.__version__)

    def _admin(self, act: Callable[[KafkaAdminClient], T]) -> T:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            return _told(lambda: act(admin))
        finally:
            admin.close()

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = kafka.admin.NewTopic(topic, partitions, 1, topic_configs=dict(config or {}))
        self._admin(lambda admin: admin.create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        self._admin(lambda admin: admin.delete_topics([topic]))

    def list_topics(self) -> list[str]:
        return self._admin(lambda admin: list(admin.list_topics()))

    def partitions_of(self, topic: str) -> int:
        return self._admin(lambda admin: len(admin.describe_topics([topic])[0]["partitions"]))

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._admin(lambda admin: admin.create_partitions({topic: partitions}))

    def set_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})
        told = self._admin(lambda admin: admin.alter_configs([resource]))
        if told["topic"][topic] != "OK":
            raise ClientError(told["topic"][topic])

    def get_config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, [name])
        told = self._admin(lambda admin: admin.describe_configs([resource], config_filter="all"))
        return str(told["topic"][topic][name]["value"])

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
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all" if acks == -1 else acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
            max_request_size=2_000_000,
            **self._entering(),
            delivery_timeout_ms=int(WAIT * 1000),
            request_timeout_ms=10_000,
        )
        try:
            offsets = self._write(producer, topic, records, partition)
        finally:
            producer.close(timeout=WAIT)
        return offsets if acks else []

    @staticmethod
    def _write(producer: kafka.KafkaProducer, topic: str, records: Sequence[Record], partition: int) -> list[int]:
        sent = [
            producer.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        producer.flush(WAIT)
        return [_told(lambda future=future: future.get(WAIT).offset) for future in sent]  # type: ignore[misc]

    def _entering(self) -> dict[str, object]:
        return self.door.keywords() if self.door else {}

    def _consumer(self, **settings: object) -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            **self._entering(),
            **settings,
        )

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        consumer = self._consumer(isolation_level="read_committed" if committed else "read_uncommitted")
        try:
            place, offset = TopicPartition(topic, partition), start.offset
            consumer.assign([place])
            if start.timestamp is not None:
                offset = consumer.offsets_for_times({place: start.timestamp})[place].offset
            consumer.seek(place, offset)
            return self._poll(consumer, count, READ_SECONDS)
        finally:
            consumer.close()

    @staticmethod
    def _poll(consumer: kafka.KafkaConsumer, count: int, seconds: float) -> list[Record]:
        records: list[Record] = []
        until = time.monotonic() + seconds
        while len(records) < count and time.monotonic() < until:
            for batch in consumer.poll(timeout_ms=200, max_records=count - len(records)).values():
                records += map(_record, batch)
        return records

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        consumer, place = self._consumer(), TopicPartition(topic, partition)
        try:
            if at == EARLIEST:
                return int(consumer.beginning_offsets([place])[place])
            if at == LATEST:
                return int(consumer.end_offsets([place])[place])
            found = consumer.offsets_for_times({place: at})[place]
            return -1 if found is None else int(found.offset)
        finally:
            consumer.close()

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        consumer = self._consumer(group_id=group, session_timeout_ms=10_000, heartbeat_interval_ms=500)
        consumer.subscribe([topic])
        self.members[member], self.backlog[member] = consumer, []

    def take(self, member: str, count: int) -> list[Record]:
        early = self.backlog[member]
        taken, self.backlog[member] = early[:count], early[count:]
        return taken + self._poll(self.members[member], count - len(taken), READ_SECONDS)

    def assigned(self, member: str) -> list[int]:
        self.backlog[member] += self._poll(self.members[member], 100, 0.3)
        return [place.partition for place in self.members[member].assignment()]

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        self.members[member].commit(self._places(topic, offsets))

    @staticmethod
    def _places(topic: str, offsets: Mapping[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}

    def leave(self, member: str) -> None:
        self.members.pop(member).close()

    def groups(self) -> list[str]:
        return self._admin(lambda admin: [found["group_id"] for found in admin.list_groups()])

    def committed(self, group: str, topic: str) -> dict[int, int]:
        told = self._admin(lambda admin: admin.list_group_offsets(group))[group]
        return {place.partition: found.offset for place, found in told.items() if place.topic == topic}

    def delete_group(self, group: str) -> None:
        told = self._admin(lambda admin: admin.delete_groups([group]))
        if told[group] != "OK":
            raise ClientError(told[group])

    def open_producer(self, producer: str, transactional_id: str) -> None:
        made = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=30_000,
            delivery_timeout_ms=20_000,
            request_timeout_ms=10_000,
        )
        self.producers[producer] = made
        _told(made.init_transactions)

    def begin(self, producer: str) -> None:
        _told(self.producers[producer].begin_transaction)

    def send(self, producer: str, topic: str, records: Sequence[Record], *, partition: int = 0) -> None:
        _told(lambda: self._write(self.producers[producer], topic, records, partition))

    def send_offsets(self, producer: str, member: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        standing = self.members[member].group_metadata()
        self.producers[producer].send_offsets_to_transaction(self._places(topic, offsets), standing)

    def end(self, producer: str, *, commit: bool) -> None:
        made = self.producers[producer]
        _told(made.commit_transaction if commit else made.abort_transaction)

    def close_producer(self, producer: str) -> None:
        self.producers.pop(producer).close(timeout=1)

    def close(self) -> None:
        for member in list(self.members):
            self.leave(member)
        for producer in list(self.producers):
            self.close_producer(producer)
