"""A mixed load that is the same in its tenth minute as in its first, so that whatever grows is a leak.

Everything that a client can leave behind in a broker is left behind, all the time and under names that are never used
again: producer ids, transactional ids, groups of both protocols, members that vanish, topics, client ids, connections
that are reset in the middle of a frame, of an exchange or of a long poll.  Expiration and housekeeping are turned down
to a second or two, so the broker forgets as fast as it learns.

What a request is answered is checked where it has only one right answer; the rest is for the checkers of the other
suites.  Here it is counted.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from broker_lite.client.admin import SET, ConfigChange, alter_configs
from broker_lite.client.client import Client
from broker_lite.client.connection import Connection
from broker_lite.client.topics import create_topic, delete_topic
from broker_lite.errors import ErrorCode
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.wire.messages import k01_fetch as k01
from broker_lite.wire.messages import k08_offset_commit as k08
from broker_lite.wire.messages import k11_join_group as k11
from broker_lite.wire.messages import k14_sync_group as k14
from broker_lite.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from broker_lite.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from broker_lite.wire.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

R = TypeVar("R")
PARTITIONS = 3
KEYS = 50
GROUPS = 20
"""Names of groups that commit, which the broker remembers for a minute at least; the others use a name once."""
SESSION_MS = 1000
EVERY = 0.15
"""Seconds between two rounds of each worker."""
PAUSE = 0.02
OPTIONS = (
    *("--topic", f"plain:{PARTITIONS},segment.bytes=65536,retention.bytes=131072"),
    *("--topic", f"aged:{PARTITIONS},segment.bytes=65536,retention.ms=2000,segment.ms=1000"),
    *("--topic", f"kept:{PARTITIONS},cleanup.policy=compact,segment.bytes=32768,min.cleanable.dirty.ratio=0.01"),
    *("--topic", "quiet"),
    *("--topic", "in-transactions:2,segment.bytes=65536,retention.ms=2000,segment.ms=1000"),
    *itertools.chain.from_iterable(
        ("--set", setting)
        for setting in (
            "log.retention.check.interval.ms=500",
            "log.segment.delete.delay.ms=500",
            "log.cleaner.backoff.ms=100",
            "log.cleaner.delete.retention.ms=500",
            "producer.id.expiration.ms=2000",
            "producer.id.expiration.check.interval.ms=200",
            "transactional.id.expiration.ms=2000",
            "transaction.remove.expired.transaction.cleanup.interval.ms=500",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
            "transaction.state.log.num.partitions=3",
            "transaction.state.log.segment.bytes=65536",
            "offsets.topic.num.partitions=3",
            "offsets.topic.segment.bytes=65536",
            "offsets.retention.minutes=1",
            "offsets.retention.check.interval.ms=500",
            "group.min.session.timeout.ms=500",
            f"group.consumer.session.timeout.ms={SESSION_MS}",
            f"group.consumer.min.session.timeout.ms={SESSION_MS}",
            "group.consumer.heartbeat.interval.ms=300",
            "group.consumer.min.heartbeat.interval.ms=300",
            "max.incremental.fetch.session.cache.slots=50",
        )
    ),
)


LATE = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""What is answered when a session or a transaction timed out meanwhile: sessions are short, and machines are busy."""


class TooLate(Exception):
    pass


def check(code: int, what: str) -> None:
    if code in LATE:
        raise TooLate(what)
    assert code == 0, f"{what}: {ErrorCode(code).name}"


