"""kafka-python 2.0.2 as a client of an old broker: produce or read, one JSON line a record.

produce BOOTSTRAP VERSION TOPIC COUNT CODEC
read    BOOTSTRAP VERSION TOPIC COUNT GROUP
"""

from __future__ import annotations

import json
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def main() -> None:
    verb, bootstrap, version, topic, count, last = sys.argv[1:]
    api_version = tuple(map(int, version.split(".")))
    if verb == "produce":
        produce(bootstrap, api_version, topic, int(count), last)
    else:
        read(bootstrap, api_version, topic, int(count), last)


def produce(bootstrap: str, api_version: tuple[int, ...], topic: str, count: int, codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        api_version=api_version,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
        acks="all",
    )
    sent = [
        producer.send(topic, key=b"key-%d" % at, value=b"%s-%d" % (codec.encode(), at), partition=0)
        for at in range(count)
    ]
    producer.flush(20)
    for one in sent:
        print(json.dumps({"offset": one.get(20).offset}))
    producer.close(5)


def read(bootstrap: str, api_version: tuple[int, ...], topic: str, count: int, group: str) -> None:
    grouped = api_version >= (0, 9)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=api_version,
        group_id=group if grouped else None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    if grouped:
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
    left, until = count, time.monotonic() + 25
    while left > 0 and time.monotonic() < until:
        for records in consumer.poll(500).values():
            for record in records:
                left -= 1
                told = {
                    "offset": record.offset,
                    "key": record.key.decode() if record.key else None,
                    "value": record.value.decode(),
                    "timestamp": record.timestamp,
                }
                print(json.dumps(told))
    if grouped:
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == consumer.position(TopicPartition(topic, 0))
    consumer.close()


main()
