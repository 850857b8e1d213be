"""Random histories of groups in a broker whose disk refuses and heals, in both modes.

What `tests/coordinator/groups/test_any_refused_history.py` does to the decisions, this does to what carries them out:
requests that wait, the clock's task, syncs, a real log, and a start that reads it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import anyio
import anyio.abc
import pytest

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.heartbeat import Beat
from broker_lite.coordinator.groups.members import Join, Sync
from broker_lite.coordinator.groups.subscription import write_assignment
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import GROUP_OFFSETS_TOPIC
from tests.broker.test_group_log import disk as disk  # a fixture
from tests.broker.test_groups import settle
from tests.coordinator.replaying import differences, is_watched
from tests.crash.faulty_disk import FaultyDisk
from tests.support.talk import Talk, talking

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "45000",
}
NAMES = ("g", "k", "l")
SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"
PARTITIONS = 4
KNOWN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""What a client may hear. Others (56, -1) would end it."""


class History:
    def __init__(self, talk: Talk, disk: FaultyDisk, chance: random.Random, tasks: anyio.abc.TaskGroup) -> None:
        self.talk, self.disk, self.chance, self.tasks = talk, disk, chance, tasks
        self.groups = talk.broker.groups
        self.count = 0
        self.waiting = 0

    async def step(self) -> None:
        name = self.chance.choice(NAMES)
        act = self.chance.choices(
            [self.join, self.sync, self.beat, self.come, self.leave, self.commit, self.make_topic_again, self.delete],
            [6, 8, 6, 4, 3, 4, 1, 1],
        )[0]
        act(name)
        await settle()
        if self.chance.random() < 0.3:
            cast(ManualClock, self.talk.broker.clock).advance(self.chance.choice([0.1, 1, 5, 12]))
            await settle()
        if self.chance.random() < 0.15:
            self.disk.refuse_at = 0 if self.disk.refuse_at else self.disk.calls + 1

    def ask(self, question: Callable[[], Awaitable[object]]) -> None:
        async def run() -> None:
            try:
                await question()
            except BrokerError as error:
                if error.code not in KNOWN:
                    raise
            finally:
                self.waiting -= 1

        self.waiting += 1
        self.tasks.start_soon(run)

    def at_once(self, group: str, question: Callable[[], object]) -> None:
        async def run() -> None:
            question()
            await self.groups.durable(group)

        self.ask(run)

    def member(self, name: str) -> tuple[ClassicGroup | ConsumerGroup | None, str]:
        group = self.groups.of(name).groups.get(name)
        return group, self.chance.choice(list(group.members) or [""]) if group is not None else ""

    def join(self, name: str) -> None:
        _, member = self.member(name)
        self.count += 1
        asked = Join(
            group=name,
            member_id=member if self.chance.random() < 0.6 else "",
            protocol_type="consumer",
            protocols=[("range", SUBSCRIPTION)],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            new_member_id=f"m{self.count}",
        )
        self.ask(lambda: self.groups.join(asked))

    def sync(self, name: str) -> None:
        group, member = self.member(name)
        if isinstance(group, ClassicGroup) and member:
            told = {}
            if group.leader == member or self.chance.random() < 0.3:
                member = group.leader or ""
                shares = {one: list(range(at, PARTITIONS, len(group.members))) for at, one in enumerate(group.members)}
                told = {one: write_assignment([("t", share)], 1) for one, share in shares.items()}
            asked = Sync(group=name, member_id=member, generation=group.generation, assignments=told)
            self.ask(lambda: self.groups.sync(asked))

    def beat(self, name: str) -> None:
        group, member = self.member(name)
        if isinstance(group, ConsumerGroup) and member:
            known = group.members[member]
            asked = Beat(group=name, member_id=member, epoch=known.epoch, owned=known.assigned)
            self.at_once(name, lambda: self.groups.beat(asked))
        elif isinstance(group, ClassicGroup) and member:
            generation = group.generation
            self.at_once(name, lambda: self.groups.heartbeat(name, member, None, generation))

    def come(self, name: str) -> None:
        self.count += 1
        asked = Beat(
            group=name, member_id=f"c{self.count}", epoch=0, rebalance_timeout_ms=10_000, topics=["t"],
            owned=frozenset(),
        )  # fmt: skip
        self.at_once(name, lambda: self.groups.beat(asked))

    def leave(self, name: str) -> None:
        group, member = self.member(name)
        if isinstance(group, ConsumerGroup) and member and self.chance.random() < 0.5:
            self.at_once(name, lambda: self.groups.beat(Beat(group=name, member_id=member, epoch=-1)))
        elif member:
            self.at_once(name, lambda: self.groups.leave(name, [(member, None)]))

    def commit(self, name: str) -> None:
        topic = self.talk.broker.topics.get("t")
        assert topic is not None
        lines = [Commit("t", self.chance.randrange(PARTITIONS), self.chance.randrange(100), topic_id=topic.id)]
        if self.chance.random() < 0.3:
            lines = [Commit("t", at, 7, topic_id=topic.id) for at in range(PARTITIONS)]
        who = Committer()
        self.at_once(name, lambda: self.groups.commit(name, who, lines, retention_ms=-1, knows_epochs=True))

    def make_topic_again(self, name: str) -> None:
        topic = self.talk.broker.topics.get("t")
        assert topic is not None
        before, self.disk.refuse_at = self.disk.refuse_at, 0
        log = self.talk.broker.topics.partition(GROUP_OFFSETS_TOPIC, self.groups.partition_of(name)).log
        offline, log._offline = log._offline, "refused by the test" if before else log._offline
        self.talk.broker.delete_topic(topic)
        log._offline = offline
        self.talk.broker.topics.create("t", PARTITIONS, {})
        self.disk.refuse_at = self.disk.calls + 1 if before else 0

    def delete(self, name: str) -> None:
        self.at_once(name, lambda: self.groups.delete(name))

    def parts(self) -> dict[int, Groups]:
        return self.groups._parts

    def check(self) -> None:
        parked = sum(1 for part in self.parts().values() for _ in part.all_waiting())
        assert self.waiting == parked, "somebody waits whom no group knows"
        assert all(is_watched(part) for part in self.parts().values())

    async def heal(self) -> None:
        """One client for each group that behaves has all partitions before long, and nobody else waits."""
        self.disk.refuse_at = 0
        epochs = dict.fromkeys(NAMES, 0)
        for _ in range(120):
            for name in NAMES:
                asked = Beat(group=name, member_id="last", epoch=epochs[name])
                if not epochs[name]:
                    asked.rebalance_timeout_ms, asked.topics, asked.owned = 10_000, ["t"], frozenset()
                else:
                    group = self.groups.of(name).group(name)
                    asked.owned = cast(ConsumerGroup, group).members["last"].assigned if group.members else None
                try:
                    epochs[name] = self.groups.beat(asked).epoch
                except BrokerError as error:
                    if error.code not in KNOWN:
                        raise
                    epochs[name] = 0
            cast(ManualClock, self.talk.broker.clock).advance(1)
            await settle()
        for name in NAMES:
            group = self.groups.of(name).group(name)
            assert isinstance(group, ConsumerGroup)
            assert set(group.members) == {"last"}
            assert len(group.members["last"].assigned) == PARTITIONS