class Soak:
    """The load on one broker. `run` it for a while; `done` counts what was done, by what it was."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._bootstrap = bootstrap
        self._chance = random.Random(seed)
        self._numbers = itertools.count()
        self._reused = itertools.count()
        self._until = 0.0
        self.done: Counter[str] = Counter()

    async def run(self, seconds: float, beside: Callable[[], None]) -> None:
        """`beside` is called once a second, in a thread."""
        self._until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for name, one in self._workers().items():
                tasks.create_task(self._repeat(name, one))
            while time.monotonic() < self._until:
                await asyncio.gather(asyncio.to_thread(beside), asyncio.sleep(1))

    def _workers(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "plain": self.produce_plain,
            "compacted": self.produce_compacted,
            "idempotent": self.produce_idempotent,
            "committed": lambda: self.produce_in_transactions(vanish=False),
            "left open": lambda: self.produce_in_transactions(vanish=True),
            "classic": lambda: self.read_as_classic(vanish=False),
            "classic vanished": lambda: self.read_as_classic(vanish=True),
            "consumer": lambda: self.read_as_consumer(vanish=False),
            "consumer vanished": lambda: self.read_as_consumer(vanish=True),
            "topic": self.make_and_delete_a_topic,
            "config": self.change_configs,
            "long poll reset": self.reset_a_long_poll,
            "half a frame": self.abandon_half_a_frame,
            "produce reset": self.reset_after_a_produce,
        }

    async def _repeat(self, name: str, one: Callable[[], Awaitable[None]]) -> None:
        """At a pace that a busy machine keeps up with: what the broker holds grows with the rate of what comes."""
        due = time.monotonic()
        while due < self._until:
            await asyncio.sleep(due - time.monotonic())
            try:
                await one()
                self.done[name] += 1
            except TooLate:
                self.done["too late"] += 1
            due = max(due + EVERY, time.monotonic())

    # ------------------------------------------------------------ producers

    async def produce_plain(self) -> None:
        async with self._connected() as connection:
            for number in range(6):
                await self._produce(connection, self._chance.choice(("plain", "aged")), number % PARTITIONS)

    async def produce_compacted(self) -> None:
        async with self._connected() as connection:
            for number in range(6):
                await self._produce(connection, "kept", number % PARTITIONS)

    async def produce_idempotent(self) -> None:
        async with self._connected() as connection:
            ask = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            got = await connection.request(ask, InitProducerIdResponse)
            check(got.error_code, "InitProducerId")
            for sequence in range(3):
                await self._produce(connection, "aged", 0, producer=(got.producer_id, got.producer_epoch, sequence))

    async def produce_in_transactions(self, *, vanish: bool) -> None:
        """Two transactions of an id that is never heard of again; the second may be left to its time-out."""
        async with self._connected() as connection:
            name = f"txn-{next(self._numbers)}"
            ask = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
            got = await connection.request(ask, InitProducerIdResponse)
            check(got.error_code, "InitProducerId")
            producer_id, epoch = got.producer_id, got.producer_epoch
            for committed in (False, True):
                for partition in range(2):
                    await self._produce(
                        connection,
                        "in-transactions",
                        partition,
                        producer=(producer_id, epoch, 0),
                        transactional_id=name,
                    )
                if vanish and committed:
                    return
                end = EndTxnRequest(
                    transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed
                )
                ended = await connection.request(end, EndTxnResponse)
                check(ended.error_code, "EndTxn")
                producer_id, epoch = ended.producer_id, ended.producer_epoch

    async def _produce(
        self,
        connection: Connection,
        topic: str,
        partition: int,
        *,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional_id: str | None = None,
    ) -> None:
        request = self._request(topic, partition, producer, transactional_id)
        code = await self._retried(
            lambda: connection.request(request, ProduceResponse, at_most=12),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        check(code, f"Produce to {topic}")

    async def _retried(self, ask: Callable[[], Awaitable[R]], code_of: Callable[[R], int]) -> int:
        """The code of an answer, or of the next one while the last transaction is still being finished."""
        code = code_of(await ask())
        while code == ErrorCode.CONCURRENT_TRANSACTIONS and time.monotonic() < self._until + 10:
            self.done["concurrent transactions"] += 1
            await asyncio.sleep(PAUSE)
            code = code_of(await ask())
        return code

    def _request(
        self,
        topic: str,
        partition: int,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional_id: str | None = None,
    ) -> ProduceRequest:
        records = [NewRecord(b"%d" % self._chance.randrange(KEYS), self._chance.randbytes(500)) for _ in range(2)]
        if producer[0] >= 0:
            records = records[:1]
        batch = build_batch(
            records,
            timestamp=int(time.time() * 1000),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            transactional=transactional_id is not None,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        return ProduceRequest(acks=-1, timeout_ms=5000, transactional_id=transactional_id, topic_data=topics)

    # ------------------------------------------------------------ consumers

    def _group(self, kind: str, *, vanish: bool) -> str:
        return f"{kind}-{next(self._numbers)}" if vanish else f"{kind}-of-{next(self._reused) % GROUPS}"

    async def read_as_classic(self, *, vanish: bool) -> None:
        """Join, read, commit and leave; or join and hang up, without a commit."""
        group = self._group("classic", vanish=vanish)
        async with self._connected() as connection:
            protocols = [k11.JoinGroupRequestProtocol(name="range", metadata=b"")]
            join = k11.JoinGroupRequest(
                group_id=group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=2000,
                member_id="",
                protocol_type="consumer",
                protocols=protocols,
            )
            answer = await connection.request(join, k11.JoinGroupResponse)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            join.member_id = member = answer.member_id
            answer = await connection.request(join, k11.JoinGroupResponse)
            check(answer.error_code, "JoinGroup")
            assignment = [k14.SyncGroupRequestAssignment(member_id=member, assignment=b"all of it")]
            sync = k14.SyncGroupRequest(
                group_id=group,
                generation_id=answer.generation_id,
                member_id=member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignment,
            )
            synced = await connection.request(sync, k14.SyncGroupResponse)
            check(synced.error_code, "SyncGroup")
            assert bytes(synced.assignment) == b"all of it"
            await self._fetch(connection, vanish=vanish)
            beat = HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=member)
            check((await connection.request(beat, HeartbeatResponse)).error_code, "Heartbeat")
            if not vanish:
                await self._commit(connection, group, member, answer.generation_id)
                leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)])
                check((await connection.request(leave, LeaveGroupResponse)).error_code, "LeaveGroup")

    async def read_as_consumer(self, *, vanish: bool) -> None:
        """The same with the protocol of KIP-848."""
        group, member = self._group("consumer", vanish=vanish), f"member-{next(self._numbers)}"
        async with self._connected() as connection:
            beat = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=0,
                rebalance_timeout_ms=2000,
                subscribed_topic_names=["plain", "aged"],
                topic_partitions=[],
            )
            answer = await connection.request(beat, ConsumerGroupHeartbeatResponse)
            check(answer.error_code, "ConsumerGroupHeartbeat")
            await self._fetch(connection, vanish=vanish)
            if not vanish:
                await self._commit(connection, group, member, answer.member_epoch)
                beat = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1)
                answer = await connection.request(beat, ConsumerGroupHeartbeatResponse)
                check(answer.error_code, "ConsumerGroupHeartbeat")

    async def _fetch(self, connection: Connection, *, vanish: bool) -> None:
        """All partitions from the end that is written to, in a fetch session which whoever vanishes leaves behind."""
        request = self._fetch_request("plain", "aged", max_wait_ms=0)
        answer = await connection.request(request, k01.FetchResponse, at_most=12)
        check(answer.error_code, "Fetch")
        if answer.session_id and not vanish:
            end = k01.FetchRequest(
                max_wait_ms=0, min_bytes=0, session_id=answer.session_id, session_epoch=-1, topics=[]
            )
            await connection.request(end, k01.FetchResponse, at_most=12)

    def _fetch_request(self, *names: str, max_wait_ms: int) -> k01.FetchRequest:
        wanted = [k01.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=65536)]
        topics = [k01.FetchTopic(topic=name, partitions=wanted) for name in names]
        return k01.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=0, topics=topics)

    async def _commit(self, connection: Connection, group: str, member: str, epoch: int) -> None:
        parts = [k08.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")]
        topics = [k08.OffsetCommitRequestTopic(name="plain", partitions=parts)]
        ask = k08.OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics
        )
        answer = await connection.request(ask, k08.OffsetCommitResponse, at_most=9)
        check(answer.topics[0].partitions[0].error_code, "OffsetCommit")

    # ------------------------------------------------------------ administration

    async def make_and_delete_a_topic(self) -> None:
        name = f"brief-{next(self._numbers)}"
        async with await Client.connect(self._bootstrap, client_id=name) as client:
            await create_topic(client, name, partitions=2)
            await self._produce(await client.to_node(1), name, 0)
            await delete_topic(client, name)

    async def change_configs(self) -> None:
        async with await Client.connect(self._bootstrap) as client:
            value = str(self._chance.randrange(2000, 2100))
            await alter_configs(client, "topic", "aged", [ConfigChange("retention.ms", SET, value)])
            await alter_configs(client, "broker", "1", [ConfigChange("log.cleaner.backoff.ms", SET, value[2:] + "0")])

    # ------------------------------------------------------------ connections that end badly

    async def reset_a_long_poll(self) -> None:
        async with self._connected() as connection:
            await connection.send(self._fetch_request("quiet", max_wait_ms=60_000), at_most=12)
            await asyncio.sleep(EVERY)
            _reset(connection)

    async def abandon_half_a_frame(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(struct.pack(">ih", 1_000_000, 0) + bytes(self._chance.randrange(20_000)))
        await asyncio.sleep(PAUSE)
        writer.transport.abort()
        del reader

    async def reset_after_a_produce(self) -> None:
        async with self._connected() as connection:
            await connection.send(self._request("plain", 0), at_most=12)
            _reset(connection)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """A connection under a client id of its own."""
        name = f"client-{next(self._numbers)}"
        connection = await Connection.open(*self._address, client_id=name, timeout=30)
        try:
            yield connection
        finally:
            await connection.close()


def _reset(connection: Connection) -> None:
    """Hang up with a RST when it is closed."""
    from anyio.abc import SocketAttribute

    raw = connection._stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
