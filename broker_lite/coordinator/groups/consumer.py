"""A consumer group (KIP-848): the broker assigns, and each member moves to its new assignment at its own pace.

There are no rounds.  Three numbers say how far things are:

    group epoch        rises whenever the inputs change: members, subscriptions, topics
    assignment epoch   the group epoch for which the target assignment was computed
    member epoch       the assignment epoch that the member has reached

A member reaches the target in steps that its heartbeats carry: it is first told to give up what others shall own, and
when it reports that it did, it gets what is free.  A partition is free when no member owns it or is still giving it up,
so at no time do two members own one partition:

    STABLE ──► UNREVOKED_PARTITIONS ──► UNRELEASED_PARTITIONS ──► STABLE
               must give up some        must wait for others

Everything here is changed by records only (`apply`); decisions are in `heartbeat`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum, IntEnum

from broker_lite.coordinator import schemas as s
from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups.assignors import Place
from broker_lite.coordinator.groups.subscribed_topics import Subscription, names_in, uncount
from broker_lite.errors import (
    TOO_LARGE,
    BrokerError,
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from broker_lite.shapes import dataclass, field

LEAVES = -1
LEAVES_FOR_A_WHILE = -2
"""The epoch of a static member that will be back; its seat is kept for a session."""

Places = frozenset[Place]
NONE: Places = frozenset()
MANY = 1000
"""Members of a group that is assigned less often, because each time takes longer."""


class ConsumerState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(slots=True)
class ConsumerMember:
    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: s.ClassicMemberMetadata | None = None
    """What a member that speaks the classic protocol said when it joined; None for all others."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Places = NONE
    revoking: Places = NONE
    since: dict[Place, int] = field(default_factory=dict)
    """The epoch in which the member got each of its partitions."""

    @property
    def subscription(self) -> Subscription:
        return self.topics, self.pattern

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def check_epoch(self, epoch: int) -> None:
        if epoch == self.epoch:
            return
        if self.classic is not None:
            raise IllegalGeneration(f"member {self.id} is in generation {self.epoch}, not {epoch}")
        raise StaleMemberEpoch(f"member {self.id} is in epoch {self.epoch}, not {epoch}")

    def metadata_record(self, group: str) -> Record:
        value = s.ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topics),
            subscribed_topic_regex=self.pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )
        return s.record(s.ConsumerGroupMemberMetadataKey(group_id=group, member_id=self.id), value)

    def assignment_record(self, group: str) -> Record:
        value = s.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=self._lines(self.assigned),
            partitions_pending_revocation=self._lines(self.revoking),
        )
        return s.record(s.ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=self.id), value)

    def _lines(self, places: Places) -> list[s.TopicPartitions]:
        return [
            s.TopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=[self.since.get((topic_id, one), self.epoch) for one in partitions],
            )
            for topic_id, partitions in by_topic(places)
        ]


