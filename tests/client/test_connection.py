"""A connection against peers that answer byte for byte what the test says."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from broker_lite.client.connection import Connection, Unreachable
from broker_lite.errors import UnsupportedVersion
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker_lite.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from broker_lite.wire.messages.k19_create_topics import CreateTopicsRequest

Answer = Callable[[int, int, int], bytes | None]
"""(api key, version, correlation id) -> the frame without its length, or None to hang up."""


@asynccontextmanager
async def peer(answer: Answer) -> AsyncIterator[int]:
    """A listener on a free port whose every connection answers with `answer`."""

    async def talk(stream: SocketStream) -> None:
        async with stream:
            received = bytearray()
            while True:
                try:
                    received += await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return
                while len(received) >= 4 and len(received) >= 4 + (size := int.from_bytes(received[:4], "big")):
                    frame = bytes(received[4 : 4 + size])
                    del received[: 4 + size]
                    reply = answer(*struct.unpack(">hhi", frame[:8]))
                    if reply is None:
                        return
                    await stream.send(struct.pack(">i", len(reply)) + reply)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, talk)
        yield listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


def speaks(correlation_id: int, version: int, **apis: tuple[int, int, int]) -> bytes:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in apis.values()]
    return struct.pack(">i", correlation_id) + encode_bytes(ApiVersionsResponse(api_keys=keys), version)


async def open_to(port: int, timeout: float = 5.0) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id="test", timeout=timeout)


async def test_the_highest_version_that_both_know_is_spoken() -> None:
    def answer(key: int, version: int, number: int) -> bytes:
        if key == 18:
            return speaks(number, version, metadata=(3, 4, 9), topics=(19, 0, 1), future=(999, 0, 3))
        assert (key, version) == (3, 9)
        body = encode_bytes(MetadataResponse(brokers=[], topics=[], cluster_id="c"), version)
        return struct.pack(">ix", number) + body

    async with peer(answer) as port:
        connection = await open_to(port)
        assert (await connection.request(MetadataRequest(topics=None), MetadataResponse)).cluster_id == "c"
        assert connection.version_for(MetadataRequest, at_most=7) == 7
        assert connection.version_for(CreateTopicsRequest) == 1
        assert connection.offered[999] == (0, 3)
        await connection.close()


async def test_an_old_broker_that_does_not_know_our_apiversions_is_asked_in_the_oldest() -> None:
    asked: list[int] = []

    def answer(key: int, version: int, number: int) -> bytes:
        asked.append(version)
        if version > 2:
            return struct.pack(">ihi", number, 35, 0)
        return speaks(number, version, metadata=(3, 0, 1))

    async with peer(answer) as port:
        connection = await open_to(port)
        assert connection.version_for(MetadataRequest) == 1
        await connection.close()
    assert asked == [4, 0]


async def test_an_api_that_the_broker_does_not_speak_is_refused_before_anything_is_sent() -> None:
    async with peer(lambda key, version, number: speaks(number, version, metadata=(3, 0, 1))) as port:
        connection = await open_to(port)
        with pytest.raises(UnsupportedVersion, match="does not speak CreateTopicsRequest"):
            connection.version_for(CreateTopicsRequest)
        assert not connection.closed
        await connection.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda key, version, number: None, "closed the connection on ApiVersionsRequest"),
        (lambda key, version, number: struct.pack(">i", number + 1), "answered another question"),
        (lambda key, version, number: b"\x00", "closed the connection"),
        (lambda key, version, number: struct.pack(">i", number), "sent an answer that cannot be read"),
        (lambda key, version, number: struct.pack(">ihi", number, 0, 5), "sent an answer that cannot be read"),
    ],
)
async def test_a_peer_that_does_not_speak_kafka_is_unreachable(answer: Answer, says: str) -> None:
    async with peer(answer) as port:
        with pytest.raises(Unreachable, match=says):
            await open_to(port)


@pytest.mark.parametrize("said", [b"\0" + b"\xff" * 6, b"", b"\xff", b"\1\0\x7f"])
async def test_an_answer_that_cannot_be_read_closes_the_connection(said: bytes) -> None:
    def answer(key: int, version: int, number: int) -> bytes:
        if key == 18:
            return speaks(number, version, metadata=(3, 9, 9))
        return struct.pack(">i", number) + said

    async with peer(answer) as port:
        connection = await open_to(port)
        with pytest.raises(Unreachable, match="cannot be read"):
            await connection.request(MetadataRequest(topics=None), MetadataResponse)
        with pytest.raises(Unreachable, match="is closed"):
            await connection.request(MetadataRequest(topics=None), MetadataResponse)


async def test_a_port_where_nobody_listens_is_named_in_one_line() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    with pytest.raises(Unreachable) as refused:
        await open_to(port)
    assert str(refused.value) == f"cannot connect to 127.0.0.1:{port}: Connection refused"


async def test_a_broker_that_says_nothing_is_given_up_after_the_timeout() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener:
        port = listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(Unreachable, match=r"did not answer ApiVersionsRequest in 0.05 s"):
            await open_to(port, timeout=0.05)


async def test_a_request_that_is_cancelled_halfway_closes_the_connection() -> None:
    def answer(key: int, version: int, number: int) -> bytes:
        return speaks(number, version, metadata=(3, 0, 9)) if key == 18 else b""

    async with peer(answer) as port:
        connection = await open_to(port)
        connection._received += b"\x00\x00\xff\xff"  # an answer of which only the length has come
        with anyio.move_on_after(0.02) as scope:
            await connection.request(MetadataRequest(topics=None), MetadataResponse)
        assert scope.cancelled_caught
        assert connection.closed


async def test_an_answer_may_name_more_partitions_than_a_request_could() -> None:
    """Each partition counts for itself, its replicas and those in sync: a request may have 100,000 of all of them."""
    parts = [
        MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for n in range(40_000)
    ]
    told = MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="t", partitions=parts)])

    def answer(key: int, version: int, correlation_id: int) -> bytes:
        if key == 18:
            return speaks(correlation_id, version, versions=(18, 0, 3), metadata=(3, 4, 4))
        return struct.pack(">i", correlation_id) + encode_bytes(told, version)

    async with peer(answer) as port:
        connection = await open_to(port)
        found = await connection.request(MetadataRequest(topics=None), MetadataResponse)
        await connection.close()
    assert len(found.topics[0].partitions) == 40_000
