"""Random histories on a disk that refuses and heals.

Clients of both protocols say whatever they like, right or wrong; the disk refuses decisions, as a whole or after some
records of them.  After each step nobody is forgotten who waits, every member has a session that ends, and memory is
what a start would make of the log.  When the disk heals, one client that behaves has all partitions before long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker_lite.coordinator.decision import Decision, Record
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.heartbeat import Beat
from broker_lite.coordinator.groups.members import Sync
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.coordinator.groups.subscription import write_assignment
from broker_lite.errors import BrokerError, ErrorCode
from tests.coordinator.groups.test_consumer_groups import Consumer
from tests.coordinator.playbook import GROUP, Playbook, commit, heartbeat, join, leave
from tests.coordinator.replaying import differences, is_watched

NAMES = st.sampled_from(["a", "b", "c"])
PROTOCOLS = st.sampled_from(["range", "sticky"])
INSTANCES = st.sampled_from([None, None, "i"])
SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"
PARTITIONS = 4


class AnyRefusedHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=10_000)))
        self.book.topics["t"] = PARTITIONS
        self.waiting: set[str] = set()
        self.asked = 0

    # What anybody says

    @rule(name=NAMES, protocol=PROTOCOLS, instance=INSTANCES, id_first=st.booleans(), is_known=st.booleans())
    def somebody_joins(self, name: str, protocol: str, instance: str | None, id_first: bool, is_known: bool) -> None:
        self._wait_with(
            lambda ticket: self._join(
                ticket, name if is_known else "", protocol=protocol, instance=instance, id_first=id_first
            )
        )

    @rule(name=NAMES, instance=INSTANCES)
    def somebody_syncs(self, name: str, instance: str | None) -> None:
        group = self._classic()
        member = self._member(name)
        if group is None or member is None:
            return
        told = {}
        if group.leader == member:
            shares = {one: [at for at in range(PARTITIONS) if at % len(group.members) == number]
                      for number, one in enumerate(group.members)}  # fmt: skip
            told = {one: write_assignment([("t", share)], 1) for one, share in shares.items()}
        self._wait_with(lambda ticket: self._sync(ticket, member, told, group.generation, instance))

    @rule(name=NAMES)
    def somebody_beats(self, name: str) -> None:
        group, member = self.book.groups.groups.get(GROUP), self._member(name)
        if member is None:
            return
        if isinstance(group, ConsumerGroup):
            self._beat(member, group.members[member].epoch, owned=group.members[member].assigned)
            return
        assert group is not None
        self.book >> heartbeat(member, generation=group.generation)
        self.book.heard.pop()

    @rule(name=NAMES, instance=INSTANCES)
    def a_consumer_comes(self, name: str, instance: str | None) -> None:
        self._beat(f"{name}-new", 0, instance_id=instance, rebalance_timeout_ms=10_000, topics=["t"], owned=frozenset())

    @rule(name=NAMES, is_for_a_while=st.booleans())
    def somebody_leaves(self, name: str, is_for_a_while: bool) -> None:
        group, member = self.book.groups.groups.get(GROUP), self._member(name)
        if member is None:
            return
        if isinstance(group, ConsumerGroup):
            instance = group.members[member].instance_id
            self._beat(member, -2 if is_for_a_while and instance else -1, instance_id=instance)
        else:
            self.book >> leave((member, None))

    @rule(partition=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 9), name=NAMES)
    def somebody_commits(self, partition: int, offset: int, name: str) -> None:
        group, member = self.book.groups.groups.get(GROUP), self._member(name)
        topic = self.book.topics.get("t")
        assert topic is not None
        generation = -1
        if isinstance(group, ConsumerGroup) and member is not None:
            generation = group.members[member].epoch
        elif isinstance(group, ClassicGroup) and member is not None:
            generation = group.generation
        self.book >> commit(
            offset, partition=partition, who=member or "", generation=generation, topic_id=bytes(topic.id)
        )
        self.book.heard.pop()

    @rule()
    def somebody_deletes_the_group(self) -> None:
        with suppress(BrokerError):
            self.book.carry_out(self.book.groups.delete_group(GROUP))

    # What the world does

    @rule()
    def the_topic_is_made_again(self) -> None:
        del self.book.topics["t"]
        now, now_ms = self.book.now, self.book.now_ms
        with suppress(BrokerError):
            self.book.carry_out(self.book.groups.on_topic_deleted("t", now=now, now_ms=now_ms))
        self.book.topics["t"] = PARTITIONS

    @rule(seconds=st.sampled_from([0.1, 0.5, 3.0, 11.0, 40.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.book.wait(seconds)

    @rule(takes=st.sampled_from([0, 0, 1, 2, 5]))
    def the_disk_refuses(self, takes: int) -> None:
        self.book.disk_fails, self.book.disk_takes = True, takes

    @rule()
    def the_disk_heals(self) -> None:
        self.book.disk_fails = False

    @rule()
    def offsets_expire(self) -> None:
        with suppress(BrokerError):
            records = self.book.groups.expire_offsets(GROUP, now_ms=self.book.now_ms + 10**12)
            self.book.carry_out(Decision(None, records))

    def _member(self, name: str) -> str | None:
        group = self.book.groups.groups.get(GROUP)
        return None if group is None else next((one for one in group.members if one.startswith(name)), None)

    def _classic(self) -> ClassicGroup | None:
        group = self.book.groups.groups.get(GROUP)
        return group if isinstance(group, ClassicGroup) else None

    def _join(self, ticket: str, name: str, *, protocol: str, instance: str | None, id_first: bool) -> None:
        member = self._member(name) if name else None
        protocols = ((protocol, SUBSCRIPTION), ("both", SUBSCRIPTION))
        self.book >> join(
            ticket, member=member, instance=instance, id_first=id_first, protocols=protocols, session=10, rebalance=10
        )

    def _sync(self, ticket: str, member: str, told: dict[str, bytes], generation: int, instance: str | None) -> None:
        asked = Sync(group=GROUP, member_id=member, instance_id=instance, generation=generation, assignments=told)
        now, now_ms = self.book.now, self.book.now_ms
        self.book.ask(ticket, lambda: self.book.carry_out(self.book.groups.sync(asked, ticket, now=now, now_ms=now_ms)))

    def _wait_with(self, ask: Callable[[str], None]) -> None:
        self.asked += 1
        ticket = f"{'abc'[self.asked % 3]}-{self.asked}"
        self.waiting.add(ticket)
        ask(ticket)

    def _beat(self, member: str, epoch: int, **more: object) -> None:
        asked = Beat(group=GROUP, member_id=member, epoch=epoch, **more)  # type: ignore[arg-type]
        with suppress(BrokerError):
            self.book.carry_out(self.book.groups.beat(asked, now=self.book.now, now_ms=self.book.now_ms))

    # What is always true

    @invariant()
    def whoever_waits_is_known(self) -> None:
        if not hasattr(self, "book"):
            return
        self._hear()
        assert self.waiting == set(map(str, self.book.groups.all_waiting()))

    @invariant()
    def every_member_has_a_session(self) -> None:
        assert not hasattr(self, "book") or is_watched(self.book.groups)

    @invariant()
    def memory_is_what_a_start_would_find(self) -> None:
        if not hasattr(self, "book"):
            return
        replayed = Groups(self.book.settings, self.book.topics)
        for record, at, producer_id in self.book.log:
            bare = Record(record.key, record.value)
            replayed.apply(bare, at=at, producer_id=producer_id, now_ms=self.book.now_ms)
        assert differences(self.book.groups, replayed) == []

    def _hear(self) -> None:
        for ticket, _ in self.book.heard:
            self.waiting.discard(ticket)
        self.book.heard.clear()

    def teardown(self) -> None:
        """Nobody else says anything more. A session, a round without those who are gone, and another one, is 40 s."""
        if not hasattr(self, "book"):
            return
        self.book.disk_fails = False
        consumer = Consumer(self.book, "last", "t")
        for _ in range(60):
            try:
                consumer.beat()
            except BrokerError as error:
                if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                    raise
                consumer.epoch, consumer.owns = 0, frozenset()
            self.book.wait(1)
        self._hear()
        assert self.waiting == set()
        assert len(consumer.owns) == PARTITIONS
        group = self.book.groups.group(GROUP)
        assert set(group.members) == {"last"}
        topic = self.book.topics.get("t")
        assert topic is not None
        offsets = [one for partitions in self.book.groups.offsets.of(GROUP).values() for one in partitions.values()]
        assert {bytes(one.topic_id) for one in offsets} <= {bytes(topic.id)}, "offsets of a topic that is gone"


TestAnyRefusedHistory = AnyRefusedHistory.TestCase
TestAnyRefusedHistory.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
