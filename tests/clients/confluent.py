"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar, cast

import confluent_kafka as ck
from confluent_kafka import admin as ckadmin
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.client import EARLIEST, LATEST, READ_SECONDS, Client, ClientError, Fenced, Headers, Record, Start

T = TypeVar("T")
WAIT = 20.0


def _record(message: ck.Message) -> Record:
    kind, stamp = message.timestamp()
    headers = cast(Headers, tuple(message.headers() or ()))
    return Record(
        value=message.value(),
        key=message.key(),
        headers=headers,
        timestamp=stamp if kind else None,
        partition=message.partition() or 0,
        offset=message.offset() if message.offset() is not None else -1,  # type: ignore[arg-type]
    )


def _raise(error: ck.KafkaError) -> None:
    kinds = (ck.KafkaError._FENCED, ck.KafkaError.PRODUCER_FENCED, ck.KafkaError.INVALID_PRODUCER_EPOCH)
    raise (Fenced if error.code() in kinds else ClientError)(str(error))


class Confluent(Client):
    name = "confluent-kafka"

    def __init__(self) -> None:
        self.members: dict[str, ck.Consumer] = {}
        self.backlog: dict[str, list[Record]] = {}
        self.producers: dict[str, ck.Producer] = {}
        self.admins: dict[str, ckadmin.AdminClient] = {}

    def version(self) -> str:
        return str(ck.__version__)

    def _admin(self) -> ckadmin.AdminClient:
        """One for each broker: its futures die with it, so it must outlive them."""
        if self.bootstrap not in self.admins:
            self.admins[self.bootstrap] = ckadmin.AdminClient({"bootstrap.servers": self.bootstrap})
        return self.admins[self.bootstrap]

    @staticmethod
    def _settle(futures: Mapping[T, Future[object]]) -> None:
        for future in futures.values():
            try:
                future.result(WAIT)
            except ck.KafkaException as refused:
                _raise(refused.args[0])

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self._settle(self._admin().create_topics([new]))

    def delete_topic(self, topic: str) -> None:
        self._settle(self._admin().delete_topics([topic]))

    def list_topics(self) -> list[str]:
        return list(self._admin().list_topics(timeout=WAIT).topics)

    def partitions_of(self, topic: str) -> int:
        # All topics and not just this one: librdkafka asks for a named topic again and again in the background, with
        # leave to create it, and so brings back one that was deleted.
        found = self._admin().list_topics(timeout=WAIT).topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._settle(self._admin().create_partitions([NewPartitions(topic, partitions)]))

    def set_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._settle(self._admin().incremental_alter_configs([resource]))

    def get_config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._admin().describe_configs([resource])[resource].result(WAIT)
        return str(entries[name].value)

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
        producer = ck.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": str(acks),
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 20,
                "message.max.bytes": 2_000_000,
                "message.timeout.ms": int(WAIT * 1000),
                **self._entering(),
            }
        )
        offsets = self._write(producer, topic, records, partition)
        return offsets if acks else []

    @staticmethod
    def _write(producer: ck.Producer, topic: str, records: Sequence[Record], partition: int) -> list[int]:
        offsets: list[int] = []
        failures: list[ck.KafkaError] = []

        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                offsets.append(message.offset())  # type: ignore[arg-type]

        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                headers=list(record.headers),
                timestamp=record.timestamp or 0,
                on_delivery=delivered,
            )
        left = producer.flush(WAIT)
        if failures:
            _raise(failures[0])
        if left:
            raise ClientError(f"{left} of {len(records)} records were not acknowledged within {WAIT} s")
        return offsets

    def _entering(self) -> dict[str, str]:
        return self.door.librdkafka() if self.door else {}

    def _consumer(self, **settings: object) -> ck.Consumer:
        return ck.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                **self._entering(),
                **settings,
            }
        )

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(**{"group.id": "unused", "isolation.level": isolation})
        try:
            place = ck.TopicPartition(topic, partition, start.offset or 0)
            if start.timestamp is not None:
                place = consumer.offsets_for_times(
                    [ck.TopicPartition(topic, partition, start.timestamp)], timeout=WAIT
                )[0]
            consumer.assign([place])
            return self._poll(consumer, count, READ_SECONDS)
        finally:
            consumer.close()

    @staticmethod
    def _poll(consumer: ck.Consumer, count: int, seconds: float) -> list[Record]:
        records: list[Record] = []
        until = time.monotonic() + seconds
        while len(records) < count and (left := until - time.monotonic()) > 0:
            message = consumer.poll(min(left, 0.5))
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.retriable() or error.code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                _raise(error)
            records.append(_record(message))
        return records

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        consumer = self._consumer(**{"group.id": "unused"})
        try:
            if at in (EARLIEST, LATEST):
                low, high = consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), timeout=WAIT)
                return low if at == EARLIEST else high
            return consumer.offsets_for_times([ck.TopicPartition(topic, partition, at)], timeout=WAIT)[0].offset
        except ck.KafkaException as refused:
            raise ClientError(str(refused)) from refused
        finally:
            consumer.close()

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        settings: dict[str, object] = {"group.id": group, "group.protocol": protocol}
        if protocol == "classic":
            settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
        consumer = self._consumer(**settings)
        consumer.subscribe([topic])
        self.members[member] = consumer
        self.backlog[member] = []

    def take(self, member: str, count: int) -> list[Record]:
        early = self.backlog[member]
        taken, self.backlog[member] = early[:count], early[count:]
        return taken + self._poll(self.members[member], count - len(taken), READ_SECONDS)

    def assigned(self, member: str) -> list[int]:
        self.backlog[member] += self._poll(self.members[member], 100, 0.3)
        return [place.partition for place in self.members[member].assignment()]

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = [ck.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self.members[member].commit(offsets=places, asynchronous=False)

    def leave(self, member: str) -> None:
        self.members.pop(member).close()

    def groups(self) -> list[str]:
        return [found.group_id for found in self._admin().list_consumer_groups().result(WAIT).valid]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        asked = [ck.ConsumerGroupTopicPartitions(group)]
        answer = self._admin().list_consumer_group_offsets(asked)[group].result(WAIT)
        return {place.partition: place.offset for place in answer.topic_partitions if place.topic == topic}

    def delete_group(self, group: str) -> None:
        self._settle(self._admin().delete_consumer_groups([group]))

    def open_producer(self, producer: str, transactional_id: str) -> None:
        made = ck.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 30_000,
                "message.timeout.ms": 20_000,
                "linger.ms": 5,
            }
        )
        made.init_transactions(WAIT)
        self.producers[producer] = made

    def begin(self, producer: str) -> None:
        self.producers[producer].begin_transaction()

    def send(self, producer: str, topic: str, records: Sequence[Record], *, partition: int = 0) -> None:
        try:
            self._write(self.producers[producer], topic, records, partition)
        except ck.KafkaException as refused:
            _raise(refused.args[0])
        except SystemError as odd:
            # A fatal error is left pending while our delivery callback runs, and surfaces from whatever that calls.
            if not isinstance(odd.__cause__, ck.KafkaException):
                raise
            _raise(odd.__cause__.args[0])

    def send_offsets(self, producer: str, member: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        places = [ck.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        standing = self.members[member].consumer_group_metadata()
        self.producers[producer].send_offsets_to_transaction(places, standing, WAIT)

    def end(self, producer: str, *, commit: bool) -> None:
        made = self.producers[producer]
        try:
            made.commit_transaction(WAIT) if commit else made.abort_transaction(WAIT)
        except ck.KafkaException as refused:
            _raise(refused.args[0])

    def close_producer(self, producer: str) -> None:
        self.producers.pop(producer, None)

    def close(self) -> None:
        for member in list(self.members):
            self.leave(member)
        self.producers.clear()
