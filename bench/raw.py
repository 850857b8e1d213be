"""A Kafka client of the smallest kind: a few requests, written out by hand, over a blocking socket.

The bench times brokers, so what it sends must cost nearly nothing and be the same for both; versions are the last that
are not flexible.
"""

from __future__ import annotations

import socket
import struct
import time

from broker_lite.records.build import NewRecord, build_batch

PRODUCE, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, CREATE_TOPICS = 0, 8, 9, 10, 19
TOPIC_EXISTS = 36


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def frame(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", key, version, 7) + string("bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_frame(topic: str, value: bytes, *, partition: int = 0, records: int = 1) -> bytes:
    """Produce v7, acks=all, one batch."""
    batch = build_batch([NewRecord(None, value)] * records, timestamp=int(time.time() * 1000))
    data = struct.pack(">ii", partition, len(batch)) + batch
    return frame(PRODUCE, 7, struct.pack(">hhii", -1, -1, 10_000, 1) + string(topic) + struct.pack(">i", 1) + data)


def produce_error(topic: str, answer: bytes) -> int:
    """The error code in an answer to `produce_frame`, size prefix left out."""
    return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)[0])


def commit_frame(group: str, topic: str, offset: int) -> bytes:
    """OffsetCommit v2 for partition 0 by somebody who is no member."""
    head = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">qi", -1, 1)
    return frame(OFFSET_COMMIT, 2, head + string(topic) + struct.pack(">iiq", 1, 0, offset) + string(""))


def commit_error(topic: str, answer: bytes) -> int:
    return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)[0])


def fetch_offset_frame(group: str, topic: str) -> bytes:
    """OffsetFetch v1 for partition 0."""
    return frame(OFFSET_FETCH, 1, string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0))


def fetch_offset_error(topic: str, answer: bytes) -> int:
    return int(struct.unpack_from(">h", answer, len(answer) - 2)[0])


def find_coordinator_frame(group: str) -> bytes:
    """FindCoordinator v0: Kafka makes the topic of the offsets when the first one asks."""
    return frame(FIND_COORDINATOR, 0, string(group))


class Connection:
    def __init__(self, bootstrap: str, timeout: float = 10.0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            chunk = self.socket.recv(size - len(got))
            if not chunk:
                raise ConnectionResetError(f"closed after {len(got)} of {size} bytes")
            got += chunk
        return bytes(got)


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """CreateTopics v4; a topic that exists is as good as a new one."""
    body = (
        struct.pack(">i", 1)
        + string(topic)
        + struct.pack(">ihii", partitions, 1, 0, 0)
        + struct.pack(">i?", 10_000, False)
    )
    with Connection(bootstrap) as connection:
        answer = connection.ask(frame(CREATE_TOPICS, 4, body))
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(topic.encode()))
    if error not in (0, TOPIC_EXISTS):
        raise RuntimeError(f"topic {topic} could not be made: error {error}")


def first_acknowledged(bootstrap: str, topic: str, seconds: float = 60.0) -> None:
    """Try until one record is acknowledged: connecting, making the topic and writing may each be too early."""
    deadline = time.monotonic() + seconds
    request = produce_frame(topic, b"first")
    while time.monotonic() < deadline:
        try:
            create_topic(bootstrap, topic, 1)
            with Connection(bootstrap, timeout=5) as connection:
                if produce_error(topic, connection.ask(request)) == 0:
                    return
        except (OSError, RuntimeError):
            pass
        time.sleep(0.005)
    raise RuntimeError(f"{bootstrap} acknowledged nothing within {seconds:g} s")
