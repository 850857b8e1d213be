"""The groups of one partition of `__consumer_offsets`: every request about them is decided here.

One object holds the groups whose names hash to that partition, their offsets and their time-outs.  Requests that
change something return a `Decision`; the broker writes its records to the partition and hands them to `apply`, which
is also how the groups come back after a restart.  Questions are answered at once.  Refusals are raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker_lite.coordinator import schemas
from broker_lite.coordinator.decision import Decision, Record, Reply, Ticket
from broker_lite.coordinator.groups import joining, rebalance, syncing
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.members import Join, Sync
from broker_lite.coordinator.groups.offsets import NOTHING, Committed, Offsets, commit_record, deletion
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import TimerKey, Turn
from broker_lite.coordinator.schemas import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from broker_lite.coordinator.timers import Timers
from broker_lite.errors import (
    ErrorCode,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from broker_lite.ids import NO_TOPIC_ID


@dataclass(slots=True)
class Commit:
    """One line of an OffsetCommit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: bytes = NO_TOPIC_ID


@dataclass(slots=True)
class Committer:
    """Who commits: a member of a generation, or nobody in particular."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


class Groups:
    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
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
        if group is None:
            if asked.member_id:
                raise UnknownMemberId(f"there is no group {asked.group}")
            group = ClassicGroup(asked.group, now_ms=now_ms)
        turn = self._turn(now, now_ms)
        joining.join(group, turn, asked, ticket)
        self.groups[group.id] = group
        return self._decided(turn, None, group)

    def sync(self, asked: Sync, ticket: Ticket, *, now: float, now_ms: int) -> Decision[None]:
        """The answer, a `Synced`, comes with the ticket: at once, or when the leader has brought the assignment."""
        group = self._member_group(asked.group)
        turn = self._turn(now, now_ms)
        syncing.sync(group, turn, asked, ticket)
        return self._decided(turn, None, group)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, *, now: float, now_ms: int
    ) -> None:
        syncing.heartbeat(self._member_group(group_id), self._turn(now, now_ms), member_id, instance_id, generation)

    def leave(
        self, group_id: str, leaving: list[tuple[str, str | None]], *, now: float, now_ms: int
    ) -> Decision[list[ErrorCode]]:
        """One code for each (member id, instance id)."""
        group = self._member_group(group_id)
        turn = self._turn(now, now_ms)
        codes = syncing.leave(group, turn, leaving)
        return self._decided(turn, codes, group)

    def tick(self, *, now: float, now_ms: int) -> Decision[None]:
        """Everything whose time is over by now."""
        turn = self._turn(now, now_ms)
        for what, group_id, member_id in self._timers.over(now):
            group = self.groups.get(group_id)
            if group is None:
                continue
            match what:
                case "session":
                    syncing.session_is_over(group, turn, member_id)
                case "join":
                    rebalance.join_time_is_over(group, turn)
                case "sync":
                    syncing.sync_time_is_over(group, turn)
        return self._decided(turn, None, None)

    # Offsets

    def commit(
        self,
        group_id: str,
        who: Committer,
        commits: Iterable[Commit],
        *,
        now: float,
        now_ms: int,
        retention_ms: int = -1,
        group_may_be_missing: bool = True,
    ) -> Decision[list[ErrorCode]]:
        """One code for each commit. `group_may_be_missing`: from version 9 on a client can be told that (69)."""
        group = self.groups.get(group_id)
        if group is not None:
            group.check_commit(who.member_id, who.instance_id, who.generation, transactional=False)
            if group.state in (State.STABLE, State.PREPARING_REBALANCE) and who.member_id in group.members:
                # A commit is as good as a heartbeat.
                session_ms = group.members[who.member_id].session_timeout_ms
                self._turn(now, now_ms).set_timer("session", group_id, who.member_id, within_ms=session_ms)
        elif who.generation >= 0:
            raise (GroupIdNotFound if group_may_be_missing else IllegalGeneration)(f"there is no group {group_id}")
        expire_ms = -1 if retention_ms == -1 else now_ms + retention_ms
        return self._committing(group_id, commits, now_ms, expire_ms)

    def commit_in_transaction(
        self, group_id: str, who: Committer, commits: Iterable[Commit], *, now_ms: int
    ) -> Decision[list[ErrorCode]]:
        """As `commit`; the records are to be written as a transactional batch of the producer."""
        _check_id(group_id)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_commit(who.member_id, who.instance_id, who.generation, transactional=True)
        elif who.generation >= 0:
            raise IllegalGeneration(f"there is no group {group_id}")
        return self._committing(group_id, commits, now_ms, -1)

    def _committing(
        self, group_id: str, commits: Iterable[Commit], now_ms: int, expire_ms: int
    ) -> Decision[list[ErrorCode]]:
        codes: list[ErrorCode] = []
        records: list[Record] = []
        limit = self.settings.metadata_max
        for one in commits:
            metadata = one.metadata or ""
            if len(metadata) > limit:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            committed = Committed(one.offset, one.leader_epoch, metadata, now_ms, expire_ms, one.topic_id)
            records.append(commit_record(group_id, one.topic, one.partition, committed))
            codes.append(ErrorCode.NONE)
        return Decision(codes, records, wake_at=self._timers.next_at)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may read the group's offsets; classic groups let everybody."""

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
            if is_all and group.state is State.EMPTY and not group.pending_join:
                records += group.tombstones()
        return Decision(None, records)

    # Groups as such

    def group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self.groups.values())

    def delete_group(self, group_id: str) -> Decision[None]:
        group = self.group(group_id)
        group.check_deletable()
        return Decision(None, self.offsets.deletions_of_group(group_id) + group.tombstones())

    # From the log

    def apply(self, record: Record, *, at: int, producer_id: int = -1, now_ms: int) -> None:
        """Make true what the record says. Live and at a restart it is the same."""
        said = record.spoken or schemas.read(record.key, record.value)
        match said:
            case (OffsetCommitKey() as key, value):
                assert value is None or isinstance(value, OffsetCommitValue)
                if value is not None and key.group not in self.groups:
                    self.groups[key.group] = ClassicGroup(key.group, now_ms=now_ms)
                self.offsets.apply(key, value, at=at, producer_id=producer_id)
            case (GroupMetadataKey() as key, None):
                self.groups.pop(key.group, None)
            case (GroupMetadataKey() as key, GroupMetadataValue() as value):
                group = self.groups.get(key.group)
                if group is None:
                    group = self.groups[key.group] = ClassicGroup(key.group, now_ms=now_ms)
                group.adopt(value)

    def apply_marker(self, producer_id: int, *, commit: bool) -> None:
        """A transaction marker stands in the partition: what its producer had pending is decided."""
        self.offsets.apply_marker(producer_id, commit=commit)

    def loaded(self, *, now: float, now_ms: int) -> Decision[None]:
        """The whole partition has been applied: every member gets a full new session to show that it is alive."""
        turn = self._turn(now, now_ms)
        for group in self.groups.values():
            for member in group.members.values():
                turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
            if len(group.members) > self.settings.max_size:
                rebalance.prepare(group, turn)
        return self._decided(turn, None, None)

    @property
    def wake_at(self) -> float | None:
        return self._timers.next_at

    def _turn(self, now: float, now_ms: int) -> Turn:
        return Turn(now, now_ms, self.settings, self._timers)

    def _decided(self, turn: Turn, reply: Reply, group: ClassicGroup | None) -> Decision[Reply]:
        undo = None
        if turn.records and group is not None:

            def undo() -> None:
                again = self._turn(turn.now, turn.now_ms)
                syncing.assignment_was_not_written(group, again)

        return Decision(reply, turn.records, turn.answers, self._timers.next_at, undo)

    def _member_group(self, group_id: str) -> ClassicGroup:
        """The group somebody claims to be a member of."""
        _check_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {group_id}")
        return group


def _check_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId("the group id is empty")


def _is_of_another_topic(one: bytes, other: bytes) -> bool:
    """A topic that was deleted and made again has the same name and other ids."""
    return NO_TOPIC_ID not in (one, other) and one != other
