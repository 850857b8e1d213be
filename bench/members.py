"""Members of groups by the hundred: each has a connection, joins, does what it is told, and reports.

They are as small as a member can be, so that the time it takes them to settle is the broker's.  A group has *settled*
when everybody has its share in the same generation, or epoch.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter
from typing import TypeVar

from broker_lite.coordinator.groups.subscription import (
    ConsumerProtocolSubscription,
    read_assignment,
    write_assignment,
)
from broker_lite.errors import ErrorCode
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import RequestHeader, request_header, request_is_flexible, response_is_flexible
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker_lite.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from broker_lite.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker_lite.wire.schema import spec_of

R = TypeVar("R")
PAUSE = 0.2
"""Between two heartbeats: a member learns of a rebalance by them, so real ones settle later."""
_LATER = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_SUBSCRIPTION_VERSION = 1


class Wire:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, bootstrap: str) -> Wire:
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: object, version: int, answer: type[R]) -> R:
        key = spec_of(type(request)).key
        assert key is not None
        head = request_header(RequestHeader(key, version, 1, "bench"), flexible=request_is_flexible(key, version))
        body = encode_bytes(request, version)
        self._writer.write(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        data = await self._reader.readexactly(size)
        told, _ = decode(answer, version, memoryview(data), 5 if response_is_flexible(key, version) else 4)
        return told

    def close(self) -> None:
        self._writer.close()


class Gathering:
    """One group on its way."""

    def __init__(self, group: str, topic: str, members: int, partitions: int) -> None:
        self.group, self.topic, self.size, self.partitions = group, topic, members, partitions
        self.settled = asyncio.Event()
        self.took = 0.0
        self._begin = time.monotonic()
        self._reached: dict[int, tuple[int, int]] = {}
        """Member -> the generation it is in, and how many partitions it has."""

    def reports(self, member: int, generation: int, partitions: int) -> None:
        self._reached[member] = (generation, partitions)
        if len(self._reached) < self.size or self.settled.is_set():
            return
        generations = Counter(generation for generation, _ in self._reached.values())
        if len(generations) == 1 and sum(owned for _, owned in self._reached.values()) == self.partitions:
            self.took = time.monotonic() - self._begin
            self.settled.set()


async def classic_member(wire: Wire, gathering: Gathering, number: int) -> None:
    """Joins with the two steps of today, takes what the leader gives, and heartbeats until it is cancelled."""
    subscription = ConsumerProtocolSubscription(topics=[gathering.topic])
    metadata = struct.pack(">h", _SUBSCRIPTION_VERSION) + encode_bytes(subscription, _SUBSCRIPTION_VERSION)
    member_id = ""
    while True:
        joined = await wire.ask(
            JoinGroupRequest(
                group_id=gathering.group,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            ),
            5,
            JoinGroupResponse,
        )
        if joined.error_code:
            member_id = joined.member_id if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED else member_id
            if joined.error_code in _LATER:
                await asyncio.sleep(0.05)
            elif joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                member_id = ""
            continue
        member_id = joined.member_id
        synced = await wire.ask(
            SyncGroupRequest(
                group_id=gathering.group,
                generation_id=joined.generation_id,
                member_id=member_id,
                assignments=_shares(gathering, [member.member_id for member in joined.members]),
            ),
            3,
            SyncGroupResponse,
        )
        if synced.error_code:
            continue
        gathering.reports(number, joined.generation_id, _count(bytes(synced.assignment)))
        beat = HeartbeatRequest(group_id=gathering.group, generation_id=joined.generation_id, member_id=member_id)
        while not (await wire.ask(beat, 3, HeartbeatResponse)).error_code:
            await asyncio.sleep(PAUSE)


def _shares(gathering: Gathering, members: list[str]) -> list[SyncGroupRequestAssignment]:
    """What the leader decides; who does not lead knows of no members."""
    return [
        SyncGroupRequestAssignment(
            member_id=member,
            assignment=write_assignment(
                [(gathering.topic, list(range(number, gathering.partitions, len(members))))], _SUBSCRIPTION_VERSION
            ),
        )
        for number, member in enumerate(members)
    ]


def _count(assignment: bytes) -> int:
    return sum(len(line.partitions) for line in read_assignment(assignment).assigned_partitions)


async def consumer_member(wire: Wire, gathering: Gathering, number: int) -> None:
    """KIP-848: says what it owns, owns what it is told, until it is cancelled."""
    member_id, epoch = f"member-{number:06}-of-the-bench", 0
    owned: list[TopicPartitions] = []
    while True:
        request = ConsumerGroupHeartbeatRequest(
            group_id=gathering.group, member_id=member_id, member_epoch=epoch, topic_partitions=owned
        )
        if epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 60_000, [gathering.topic]
        heard = await wire.ask(request, 1, ConsumerGroupHeartbeatResponse)
        if heard.error_code:
            if heard.error_code not in _LATER:
                epoch, owned = 0, []
            await asyncio.sleep(0.05)
            continue
        epoch = heard.member_epoch
        if heard.assignment is not None:
            owned = [
                TopicPartitions(topic_id=line.topic_id, partitions=list(line.partitions))
                for line in heard.assignment.topic_partitions
            ]
        gathering.reports(number, epoch, sum(len(line.partitions) for line in owned))
        await asyncio.sleep(PAUSE)
