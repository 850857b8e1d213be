"""What a consumer group would be if a member's request were granted: epochs, target, and the member's next step.

A plan begins as the group and copies what it changes; the group itself changes when the plan's records have been
written and applied.  Most heartbeats change nothing, and so cost the same in a group of ten as in one of ten thousand.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups import patterns
from broker_lite.coordinator.groups.assignors import ASSIGNORS, Reader
from broker_lite.coordinator.groups.catalogue import Catalogue, Eyes
from broker_lite.coordinator.groups.consumer import NONE, ConsumerGroup, ConsumerMember, Places, preferred_assignor
from broker_lite.coordinator.groups.reconcile import step
from broker_lite.coordinator.groups.subscribed_topics import Subscription, names_in, topics_of, uncount
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.errors import BrokerError
from broker_lite.shapes import dataclass, field


@dataclass(slots=True)
class Plan:
    """What the group would be."""

    group: ConsumerGroup
    members: dict[str, ConsumerMember]
    subscriptions: Counter[Subscription]
    resolved: dict[str, frozenset[str]]
    target: dict[str, Places]
    epoch: int
    replaced: str | None = None
    """The member id whose seat a returning static member takes."""
    records: list[Record] = field(default_factory=list)

    @classmethod
    def of(cls, group: ConsumerGroup) -> Plan:
        return cls(group, group.members, group.subscriptions, group.resolved, group.target, group.epoch)

    def put(self, member: ConsumerMember) -> None:
        self.drop(member.id)
        self.members[member.id] = member
        self.subscriptions[member.subscription] += 1

    def drop(self, member_id: str) -> None:
        if self.members is self.group.members:
            self.members, self.subscriptions = dict(self.members), Counter(self.subscriptions)
        before = self.members.pop(member_id, None)
        if before is not None:
            uncount(self.subscriptions, before.subscription)

    @property
    def names(self) -> frozenset[str]:
        """All topics that would be read."""
        return names_in(self.subscriptions, self.resolved)


def progress(
    plan: Plan,
    turn: Turn,
    member: ConsumerMember,
    updated: ConsumerMember,
    owned: Places | None,
    catalogue: Catalogue,
    eyes: Eyes | None = None,
) -> ConsumerMember:
    """`member` becomes `updated`: what that does to the group's epoch and target, and the member's step towards it."""
    group = plan.group
    is_new = updated.id not in group.members and plan.replaced is None
    if is_new or updated != member:
        plan.records.append(updated.metadata_record(group.id))
        plan.put(updated)
    elif plan.replaced is not None:
        plan.put(updated)
    has_changed = updated.subscription != member.subscription
    if plan.resolved or updated.pattern:
        resolve_patterns(plan, turn, catalogue, eyes)
    is_same = not (is_new or has_changed or plan.records)
    topics_hash = hash_of_topics(group.names if is_same else plan.names, catalogue)
    epoch, target_epoch = group.epoch, group.assignment_epoch
    if not epoch:  # a new group: a member that reads nothing is in epoch 1, as in Kafka
        epoch = 1
    if has_changed or topics_hash != group.topics_hash:
        epoch += 1
    if epoch != group.epoch:
        plan.epoch = epoch
        plan.records.append(group.epoch_record(epoch, topics_hash))
    interval_ms = turn.settings.consumer(group.id).assignment_interval_ms
    if epoch > target_epoch and group.may_assign(turn.now_ms, interval_ms):
        _assign(plan, turn, epoch, catalogue)
        target_epoch = epoch
    if updated.is_reconciled_to(target_epoch):
        return updated
    owners = group.owners
    if plan.replaced is not None:
        owners = {place: who for place, who in owners.items() if who != plan.replaced}
    moved = step(updated, plan.target.get(updated.id, NONE), target_epoch, owned, owners)
    if moved != updated or updated.id not in group.members:
        plan.records.append(moved.assignment_record(group.id))
    return moved


def resolve_patterns(plan: Plan, turn: Turn, catalogue: Catalogue, eyes: Eyes | None = None) -> None:
    """Look again at what the patterns fit, if there are other topics, patterns or rules than before.

    As in Kafka a pattern fits only what the member sees whose heartbeat makes us look, for all who have that pattern.
    Without anybody's eyes nothing is looked at: the next heartbeat does.
    """
    wanted = {pattern for _, pattern in plan.subscriptions if pattern}
    if not wanted and not plan.resolved:
        return
    if eyes is not None:
        _look(plan, turn, wanted, frozenset(topic.name for topic in catalogue), eyes)
    for pattern in sorted(set(plan.resolved) - wanted):
        plan.resolved = {known: topics for known, topics in plan.resolved.items() if known != pattern}
        plan.records.append(plan.group.pattern_removal(pattern))


def _look(plan: Plan, turn: Turn, wanted: set[str], names: frozenset[str], eyes: Eyes) -> None:
    group = plan.group
    is_fresh = names == group.names_seen and eyes.rules == group.rules_seen
    for pattern in sorted(wanted):
        if pattern in plan.resolved and is_fresh:
            continue
        topics = frozenset(filter(eyes.sees, patterns.matching(pattern, names)))
        if topics != plan.resolved.get(pattern):
            plan.resolved = {**plan.resolved, pattern: topics}
            plan.records.append(group.pattern_record(pattern, topics, turn.now_ms))
    before = group.names_seen, group.rules_seen

    def look_again(_: BrokerError) -> None:
        group.names_seen, group.rules_seen = before

    turn.if_refused(look_again)
    group.names_seen, group.rules_seen = names, eyes.rules


def hash_of_topics(names: frozenset[str], catalogue: Catalogue) -> int:
    """A number that differs when the topics that are read differ; 0 when there are none."""
    digest = hashlib.blake2b(digest_size=8)
    is_any = False
    for name in sorted(names):
        topic = catalogue.get(name)
        if topic is not None:
            is_any = True
            digest.update(topic.id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if is_any else 0


def _assign(plan: Plan, turn: Turn, epoch: int, catalogue: Catalogue) -> None:
    counts: dict[bytes, int] = {}
    read: dict[Subscription, frozenset[bytes]] = {}
    for one in plan.subscriptions:
        topics = [topic for name in topics_of(one, plan.resolved) if (topic := catalogue.get(name)) is not None]
        counts.update({topic.id: topic.partition_count for topic in topics})
        read[one] = frozenset(bytes(topic.id) for topic in topics)
    readers = {
        member_id: Reader(read[member.subscription], plan.target.get(member_id, NONE), member.instance_id)
        for member_id, member in plan.members.items()
    }
    assignor = preferred_assignor(plan.members.values(), turn.settings.assignors[0])
    shares = ASSIGNORS[assignor](readers, counts)
    for member_id, places in shares.items():
        if plan.group.target.get(member_id) != places:
            plan.records.append(plan.group.target_record(member_id, places))
    plan.target = dict(shares)
    plan.records.append(plan.group.target_epoch_record(epoch, turn.now_ms))
