"""The groups of one partition of `__consumer_offsets`: every request about them is decided here.

One object holds the groups whose names hash to that partition, their offsets and their time-outs.  Requests that
change something return a `Decision`; the broker writes its records to the partition and hands them to `apply`, which
is also how the groups come back after a restart.  Questions are answered at once.  Refusals are raised.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from broker_lite.coordinator import schemas
from broker_lite.coordinator.decision import Decision, Record, Ticket
from broker_lite.coordinator.groups import (
    committing,
    guests,
    heartbeat,
    joining,
    migration,
    rebalance,
    syncing,
    timeouts,
)
from broker_lite.coordinator.groups.catalogue import Catalogue, NoTopics
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.committing import Commit as Commit
from broker_lite.coordinator.groups.committing import Committer as Committer
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.heartbeat import Beat, Beaten
from broker_lite.coordinator.groups.members import Join, Sync
from broker_lite.coordinator.groups.offsets import NOTHING, Committed, Offsets, deletion
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.timeouts import DELETED_TOPIC, GONE_TOPIC_ID, MAX_RETRY_S, MIN_RETRY_S
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
        self._retry_s = 0.0
        self._postponed_at = 0.0

    # The classic protocol

    def join(self, asked: Join, ticket: Ticket, *, now: float, now_ms: int) -> Decision[None]:
        """The answer, a `Joined`, comes with the ticket: at once, or when the round ends."""
        _check_id(asked.group)
        limits = self.settings
        if not limits.min_session_ms <= asked.session_timeout_ms <= limits.max_session_ms:
            raise InvalidSessionTimeout(
                f"{asked.session_timeout_ms} ms is not within {limits.min_session_ms} and {limits.max_session_ms}"
            )
        group = before = self.groups.get(asked.group)
        if group is None:
            if asked.member_id:
                raise UnknownMemberId(f"there is no group {asked.group}")
            group = ClassicGroup(asked.group, now_ms=now_ms)
        turn = self._turn(now, now_ms)
        if isinstance(group, ConsumerGroup):
            if group.members:
                guests.join(group, turn, asked, ticket, self.catalogue)
                return turn.decided(None)
            turn.records += group.tombstones()
            turn.is_atomic = True
            group = ClassicGroup(asked.group, now_ms=now_ms)
        joining.join(group, turn, asked, ticket)
        if group is not before:
            turn.if_refused(lambda _: self._put_back(asked.group, before))
            self.groups[group.id] = group
        if before is None and not turn.records:
            # As Kafka does it: the group is known after a restart, although nobody is in it yet.
            turn.records.append(group.birth_record())
        return turn.decided(None)

    def _put_back(self, group_id: str, before: Group | None) -> None:
        if before is None:
            del self.groups[group_id]
        else:
            self.groups[group_id] = before

    def sync(self, asked: Sync, ticket: Ticket, *, now: float, now_ms: int) -> Decision[None]:
        """The answer, a `Synced`, comes with the ticket: at once, or when the leader has brought the assignment."""
        group = self._member_group(asked.group)
        turn = self._turn(now, now_ms)
        if isinstance(group, ConsumerGroup):
            guests.sync(group, turn, asked, ticket, self.catalogue)
        else:
            syncing.sync(group, turn, asked, ticket)
        return turn.decided(None)

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
            return turn.decided(heartbeat.leave_many(group, turn, leaving, self.catalogue))
        return turn.decided(syncing.leave(group, turn, leaving))

    # Time-outs

    def due(self, now: float, *, limit: int = sys.maxsize) -> Iterator[list[TimerKey]]:
        """At most so many timers whose time is over, each list to be given to `fire` before the next is asked for.

        Members of one consumer group that end together are decided on together.
        """
        expired: dict[str, list[TimerKey]] = {}
        for key in islice(self._timers.over(now), limit):
            if isinstance(self.groups.get(key[1]), ConsumerGroup):
                expired.setdefault(key[1], []).append(key)
            else:
                yield [key]
        yield from expired.values()

    def fire(self, keys: list[TimerKey], *, now: float, now_ms: int) -> Decision[None]:
        """What follows from a time-out. If that cannot be written, the time-out comes again."""
        turn = self._turn(now, now_ms)
        turn.if_refused(lambda _: self.postpone(keys, now=now))
        what, group_id, name = keys[0]
        match self.groups.get(group_id):
            case _ if what in (DELETED_TOPIC, GONE_TOPIC_ID):
                timeouts.topic_timeout(self.offsets, turn, what, name, self.catalogue)
            case ConsumerGroup() as group:
                timeouts.consumer_timeout(group, turn, keys, self.catalogue)
            case ClassicGroup() as group:
                timeouts.classic_timeout(group, turn, what, name)
        return turn.decided(None)

    def postpone(self, keys: list[TimerKey], *, now: float) -> None:
        """Nothing came of these time-outs: again later, and later still if that happens again."""
        if now != self._postponed_at:
            self._retry_s = min(self._retry_s * 2, MAX_RETRY_S) if self._retry_s else MIN_RETRY_S
            self._postponed_at = now
        for key in keys:
            self._timers.set(key, now + self._retry_s)

    def written(self) -> None:
        """The log takes records."""
        self._retry_s = 0.0

    # The consumer protocol

    def beat(self, asked: Beat, *, now: float, now_ms: int) -> Decision[Beaten]:
        heartbeat.check(asked, self.settings.assignors)
        turn = self._turn(now, now_ms)
        group = self.groups.get(asked.group)
        if asked.epoch < 0:
            if not isinstance(group, ConsumerGroup):
                raise _not_a_consumer_group(asked.group, group)
            return turn.decided(heartbeat.leave(group, turn, asked, self.catalogue))
        if isinstance(group, ClassicGroup) and group.state is State.EMPTY and asked.epoch == 0:
            turn.records += group.tombstones()
            turn.is_atomic = True
            group = None
        if group is None and asked.epoch == 0:
            group = ConsumerGroup(asked.group)
        if isinstance(group, ClassicGroup) and asked.epoch == 0 and migration.may_upgrade(group, turn):
            group = migration.upgrade(group, turn, self.catalogue)
        if not isinstance(group, ConsumerGroup):
            raise _not_a_consumer_group(asked.group, group)
        return turn.decided(heartbeat.beat(group, turn, asked, self.catalogue))

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
        if committed is None:
            return NOTHING
        if topic_id == NO_TOPIC_ID and (known := self.catalogue.get(topic)) is not None:
            topic_id = known.id
        return committed if committed.is_of(topic_id) else NOTHING

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

    def on_topic_deleted(self, topic: str, *, now: float, now_ms: int) -> Decision[None]:
        """Its offsets go, but for those of a younger topic of that name. If they cannot, that is tried again."""
        return self.fire([(DELETED_TOPIC, "", topic)], now=now, now_ms=now_ms)

    def expire_offsets(self, group_id: str, *, now_ms: int) -> list[Record]:
        """Deletes the offsets of a group that nobody needs any more, and a group without members and offsets."""
        group = self.groups.get(group_id)
        if group is None:
            return []
        records, is_all = self.offsets.expired(
            group.id, group.expires_from, group.reads, now_ms=now_ms, retention_ms=self.settings.retention_ms
        )
        if is_all and group.is_empty:
            records += group.tombstones()
        return records

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
                heartbeat.ensure_sessions(group, turn)
                continue
            for member in group.members.values():
                turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
            if len(group.members) > self.settings.max_size:
                rebalance.prepare(group, turn)
        for topic in self.offsets.topics_with_gone_ids(self.catalogue):
            turn.set_timer(GONE_TOPIC_ID, "", topic, within_ms=0)
        return turn.decided(None)

    def partly_written(self, *, now: float, now_ms: int) -> None:
        """Only the first batches of a decision were written: no new member may be without a session."""
        turn = self._turn(now, now_ms)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                heartbeat.ensure_sessions(group, turn)

    @property
    def wake_at(self) -> float | None:
        return self._timers.next_at

    def _turn(self, now: float, now_ms: int) -> Turn:
        return Turn(now, now_ms, self.settings, self._timers)

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