@pytest.mark.parametrize("durability", [Durability.OS, Durability.FSYNC])
@pytest.mark.parametrize("seed", range(4))
async def test_groups_are_what_their_log_says_whatever_the_disk_did(
    tmp_path: Path, disk: FaultyDisk, durability: Durability, seed: int
) -> None:
    chance = random.Random(seed)
    memory: dict[int, Groups] = {}
    for is_healing in (False, True):
        async with talking(tmp_path, durability=durability, settings=SETTINGS) as talk:
            if memory:
                await settle()
                for index, part in talk.broker.groups._parts.items():
                    assert differences(memory[index], part) == []
            else:
                talk.broker.topics.create("t", PARTITIONS, {})
                talk.broker.internal_topic(GROUP_OFFSETS_TOPIC)
            async with anyio.create_task_group() as tasks:
                history = History(talk, disk, chance, tasks)
                for _ in range(150):
                    await history.step()
                disk.refuse_at = 0
                for _ in range(50):
                    await anyio.sleep(0.001)  # whoever waits for the disk is answered by it
                    if history.waiting == sum(1 for part in history.parts().values() for _ in part.all_waiting()):
                        break
                history.check()
                if is_healing:
                    await history.heal()
                    assert history.waiting == 0
                tasks.cancel_scope.cancel()
            memory = dict(talk.broker.groups._parts)
