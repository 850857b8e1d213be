"""Groups, joined to the log and the clock.

Each partition of `__consumer_offsets` has a pure coordinator for the groups whose names hash to it.  Here its decisions
are carried out: written to the partition as one batch, applied, and told to those who wait.  All of that is one plain
function, so nobody sees a decision half carried out.  In `fsync` mode whoever is answered waits until the partition is
on disk as far as it was written then.

At a start every partition is replayed; until that is done its groups are refused with COORDINATOR_LOAD_IN_PROGRESS,
because "no offset" would be a lie that makes consumers start from the wrong place.  For the same reason the groups of a
partition that cannot be read whole are refused with NOT_COORDINATOR until somebody has mended it, as in Kafka.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

import anyio
import anyio.lowlevel

from broker_lite.broker.coordinator_errors import coordinator_error
from broker_lite.broker.group_log import GroupLog
from broker_lite.broker.group_replay import Replay, has_records
from broker_lite.broker.group_settings import group_settings
from broker_lite.broker.internal_partitions import partition_of
from broker_lite.broker.surviving import REST, surviving
from broker_lite.broker.ticket import Ticket
from broker_lite.config import coordination as keys
from broker_lite.coordinator.decision import Decision, Record
from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.coordinator import Group, Groups
from broker_lite.coordinator.groups.heartbeat import Beat, Beaten
from broker_lite.coordinator.groups.members import Join, Joined, Sync, Synced
from broker_lite.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    ErrorCode,
    refusal,
)
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from broker_lite.logs import get_logger

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

R = TypeVar("R")


class _Now(TypedDict):
    now: float
    now_ms: int


TIMERS_A_TURN = 500
"""Time-outs that are dealt with before others have the loop."""
GROUPS_A_TURN = 1000
"""Groups that are looked at for offsets to be forgotten, before others have the loop."""
BYTES_AT_START = 1 << 20
"""How much is loaded before the broker listens: some twenty milliseconds."""


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """What is loaded stays. A collector that walks through a million offsets, again and again, stops everybody."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


