"""librdkafka told that its broker is too old to be asked for versions: produce or read, one JSON line a record.

produce BOOTSTRAP VERSION TOPIC COUNT CODEC
read    BOOTSTRAP VERSION TOPIC COUNT GROUP
"""

from __future__ import annotations

import json
import sys
import time

import confluent_kafka as ck


def main() -> None:
    verb, bootstrap, version, topic, count, last = sys.argv[1:]
    old: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "api.version.request": False,
        "broker.version.fallback": version,
        "socket.timeout.ms": 10_000,
    }
    if verb == "produce":
        produce(old, topic, int(count), last)
    else:
        read(old, topic, int(count), last)


def produce(old: dict[str, str | int | float | bool], topic: str, count: int, codec: str) -> None:
    offsets: list[int | None] = []

    def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = ck.Producer({**old, "compression.type": codec, "linger.ms": 20})
    for at in range(count):
        producer.produce(topic, key=f"key-{at}", value=f"{codec}-{at}", partition=0, on_delivery=delivered)
    assert producer.flush(20) == 0
    for offset in offsets:
        print(json.dumps({"offset": offset}))


def read(old: dict[str, str | int | float | bool], topic: str, count: int, group: str) -> None:
    consumer = ck.Consumer(
        {
            **old,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1000,
        }
    )
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    left, until = count, time.monotonic() + 25
    while left > 0 and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is None:
            continue
        assert message.error() is None, message.error()
        left -= 1
        kind, timestamp = message.timestamp()
        told = {
            "offset": message.offset(),
            "key": (message.key() or b"").decode() or None,
            "value": (message.value() or b"").decode(),
            "timestamp": timestamp if kind else None,
        }
        print(json.dumps(told))
    consumer.close()


main()
