"""The requests that once stopped a broker for minutes, against a running one, with somebody else beside."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_lite.broker.responses import MAX_BYTES, MAX_PENDING
from broker_lite.errors import ErrorCode
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import request_is_flexible
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker_lite.wire.schema import spec_of
from tests.support.broker import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

PARTITIONS = 10_000
MOST_MEMORY = 200 << 20
"""Of the whole process. Before, these took 668 MB, 2.9 GB and 2.2 GB."""
WAITED = 2.0
"""Seconds: others waited for 12, 98 and 24. Wall-clock time, so with much to spare."""
StartBroker = Callable[..., BrokerProcess]


def framed(request: object, version: int) -> bytes:
    key = spec_of(type(request)).key
    assert key is not None
    tags = b"\0" if request_is_flexible(key, version) else b""
    body = struct.pack(">hhih", key, version, 7, 4) + b"test" + tags + encode_bytes(request, version)
    return struct.pack(">i", len(body)) + body


def describe_configs(times: int) -> bytes:
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    return framed(DescribeConfigsRequest(resources=[resource] * times, include_synonyms=True), 4)


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=60)


def hear(connection: socket.socket) -> memoryview:
    size = 4
    data = bytearray()
    while len(data) < size:
        more = connection.recv(1 << 20)
        assert more, "hung up"
        data += more
        if len(data) >= 4:
            size = 4 + struct.unpack_from(">i", data)[0]
    return memoryview(bytes(data))


def ask(broker: BrokerProcess, request: bytes) -> memoryview:
    with connect(broker) as connection:
        connection.sendall(request)
        return hear(connection)


def memory(broker: BrokerProcess, what: str) -> int:
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


@contextlib.contextmanager
def bystander(broker: BrokerProcess) -> Iterator[list[float]]:
    """Somebody who asks all the time; the seconds that each answer took."""
    waited: list[float] = []
    over = threading.Event()

    def live() -> None:
        with connect(broker) as connection:
            while not over.is_set():
                began = time.monotonic()
                connection.sendall(framed(ApiVersionsRequest(), 0))
                hear(connection)
                waited.append(time.monotonic() - began)

    life = threading.Thread(target=live)
    life.start()
    try:
        yield waited
    finally:
        over.set()
        life.join()


@pytest.fixture(params=["os", "fsync"])
def broker(broker_process: StartBroker, request: pytest.FixtureRequest) -> BrokerProcess:
    return broker_process("--topic", f"t:{PARTITIONS}", "--durability", request.param)


def test_one_topic_described_nine_thousand_times_is_answered_as_often(broker: BrokerProcess) -> None:
    with bystander(broker) as waited:
        answer = ask(broker, describe_configs(9000))
    response, _ = decode(DescribeConfigsResponse, 4, answer, 9, max_elements=1 << 62)
    assert len(response.results) == 9000
    assert all(result == response.results[0] for result in response.results[::1000])
    assert max(waited) < WAITED
    assert memory(broker, "VmHWM") < MOST_MEMORY


def test_one_topic_described_forty_thousand_times_is_too_much(broker: BrokerProcess) -> None:
    with bystander(broker) as waited:
        answer = ask(broker, describe_configs(40_000))
    response, _ = decode(DescribeConfigsResponse, 4, answer, 9)
    assert {result.error_code for result in response.results} == {ErrorCode.INVALID_REQUEST}
    assert "larger than" in (response.results[0].error_message or "")
    assert max(waited) < WAITED
    assert memory(broker, "VmHWM") < MOST_MEMORY


def test_one_group_asked_for_four_hundred_times_is_too_much_and_forty_times_is_not(broker: BrokerProcess) -> None:
    lines = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=5, committed_metadata="")
        for n in range(PARTITIONS)
    ]
    commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=lines)])
    ask(broker, framed(commit, 8))
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    with bystander(broker) as waited:
        answer = ask(broker, framed(OffsetFetchRequest(groups=[group] * 400), 8))
    response, _ = decode(OffsetFetchResponse, 8, answer, 9)
    assert [one.error_code for one in response.groups] == [ErrorCode.INVALID_REQUEST] * 400
    assert max(waited) < WAITED
    assert memory(broker, "VmHWM") < MOST_MEMORY
    answer = ask(broker, framed(OffsetFetchRequest(groups=[group] * 40), 8))
    response, _ = decode(OffsetFetchResponse, 8, answer, 9, max_elements=1 << 62)
    assert [len(one.topics[0].partitions) for one in response.groups] == [PARTITIONS] * 40


def test_a_broker_that_is_busy_with_long_answers_stops_when_it_is_told_to(broker: BrokerProcess) -> None:
    connections = [connect(broker) for _ in range(8)]
    for connection in connections:
        connection.sendall(describe_configs(15_000))
    ask(broker, framed(ApiVersionsRequest(), 0))
    broker.stop()
    for connection in connections:
        connection.close()


def test_many_who_ask_for_much_and_read_nothing_take_what_few_take(broker: BrokerProcess) -> None:
    """Each connection has one answer waiting at most, and all of them together `MAX_PENDING` and one."""
    connections = [connect(broker) for _ in range(15)]
    request = describe_configs(9000)
    for connection in connections:
        connection.sendall(request * 5)
    peaks = [-1, 0]
    while peaks[-1] != peaks[-2]:  # until nothing more happens
        with bystander(broker) as waited:
            time.sleep(1)
        assert max(waited) < WAITED
        peaks.append(memory(broker, "VmHWM"))
    assert peaks[-1] < MAX_PENDING + MAX_BYTES + MOST_MEMORY
    for connection in connections:
        connection.close()
    assert ask(broker, describe_configs(9000))