class GroupCoordinator:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clock = broker.clock
        self.settings = group_settings(broker.settings, broker.configs)
        self._protocols = broker.settings.get(keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS)
        self._log = GroupLog(broker)
        self._parts: dict[int, Groups] = {}
        self._loading: set[int] = set()
        self._failed: dict[int, str] = {}
        """Partitions that cannot be read whole, and why."""
        self._gone_while_loading: set[str] = set()
        self._earlier = anyio.Event()
        self._asleep_until = float("inf")
        self._expire_at = self._clock.monotonic() + self.settings.retention_check_ms / 1000

    # ---- life

    def begin(self) -> None:
        """To be called when the topics are open and before anybody is served: everything written is to be loaded.

        What is small is loaded now, so that after most restarts nobody ever hears of loading.
        """
        left = BYTES_AT_START
        for partition in self._broker.topics.open_partitions():
            if partition.tp.topic == GROUP_OFFSETS_TOPIC and has_records(partition):
                index = partition.tp.partition
                self._loading.add(index)
                if partition.log.size_bytes <= left:
                    left -= partition.log.size_bytes
                    for _ in self._load_one(index):
                        pass

    async def run(self) -> None:
        """Load, then wake the coordinators when they want to be woken, for ever."""
        await self._load()
        while True:
            now = self._clock.monotonic()
            times = [at for groups in self._parts.values() if (at := groups.wake_at) is not None]
            self._asleep_until = min([*times, self._expire_at])
            self._earlier = anyio.Event()
            await self._clock.wait(self._earlier, max(self._asleep_until - now, 0))
            with surviving("groups"):
                await self._tick()
                await anyio.lowlevel.checkpoint()
                continue
            await self._clock.wait(anyio.Event(), REST)

    async def _load(self) -> None:
        with _nothing_is_garbage():
            while self._loading:
                for _ in self._load_one(min(self._loading)):
                    await anyio.lowlevel.checkpoint()
        for topic in self._gone_while_loading:
            self.on_topic_deleted(topic)
        self._gone_while_loading.clear()

    def _load_one(self, index: int) -> Iterator[None]:
        groups = Groups(self.settings, self._broker.topics)
        replay = Replay(groups, self._log.partition(index), now_ms=self._clock.now_ms())
        try:
            for _ in replay.run():
                yield
                if index not in self._loading:
                    return  # the topic was deleted meanwhile
        except BrokerError as error:
            log.error("groups.load_failed", partition=index, reason=error.message)
            self._failed[index] = error.message
            self._loading.discard(index)
            return
        self._parts[index] = groups
        self._loading.discard(index)
        loaded = groups.loaded(now=self._clock.monotonic(), now_ms=self._clock.now_ms())
        self._carry_out_alone(index, groups, loaded)
        log.debug("groups.loaded", partition=index, groups=len(groups.groups), records=replay.count)

    async def _tick(self) -> None:
        now = self._clock.monotonic()
        for index, groups in list(self._parts.items()):
            at = groups.wake_at
            if at is not None and at <= now:
                self._time_out(index, groups, now)
        if now >= self._expire_at:
            self._expire_at = now + self.settings.retention_check_ms / 1000
            for index in list(self._parts):
                await self._expire(index)

    def _time_out(self, index: int, groups: Groups, now: float) -> None:
        """Some of those whose time is over; the others' still is when we look again."""
        for timers in groups.due(now, limit=TIMERS_A_TURN):
            is_done = False
            with surviving("groups"):
                decision = groups.fire(timers, now=now, now_ms=self._clock.now_ms())
                self._carry_out_alone(index, groups, decision)
                is_done = True
            if not is_done:
                groups.postpone(timers, now=now)

    async def _expire(self, index: int) -> None:
        """Forget old offsets and groups. What cannot be written now is looked at again next time."""
        groups = self._parts.get(index)
        names = [] if groups is None else list(groups.groups)
        for at in range(0, len(names), GROUPS_A_TURN):
            if groups is None or self._parts.get(index) is not groups:
                return
            records: list[Record] = []
            steady_ms = self._broker.upkeep.time.now_ms()  # what is forgotten because the clock leapt is gone
            for name in names[at : at + GROUPS_A_TURN]:
                with surviving("groups"):
                    records += groups.expire_offsets(name, now_ms=steady_ms)
            self._carry_out_alone(index, groups, Decision(None, records))
            await anyio.lowlevel.checkpoint()

    # ---- the classic protocol

    async def join(self, asked: Join) -> Joined:
        index, groups = self._of(asked.group)
        ticket = Ticket()
        self._carry_out(index, groups, groups.join(asked, ticket, **self._now()))
        joined = cast(Joined, await ticket.wait())
        await self._durable(index)
        return joined

    async def sync(self, asked: Sync) -> Synced:
        index, groups = self._of(asked.group)
        ticket = Ticket()
        self._carry_out(index, groups, groups.sync(asked, ticket, **self._now()))
        synced = cast(Synced, await ticket.wait())
        await self._durable(index)
        return synced

    def heartbeat(self, group: str, member_id: str, instance_id: str | None, generation: int) -> None:
        _, groups = self._of(group)
        groups.heartbeat(group, member_id, instance_id, generation, **self._now())

    def leave(self, group: str, leaving: list[tuple[str, str | None]]) -> list[ErrorCode]:
        index, groups = self._of(group)
        return self._carry_out(index, groups, groups.leave(group, leaving, **self._now()))

    # ---- the consumer protocol

    @property
    def has_consumer_protocol(self) -> bool:
        """`group.coordinator.rebalance.protocols` may switch it off, and so may the feature `group.version`."""
        return "consumer" in self._protocols and self._broker.features_on.level("group.version") > 0

    def is_of_consumers(self, group: str) -> bool:
        """Whether it has members and speaks the consumer protocol."""
        groups = self._parts.get(self.partition_of(group))
        found = None if groups is None else groups.groups.get(group)
        return isinstance(found, ConsumerGroup) and bool(found.members)

    def beat(self, asked: Beat) -> Beaten:
        """Written when this returns; see `when_durable`."""
        assert self.has_consumer_protocol
        index, groups = self._of(asked.group)
        return self._carry_out(index, groups, groups.beat(asked, **self._now()))

    # ---- offsets

    def commit(
        self, group: str, who: Committer, commits: list[Commit], *, retention_ms: int, knows_epochs: bool
    ) -> list[ErrorCode]:
        """One code for each. Written when this returns; see `when_durable`."""
        index, groups = self._of(group)
        decision = groups.commit(
            group,
            who,
            commits,
            now=self._clock.monotonic(),
            now_ms=self._clock.now_ms(),
            retention_ms=retention_ms,
            knows_epochs=knows_epochs,
        )
        return self._carry_out(index, groups, decision)

    def commit_in_transaction(
        self, group: str, who: Committer, commits: list[Commit], *, producer_id: int, producer_epoch: int
    ) -> list[ErrorCode]:
        """One code for each. The offsets are pending until the marker of the producer's transaction comes."""
        index, groups = self._of(group)
        decision = groups.commit_in_transaction(group, who, commits, now_ms=self._clock.now_ms())
        return self._carry_out(index, groups, decision, producer_id, producer_epoch)

    def marker_written(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A transaction marker was appended to this partition of `__consumer_offsets`."""
        groups = self._parts.get(partition)
        if groups is not None:
            groups.apply_marker(producer_id, commit=commit)

    def delete_offsets(self, group: str, places: Iterable[tuple[str, int]]) -> list[ErrorCode]:
        index, groups = self._of(group)
        return self._carry_out(index, groups, groups.delete_offsets(group, places, **self._now()))

    def on_topic_deleted(self, topic: str) -> None:
        if topic == GROUP_OFFSETS_TOPIC:
            self._forget_all()
            return
        if self._loading:
            self._gone_while_loading.add(topic)
        for index, groups in list(self._parts.items()):
            self._carry_out_alone(index, groups, groups.on_topic_deleted(topic, **self._now()))

    def _forget_all(self) -> None:
        """`__consumer_offsets` was deleted, which Kafka allows: its groups are gone, whoever waits has to ask anew."""
        gone = refusal(ErrorCode.NOT_COORDINATOR, f"{GROUP_OFFSETS_TOPIC} was deleted")
        for groups in self._parts.values():
            for ticket in groups.all_waiting():
                cast(Ticket, ticket).give(gone)
        self._parts.clear()
        self._loading.clear()
        self._failed.clear()

    # ---- groups as such

    def of(self, group: str) -> Groups:
        """The coordinator of this group, for questions. 14 while it loads."""
        return self._of(group)[1]

    def __iter__(self) -> Iterator[Group]:
        """All groups, but those that cannot be read. 14 while one of them may not be loaded yet."""
        if self._loading:
            raise CoordinatorLoadInProgress(f"{len(self._loading)} partitions are loading")
        for groups in self._parts.values():
            yield from groups

    def delete(self, group: str) -> None:
        index, groups = self._of(group)
        self._carry_out(index, groups, groups.delete_group(group))

    def partition_of(self, group: str) -> int:
        """The partition of `__consumer_offsets` that keeps this group."""
        topic = self._broker.topics.get(GROUP_OFFSETS_TOPIC)
        if topic is not None:
            return partition_of(group, topic.partition_count)
        return partition_of(group, self._broker.settings.get(keys.OFFSETS_TOPIC_NUM_PARTITIONS))

    def when_durable(self, group: str, answer: R) -> R | Awaitable[R]:
        """The answer, at once if nothing has to reach the disk first."""
        if self.is_durable(group):
            return answer
        return self._later(self.partition_of(group), answer)

    def is_durable(self, group: str) -> bool:
        """Whether all that was written of this group would survive the power."""
        if not self._broker.flusher.active or self._broker.topics.get(GROUP_OFFSETS_TOPIC) is None:
            return True
        partition = self._log.partition(self.partition_of(group))
        return partition.synced_to >= partition.offsets.end

    async def _later(self, index: int, answer: R) -> R:
        await self._durable(index)
        return answer

    async def durable(self, group: str) -> None:
        """Return when all that was written of this group until now is on disk."""
        await self._durable(self.partition_of(group))

    # ---- carrying out

    def _now(self) -> _Now:
        return {"now": self._clock.monotonic(), "now_ms": self._clock.now_ms()}

    def _of(self, group: str) -> tuple[int, Groups]:
        index = self.partition_of(group)
        groups = self._parts.get(index)
        if groups is None:
            if index in self._loading:
                raise CoordinatorLoadInProgress(f"the offsets of group {group} are being loaded")
            if index in self._failed:
                raise refusal(ErrorCode.NOT_COORDINATOR, f"the offsets of group {group} cannot be read")
            groups = self._parts[index] = Groups(self.settings, self._broker.topics)
        return index, groups

    def _carry_out(
        self, index: int, groups: Groups, decision: Decision[R], producer_id: int = -1, producer_epoch: int = -1
    ) -> R:
        """Write, apply, tell. What cannot be written was never decided, and everybody concerned hears of it."""
        if decision.records:
            try:
                self._log.write(index, groups, decision, producer_id, producer_epoch)
            except BrokerError as refused:
                for ticket, _ in decision.answers:
                    cast(Ticket, ticket).give(refused)
                self._wake(groups)
                raise
        for ticket, answer in decision.answers:
            cast(Ticket, ticket).give(answer)
        self._wake(groups)
        return decision.reply

    def _wake(self, groups: Groups) -> None:
        """A timer may have been set that ends before we wanted to look again."""
        wake_at = groups.wake_at
        if wake_at is not None and wake_at < self._asleep_until:
            self._earlier.set()

    def _carry_out_alone(self, index: int, groups: Groups, decision: Decision[None]) -> None:
        """As `_carry_out`, when nobody asked for it: a failure has been logged and is nobody's answer."""
        try:
            self._carry_out(index, groups, decision)
        except BrokerError:
            return

    async def _durable(self, index: int) -> None:
        """What was written to the partition until now is on disk. 15 if it never will be, or nobody can know."""
        if not self._broker.flusher.active or self._broker.topics.get(GROUP_OFFSETS_TOPIC) is None:
            return
        try:
            partition = self._log.partition(index)
            await self._broker.flusher.durable(partition, partition.offsets.end)
        except BrokerError as error:
            raise coordinator_error(error) from error
