"""A member of a group in a process of its own, with one of the Python clients. See `workers` for what it says.

python -m tests.groups.worker CLIENT BOOTSTRAP GROUP TOPIC [PROTOCOL]
"""

from __future__ import annotations

import asyncio
import signal
import sys

SESSION_MS, HEARTBEAT_MS = 3000, 500
stop = False


def leave(*_: object) -> None:
    global stop
    stop = True


def say(*words: object) -> None:
    print(*words, flush=True)


def confluent(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    say("ready")
    while not stop:
        messages = consumer.consume(50, 0.1)
        read = [message for message in messages if message.error() is None]
        for message in read:
            say("read", message.partition(), message.offset())
        if read:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as refused:
                say("refused", refused)
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    say("ready")
    while not stop:
        read = consumer.poll(timeout_ms=100, max_records=50)
        for records in read.values():
            for record in records:
                say("read", record.partition, record.offset)
        if read:
            try:
                consumer.commit()
            except KafkaError as refused:
                say("refused", refused)
    consumer.close()


async def aiokafka(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    await consumer.start()
    say("ready")
    while not stop:
        read = await consumer.getmany(timeout_ms=100, max_records=50)
        for records in read.values():
            for record in records:
                say("read", record.partition, record.offset)
        if read:
            try:
                await consumer.commit()
            except KafkaError as refused:
                say("refused", refused)
    await consumer.stop()


def main(client: str, bootstrap: str, group: str, topic: str, protocol: str = "classic") -> None:
    signal.signal(signal.SIGTERM, leave)
    if client == "aiokafka":
        asyncio.run(aiokafka(bootstrap, group, topic, protocol))
    else:
        {"confluent-kafka": confluent, "kafka-python": kafka_python}[client](bootstrap, group, topic, protocol)


if __name__ == "__main__":
    main(*sys.argv[1:])
