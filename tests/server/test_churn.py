"""Thousands of connections that come and go, each leaving something unfinished: nothing of them stays.

A round is so many connections of every kind below, a hundred at a time. After each round the broker is back at its
descriptors, tasks and parked requests; memory is level from the second round on; a log line is not written for each.

BROKER_LITE_LOAD=1 takes rounds of 5,000 connections, without it of 1,000.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import struct
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from bench.peer import free_port
from broker_lite.cli import certs
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.headers import request_is_flexible
from broker_lite.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker_lite.wire.schema import spec_of
from tests.server.test_load import FULL, MIB, enough_sockets, memory, produced
from tests.support.broker import BrokerProcess
from tests.support.waiting import until

__all__ = ["enough_sockets"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROUND = 5_000 if FULL else 1_000
ROUNDS = 5
AT_ONCE = 100
GROWTH = {False: 3 * MIB, True: 12 * MIB}
"""Of memory between the second round and the last, without TLS and with it. Nothing is in use that was not before, but
OpenSSL's buffers leave holes: a bare server of uvloop's grows by 1 to 4 MiB for each thousand handshakes as well. When
each connection stayed until it was collected, it grew by 20 and 25 MiB."""
QUICK = (
    *("--topic", "quiet", "--topic", "t"),
    *("--set", "group.min.session.timeout.ms=500", "--set", "offsets.retention.check.interval.ms=500"),
)


class Visitor:
    """One connection, and what it leaves unfinished."""

    def __init__(self, port: int, number: int, context: ssl.SSLContext | None) -> None:
        self.port = port
        self.number = number
        self.context = context
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def come(self) -> None:
        name = None if self.context is None else "localhost"
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=name
        )

    def frame(self, request: object, version: int) -> bytes:
        key = spec_of(type(request)).key
        assert key is not None
        client_id = b"visitor-%d" % self.number
        head = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id
        head += b"\0" if request_is_flexible(key, version) else b""
        body = head + encode_bytes(request, version)
        return struct.pack(">i", len(body)) + body

    async def ask(self, frame: bytes) -> bytes:
        self.writer.write(frame)
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    def reset(self) -> None:
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def fetch(self, topic: str, max_wait_ms: int) -> bytes:
        wanted = [
            FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])
        ]
        return self.frame(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=0, topics=wanted), 12)

    # ------------------------------------------------------------ what they do

    async def ask_and_leave(self) -> None:
        await self.come()
        await self.ask(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        self.writer.close()

    async def open_a_fetch_session(self) -> None:
        await self.come()
        await self.ask(self.fetch("quiet", 0))
        self.reset()

    async def reset_a_long_poll(self) -> None:
        await self.come()
        await self.ask(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        self.writer.write(self.fetch("quiet", 60_000))
        await asyncio.sleep(0.01)
        self.reset()

    async def hang_up_on_a_join(self) -> None:
        """Version 3 is a member at once; it waits for others until the end of its session."""
        await self.come()
        join = JoinGroupRequest(
            group_id=f"group-{self.number}",
            session_timeout_ms=500,
            rebalance_timeout_ms=500,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        self.writer.write(self.frame(join, 3))
        await asyncio.sleep(0.01)
        self.reset()

    async def reset_in_a_produce(self) -> None:
        await self.come()
        request = self.frame(produced(bytes(20_000)), 7)
        self.writer.write(request[: len(request) - self.number % 20_000])
        await asyncio.sleep(0.01)
        self.reset()

    async def say_nothing(self) -> None:
        await self.come()
        self.reset()

    async def speak_another_protocol(self) -> None:
        await self.come()
        self.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await self.reader.read()
        self.writer.close()

    async def half_a_handshake(self) -> None:
        """Of TLS, or of a frame."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(b"\x16\x03\x01\x02\x00\x01\x00" if self.context else b"\0\0")
        await asyncio.sleep(0.01)
        self.reset()


async def round_of_visits(port: int, first: int, context: ssl.SSLContext | None) -> None:
    kinds: Sequence[Callable[[Visitor], Awaitable[None]]] = [
        kind for name, kind in vars(Visitor).items() if name not in _PARTS and callable(kind)
    ]
    room = asyncio.Semaphore(AT_ONCE)

    async def visit(number: int) -> None:
        async with room:
            await kinds[number % len(kinds)](Visitor(port, number, context))

    async with asyncio.timeout(300), asyncio.TaskGroup() as visits:
        for number in range(first, first + ROUND):
            visits.create_task(visit(number))


_PARTS = {"__init__", "come", "frame", "ask", "reset", "fetch"}


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_nothing_is_left_of_those_who_came_and_went(tmp_path: Path, tls: bool, durability: str) -> None:
    metrics, port = free_port(), free_port()
    options = [*QUICK, "--durability", durability, "--metrics", f"127.0.0.1:{metrics}"]
    context = None
    if tls:
        certs.make(tmp_path / "certs", ["localhost"])
        options += ["--listen", f"SSL://127.0.0.1:{port}"]
        options += ["--set", f"ssl.keystore.location={tmp_path}/certs/server.pem"]
        context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    with BrokerProcess(tmp_path / "broker", options) as broker:
        port = port if tls else broker.port

        def left() -> dict[str, float]:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as answer:
                page = answer.read().decode()
            kept = ("tasks", "parked_requests", "groups")
            found = {name: re.search(rf"^broker_lite_{name} (\S+)$", page, re.MULTILINE) for name in kept}
            found_now = {name: float(match[1]) for name, match in found.items() if match is not None}
            return {**found_now, "descriptors": len(os.listdir(f"/proc/{broker.pid}/fd"))}

        asyncio.run(round_of_visits(port, 0, context))
        until(lambda: left()["groups"] == 0, within=30, what="the groups of the first round to go")
        before, memories = left(), []
        for number in range(1, ROUNDS):
            asyncio.run(round_of_visits(port, number * ROUND, context))
            with contextlib.suppress(AssertionError):
                until(lambda: level(left(), before), within=30, what="everybody to be forgotten")
            assert level(now := left(), before), f"{before} became {now} after {number} rounds"
            memories.append(memory(broker))
        print(f"tls={tls} {durability}: {before}, MiB after each round {[round(one / MIB, 1) for one in memories]}")
        assert memories[-1] - memories[0] < GROWTH[tls], [one / MIB for one in memories]
        broker.stop()
        assert len(broker.stderr.splitlines()) < 120, broker.story()


def level(now: dict[str, float], before: dict[str, float]) -> bool:
    """A visitor of the metrics page is a task and a descriptor of its own."""
    return all(value <= before[name] + 3 for name, value in now.items())