@dataclass(slots=True)
class ConsumerGroup:
    id: str
    epoch: int = 0
    topics_hash: int = 0
    """Of the topics that are read: when it changes, the assignment must."""
    assignment_epoch: int = 0
    assigned_ms: int = 0
    """When the target was computed."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    subscriptions: Counter[Subscription] = field(default_factory=Counter)
    """How many members have each: most of them the same."""
    static: dict[str, str] = field(default_factory=dict)
    target: dict[str, Places] = field(default_factory=dict)
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    """Pattern -> the topics it fitted when it was last looked at."""
    owners: dict[Place, str] = field(default_factory=dict)
    """Who owns a partition, or is still giving it up."""
    _names: frozenset[str] | None = None
    names_seen: frozenset[str] = frozenset()
    """The topics there were when the patterns were last looked at."""
    rules_seen: int = 0
    """Which rules said then who sees what."""
    is_too_large_to_downgrade: bool = False
    """Its members do not fit into the one record of a classic group, so classic members stay in this one."""
    kind = "consumer"
    protocol_type = "consumer"

    # Questions

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def not_downgraded(self, refused: BrokerError) -> None:
        if refused.code in TOO_LARGE:
            self.is_too_large_to_downgrade = True

    def may_assign(self, now_ms: int, interval_ms: int) -> bool:
        """Whether the last target is old enough for a new one: many who come at once are assigned once (KIP-1263).

        One from the future is: the clock was set back, and nobody waits until it has caught up. A target for 10,000
        members takes some 80 ms to work out, so that is done once a second at most, as it is in Kafka for all groups.
        """
        if len(self.members) >= MANY:
            interval_ms = max(interval_ms, len(self.members) // 10)
        return not self.assigned_ms or not 0 <= now_ms - self.assigned_ms < interval_ms

    def member(self, member_id: str) -> ConsumerMember:
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.id}.")
        return found

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        *,
        transactional: bool,
        knows_epochs: bool,
        places: Iterable[Place],
    ) -> None:
        if epoch < 0 and not self.members:
            return
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return  # before KIP-447 a producer does not say for whom it commits; its transactional id is what fences it
        member = self.member(member_id)
        if not transactional and member.classic is None and not knows_epochs:
            raise UnsupportedVersion("members of a consumer group must commit with version 9 or later")
        if 0 <= epoch < member.epoch and all(member.since.get(place, member.epoch) <= epoch for place in places):
            return  # it has not heard of its new epoch yet, and what it commits is its own since before (KIP-1251)
        try:
            member.check_epoch(epoch)
        except StaleMemberEpoch as stale:
            if transactional:
                raise IllegalGeneration(stale.message) from None
            raise

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is not None or epoch >= 0:
            self.member(member_id or "").check_epoch(epoch)

    def check_deletable(self) -> None:
        if self.members:
            raise NonEmptyGroup(f"group {self.id} has {len(self.members)} members")

    def check_offsets_deletable(self) -> None:
        """Offsets of topics that nobody reads may go at any time."""

    @property
    def names(self) -> frozenset[str]:
        """All topics that are read."""
        if self._names is None:
            self._names = names_in(self.subscriptions, self.resolved)
        return self._names

    def reads(self, topic: str) -> bool:
        return topic in self.names

    def expires_from(self, commit_ms: int) -> int | None:
        return commit_ms

    def assignor(self, default: str) -> str:
        return preferred_assignor(self.members.values(), default)

    # Records

    def epoch_record(self, epoch: int, topics_hash: int) -> Record:
        value = s.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash)
        return s.record(s.ConsumerGroupMetadataKey(group_id=self.id), value)

    def target_record(self, member_id: str, places: Places) -> Record:
        value = s.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[s.TopicPartition(topic_id=t, partitions=ps) for t, ps in by_topic(places)]
        )
        return s.record(s.ConsumerGroupTargetAssignmentMemberKey(group_id=self.id, member_id=member_id), value)

    def target_epoch_record(self, epoch: int, now_ms: int) -> Record:
        value = s.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return s.record(s.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.id), value)

    def pattern_record(self, pattern: str, topics: frozenset[str], now_ms: int) -> Record:
        value = s.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=now_ms)
        return s.record(s.ConsumerGroupRegularExpressionKey(group_id=self.id, regular_expression=pattern), value)

    def removal(self, member_id: str) -> list[Record]:
        return [
            s.tombstone(s.ConsumerGroupCurrentMemberAssignmentKey(group_id=self.id, member_id=member_id)),
            s.tombstone(s.ConsumerGroupTargetAssignmentMemberKey(group_id=self.id, member_id=member_id)),
            s.tombstone(s.ConsumerGroupMemberMetadataKey(group_id=self.id, member_id=member_id)),
        ]

    def pattern_removal(self, pattern: str) -> Record:
        return s.tombstone(s.ConsumerGroupRegularExpressionKey(group_id=self.id, regular_expression=pattern))

    def tombstones(self) -> list[Record]:
        lines = [line for member_id in self.members for line in self.removal(member_id)]
        lines += [self.pattern_removal(pattern) for pattern in self.resolved]
        lines.append(s.tombstone(s.ConsumerGroupTargetAssignmentMetadataKey(group_id=self.id)))
        lines.append(s.tombstone(s.ConsumerGroupMetadataKey(group_id=self.id)))
        return lines

    # From records

    def apply(self, key: object, value: object | None) -> None:
        if isinstance(key, (s.ConsumerGroupMemberMetadataKey, s.ConsumerGroupRegularExpressionKey)):
            self._names = None
        match key, value:
            case s.ConsumerGroupMetadataKey(), s.ConsumerGroupMetadataValue():
                self.epoch, self.topics_hash = value.epoch, value.metadata_hash
            case s.ConsumerGroupMemberMetadataKey(), s.ConsumerGroupMemberMetadataValue():
                self._apply_member(key.member_id, value)
            case s.ConsumerGroupMemberMetadataKey(), None:
                self._forget(key.member_id)
            case s.ConsumerGroupTargetAssignmentMetadataKey(), s.ConsumerGroupTargetAssignmentMetadataValue():
                self.assignment_epoch, self.assigned_ms = value.assignment_epoch, value.assignment_timestamp
            case s.ConsumerGroupTargetAssignmentMemberKey(), s.ConsumerGroupTargetAssignmentMemberValue():
                self.target[key.member_id] = places_of(value.topic_partitions)
            case s.ConsumerGroupTargetAssignmentMemberKey(), None:
                self.target.pop(key.member_id, None)
            case s.ConsumerGroupCurrentMemberAssignmentKey(), s.ConsumerGroupCurrentMemberAssignmentValue():
                self._apply_assignment(key.member_id, value)
            case s.ConsumerGroupCurrentMemberAssignmentKey(), None:
                if (member := self.members.get(key.member_id)) is not None:
                    self._release(member.id, member.assigned | member.revoking)
                    member.assigned = member.revoking = NONE
            case s.ConsumerGroupRegularExpressionKey(), s.ConsumerGroupRegularExpressionValue():
                self.resolved[key.regular_expression] = frozenset(value.topics)
            case s.ConsumerGroupRegularExpressionKey(), None:
                self.resolved.pop(key.regular_expression, None)

    def _forget(self, member_id: str) -> None:
        gone = self.members.pop(member_id, None)
        if gone is None:
            return
        self._release(member_id, gone.assigned | gone.revoking)
        uncount(self.subscriptions, gone.subscription)
        if self.static.get(gone.instance_id or "") == gone.id:
            del self.static[gone.instance_id or ""]

    def _get_or_add(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(member_id)
            self.subscriptions[member.subscription] += 1
        return member

    def _apply_member(self, member_id: str, value: s.ConsumerGroupMemberMetadataValue) -> None:
        member = self._get_or_add(member_id)
        uncount(self.subscriptions, member.subscription)
        member.instance_id, member.rack_id = value.instance_id, value.rack_id
        member.client_id, member.client_host = value.client_id, value.client_host
        member.topics, member.pattern = tuple(value.subscribed_topic_names), value.subscribed_topic_regex or ""
        self.subscriptions[member.subscription] += 1
        member.rebalance_timeout_ms, member.assignor = value.rebalance_timeout_ms, value.server_assignor
        member.classic = value.classic_member_metadata
        if member.instance_id is not None:
            self.static[member.instance_id] = member_id

    def _apply_assignment(self, member_id: str, value: s.ConsumerGroupCurrentMemberAssignmentValue) -> None:
        member = self._get_or_add(member_id)
        before = member.assigned | member.revoking
        member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
        member.state = MemberState(value.state)
        member.assigned = places_of(value.assigned_partitions)
        member.revoking = places_of(value.partitions_pending_revocation)
        member.since = {
            (line.topic_id, partition): epoch
            for line in [*value.assigned_partitions, *value.partitions_pending_revocation]
            for partition, epoch in zip(
                line.partitions, line.assignment_epochs or [value.member_epoch] * len(line.partitions)
            )
        }
        places = member.assigned | member.revoking
        self._release(member_id, before - places)
        for place in places:
            self.owners[place] = member_id

    def _release(self, member_id: str, places: Iterable[Place]) -> None:
        for place in places:
            if self.owners.get(place) == member_id:
                del self.owners[place]


def preferred_assignor(members: Iterable[ConsumerMember], default: str) -> str:
    """The one that most members name."""
    votes = Counter(member.assignor for member in members if member.assignor is not None)
    return max(sorted(votes), key=lambda name: votes[name], default=default)


def by_topic(places: Places) -> list[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(places):
        topics.setdefault(topic_id, []).append(partition)
    return list(topics.items())


def places_of(lines: list[s.TopicPartition] | list[s.TopicPartitions]) -> Places:
    return frozenset((line.topic_id, partition) for line in lines for partition in line.partitions)
