"""The groups of one partition of `__consumer_offsets`: every request about them is decided here.

One object holds the groups whose names hash to that partition, their offsets and their time-outs.  Requests that
change something return a `Decision`; the broker writes its records to the partition and hands them to `apply`, which
is also how the groups come back after a restart.  Questions are answered at once.  Refusals are raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker_lite.coordinator import schemas
from broker_lite.coordinator.decision import Decision, Record, Reply, Ticket
from broker_lite.coordinator.groups import (
    committing,
    guests,
    heartbeat,
    joining,
    migration,
    rebalance,
    syncing,
)
from broker_lite.coordinator.groups.catalogue import Catalogue, NoTopics
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.committing import Commit as Commit
from broker_lite.coordinator.groups.committing import Committer as Committer
from broker_lite.coordinator.groups.consumer import ConsumerGroup, MemberState
from broker_lite.coordinator.groups.heartbeat import Beat, Beaten
from broker_lite.coordinator.groups.members import Join, Sync
from broker_lite.coordinator.groups.offsets import NOTHING, Committed, Offsets, deletion
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import TimerKey, Turn
from broker_lite.coordinator.schemas import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from broker_lite.coordinator.timers import Timers
from broker_lite.errors import (
    ErrorCode,
    GroupIdNotFound,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from broker_lite.ids import NO_TOPIC_ID

_NEVER = 2**63 - 1
"""The last millisecond there is."""

Group = ClassicGroup | ConsumerGroup


class Groups:
    def __init__(self, settings: GroupSettings, catalogue: Catalogue | None = None) -> None:
        self.settings = settings
        self.catalogue: Catalogue = NoTopics() if catalogue is None else catalogue
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._timers: Timers[TimerKey] = Timers()

    # The classic protocol

    def join(self, asked: Join, ticket: Ticket, *, now: float, now_ms: int) -> Decision[None]:
        """The answer, a `Joined`, comes with the ticket: at once, or when the round ends."""
        _check_id(asked.group)
        limits = self.settings
        if not limits.min_session_ms <= asked.session_timeout_ms <= limits.max_session_ms:
            raise InvalidSessionTimeout(
                f"{asked.session_timeout_ms} ms is not within {limits.min_session_ms} and {limits.max_session_ms}"
            )
        group = self.groups.get(asked.group)
        is_born = group is None
        if group is None:
            if asked.member_id:
                raise UnknownMemberId(f"there is no group {asked.group}")
            group = ClassicGroup(asked.group, now_ms=now_ms)
        turn = self._turn(now, now_ms)
        if isinstance(group, ConsumerGroup):
            if group.members:
                guests.join(group, turn, asked, ticket, self.catalogue)
                return self._decided(turn, None, group)
            turn.records += group.tombstones()
            group = ClassicGroup(asked.group, now_ms=now_ms)
        joining.join(group, turn, asked, ticket)
        self.groups[group.id] = group
        if is_born and not turn.records:
            # As Kafka does it: the group is known after a restart, although nobody is in it yet.
            turn.records.append(group.birth_record())
            return Decision(None, turn.records, turn.answers, lambda: self._never_born(asked.group))
        return self._decided(turn, None, group)

    def _never_born(self, group_id: str) -> None:
        del self.groups[group_id]

    def sync(self, asked: Sync, ticket: Ticket, *, now: float, now_ms: int) -> Decision[None]:
        """The answer, a `Synced`, comes with the ticket: at once, or when the leader has brought the assignment."""
        group = self._member_group(asked.group)
        turn = self._turn(now, now_ms)
        if isinstance(group, ConsumerGroup):
            guests.sync(group, turn, asked, ticket, self.catalogue)
        else:
            syncing.sync(group, turn, asked, ticket)
        return self._decided(turn, None, group)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, *, now: float, now_ms: int
    ) -> None:
        group = self._member_group(group_id)
        turn = self._turn(now, now_ms)
        if isinstance(group, ConsumerGroup):
            guests.heartbeat(group, turn, member_id, instance_id, generation)
        else:
            syncing.heartbeat(group, turn, member_id, instance_id, generation)

    def leave(
        self, group_id: str, leaving: list[tuple[str, str | None]], *, now: float, now_ms: int
    ) -> Decision[list[ErrorCode]]:
        """One code for each (member id, instance id)."""
        turn = self._turn(now, now_ms)
        group = self._member_group(group_id)
        if isinstance(group, ConsumerGroup):
            return self._decided(turn, heartbeat.leave_many(group, turn, leaving, self.catalogue), group)
        return self._decided(turn, syncing.leave(group, turn, leaving), group)

    def tick(self, *, now: float, now_ms: int) -> Decision[None]:
        """Everything whose time is over by now."""
        turn = self._turn(now, now_ms)
        for what, group_id, member_id in self._timers.over(now):
            match what, self.groups.get(group_id):
                case _, ConsumerGroup() as consumers:
                    if member_id in consumers.members:
                        heartbeat.fence(consumers, turn, consumers.members[member_id], self.catalogue)
                case "session", ClassicGroup() as group:
                    syncing.session_is_over(group, turn, member_id)
                case "join", ClassicGroup() as group:
                    rebalance.join_time_is_over(group, turn)
                case "sync", ClassicGroup() as group:
                    syncing.sync_time_is_over(group, turn)
                case "downgraded", ClassicGroup(state=State.STABLE) as group:
                    rebalance.prepare(group, turn)
        return self._decided(turn, None, None)

    # The consumer protocol

    def beat(self, asked: Beat, *, now: float, now_ms: int) -> Decision[Beaten]:
        heartbeat.check(asked, self.settings.assignors)
        turn = self._turn(now, now_ms)
        group = self.groups.get(asked.group)
        if asked.epoch < 0:
            if not isinstance(group, ConsumerGroup):
                raise _not_a_consumer_group(asked.group, group)
            return self._decided(turn, heartbeat.leave(group, turn, asked, self.catalogue), None)
        if isinstance(group, ClassicGroup) and group.state is State.EMPTY and asked.epoch == 0:
            turn.records += group.tombstones()
            group = None
        if group is None and asked.epoch == 0:
            group = ConsumerGroup(asked.group)
        if isinstance(group, ClassicGroup) and asked.epoch == 0 and migration.may_upgrade(group, turn):
            group = migration.upgrade(group, turn, self.catalogue)
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(asked.group, group)
        beaten = heartbeat.beat(group, turn, asked, self.catalogue)
        return self._decided(turn, beaten, group)

    # Offsets

    def commit(
        self,
        group_id: str,
        who: Committer,
        commits: list[Commit],
        *,
        now: float,
        now_ms: int,
        retention_ms: int = -1,
        knows_epochs: bool = True,
    ) -> Decision[list[ErrorCode]]:
        """One code for each commit. `knows_epochs`: from version 9 on a client knows consumer groups and code 69."""
        group = self.groups.get(group_id)
        committing.check(group_id, group, who, commits, transactional=False, knows_epochs=knows_epochs)
        if (
            isinstance(group, ClassicGroup)
            and (member := group.members.get(who.member_id)) is not None
            and group.state in (State.STABLE, State.PREPARING_REBALANCE)
        ):
            # A commit is as good as a heartbeat.
            self._turn(now, now_ms).set_timer("session", group_id, member.id, within_ms=member.session_timeout_ms)
        expire_ms = -1 if retention_ms == -1 else min(now_ms + retention_ms, _NEVER)
        return committing.decide(group_id, commits, now_ms, expire_ms, self.settings.metadata_max)

    def commit_in_transaction(
        self, group_id: str, who: Committer, commits: list[Commit], *, now_ms: int
    ) -> Decision[list[ErrorCode]]:
        """As `commit`; the records are to be written as a transactional batch of the producer."""
        _check_id(group_id)
        for one in commits:
            topic = self.catalogue.get(one.topic)
            if topic is not None:
                one.topic_id = topic.id
        group = self.groups.get(group_id)
        committing.check(group_id, group, who, commits, transactional=True, knows_epochs=False)
        return committing.decide(group_id, commits, now_ms, -1, self.settings.metadata_max)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Refuse a member of a consumer group that is not up to date; whoever names none is welcome."""
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def committed(self, group_id: str, topic: str, partition: int, *, stable: bool, topic_id: bytes) -> Committed:
        """The group's offset, or NOTHING. With `stable`, 88 while an open transaction may change it."""
        if stable and self.offsets.is_pending(group_id, topic, partition):
            raise UnstableOffsetCommit(f"a transaction is open on {topic}-{partition} of group {group_id}")
        committed = self.offsets.get(group_id, topic, partition)
        if committed is None or _is_of_another_topic(committed.topic_id, topic_id):
            return NOTHING
        return committed

    def delete_offsets(
        self, group_id: str, places: Iterable[tuple[str, int]], *, now: float, now_ms: int
    ) -> Decision[list[ErrorCode]]:
        """One code for each (topic, partition)."""
        _check_id(group_id)
        group = self.group(group_id)
        group.check_offsets_deletable()
        codes: list[ErrorCode] = []
        records: list[Record] = []
        for topic, partition in places:
            if group.reads(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if self.offsets.get(group_id, topic, partition) or self.offsets.is_pending(group_id, topic, partition):
                records.append(deletion(group_id, topic, partition))
        return Decision(codes, records)

    def on_topic_deleted(self, topic: str) -> Decision[None]:
        return Decision(None, self.offsets.deletions_of_topic(topic))

    def expire_offsets(self, *, now_ms: int) -> Decision[None]:
        """Offsets nobody needs any more, and groups without members and offsets."""
        records: list[Record] = []
        for group in self.groups.values():
            deletions, is_all = self.offsets.expired(
                group.id, group.expires_from, group.reads, now_ms=now_ms, retention_ms=self.settings.retention_ms
            )
            records += deletions
            if is_all and group.is_empty:
                records += group.tombstones()
        return Decision(None, records)

    # Groups as such

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups.values())

    def delete_group(self, group_id: str) -> Decision[None]:
        group = self.group(group_id)
        group.check_deletable()
        return Decision(None, self.offsets.deletions_of_group(group_id) + group.tombstones())

    def all_waiting(self) -> Iterator[Ticket]:
        """Those whose round of the classic protocol has not ended yet."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    yield from (ticket for ticket in (member.joining, member.syncing) if ticket is not None)

    # From the log

    def apply(self, record: Record, *, at: int, producer_id: int = -1, now_ms: int) -> None:
        """Make true what the record says. Live and at a restart it is the same."""
        if not record.is_news:
            return
        said = record.spoken or schemas.read(record.key, record.value)
        match said:
            case (OffsetCommitKey() as key, value):
                committed = Committed.of(value) if isinstance(value, OffsetCommitValue) else value
                assert committed is None or isinstance(committed, Committed)
                if committed is not None and key.group not in self.groups:
                    self.groups[key.group] = ClassicGroup(key.group, now_ms=now_ms)
                self.offsets.apply(key, committed, at=at, producer_id=producer_id)
            case (GroupMetadataKey() as key, None):
                if isinstance(self.groups.get(key.group), ClassicGroup):
                    del self.groups[key.group]
            case (GroupMetadataKey() as key, GroupMetadataValue() as value):
                group = self.groups.get(key.group)
                if not isinstance(group, ClassicGroup):
                    group = self.groups[key.group] = ClassicGroup(key.group, now_ms=now_ms)
                group.adopt(value)
            case (key, value):
                self._apply_to_consumers(key, value)

    def _apply_to_consumers(self, key: object, value: object | None) -> None:
        group_id = getattr(key, "group_id", "")
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self.groups[group_id] = ConsumerGroup(group_id)
        if value is None and isinstance(key, schemas.ConsumerGroupMetadataKey):
            del self.groups[group_id]
        else:
            group.apply(key, value)

    def apply_marker(self, producer_id: int, *, commit: bool) -> None:
        """A transaction marker stands in the partition: what its producer had pending is decided."""
        self.offsets.apply_marker(producer_id, commit=commit)

    def loaded(self, *, now: float, now_ms: int) -> Decision[None]:
        """The whole partition has been applied: every member gets a full new session to show that it is alive."""
        turn = self._turn(now, now_ms)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                self._welcome(group, turn)
                continue
            for member in group.members.values():
                turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
            if len(group.members) > self.settings.max_size:
                rebalance.prepare(group, turn)
        return self._decided(turn, None, None)

    def _welcome(self, group: ConsumerGroup, turn: Turn) -> None:
        own_ms = self.settings.consumer(group.id).session_ms
        for member in group.members.values():
            classic = member.classic
            session_ms = own_ms if classic is None else classic.session_timeout_ms
            turn.set_timer("session", group.id, member.id, within_ms=session_ms)
            if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                turn.set_timer("revoke", group.id, member.id, within_ms=member.rebalance_timeout_ms)

    @property
    def wake_at(self) -> float | None:
        return self._timers.next_at

    def _turn(self, now: float, now_ms: int) -> Turn:
        return Turn(now, now_ms, self.settings, self._timers)

    def _decided(self, turn: Turn, reply: Reply, group: Group | None) -> Decision[Reply]:
        undo = None
        if turn.records and group is not None:

            def undo() -> None:
                if isinstance(group, ConsumerGroup):
                    group.names_seen = frozenset()
                else:
                    syncing.assignment_was_not_written(group, self._turn(turn.now, turn.now_ms))

        return Decision(reply, turn.records, turn.answers, undo)

    def _member_group(self, group_id: str) -> Group:
        """The group somebody claims to be a member of."""
        _check_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {group_id}")
        return group


def _check_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId("the group id is empty")


def _not_a_consumer_group(group_id: str, group: Group | None) -> GroupIdNotFound:
    if group is None:
        return GroupIdNotFound(f"Group {group_id} not found.")
    return GroupIdNotFound(f"Group {group_id} is not a consumer group.")


def _is_of_another_topic(one: bytes, other: bytes) -> bool:
    """A topic that was deleted and made again has the same name and other ids."""
    return NO_TOPIC_ID not in (one, other) and one != other
