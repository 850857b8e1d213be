"""What a consumer group would be if a member's request were granted: epochs, target, and the member's next step.

A plan is worked out on copies; the group itself changes when the plan's records have been written and applied.
"""

from __future__ import annotations

import hashlib

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups import patterns
from broker_lite.coordinator.groups.assignors import ASSIGNORS, Reader
from broker_lite.coordinator.groups.catalogue import Catalogue, Eyes
from broker_lite.coordinator.groups.consumer import NONE, ConsumerGroup, ConsumerMember, Places
from broker_lite.coordinator.groups.reconcile import step
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.errors import BrokerError
from broker_lite.shapes import dataclass, field, replace


@dataclass(slots=True)
class Plan:
    """What the group would be."""

    group: ConsumerGroup
    members: dict[str, ConsumerMember]
    resolved: dict[str, frozenset[str]]
    target: dict[str, Places]
    epoch: int
    replaced: str | None = None
    """The member id whose seat a returning static member takes."""
    records: list[Record] = field(default_factory=list)

    @classmethod
    def of(cls, group: ConsumerGroup) -> Plan:
        return cls(group, dict(group.members), dict(group.resolved), dict(group.target), group.epoch)


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
    has_changed = (updated.topics, updated.pattern) != (member.topics, member.pattern)
    plan.members[updated.id] = updated
    if plan.resolved or updated.pattern:
        resolve_patterns(plan, turn, catalogue, eyes)
    is_same = not (is_new or has_changed or plan.records)
    topics_hash = hash_of_topics(group.names if is_same else names_of(plan), catalogue)
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
    wanted = {member.pattern for member in plan.members.values() if member.pattern}
    if not wanted and not plan.resolved:
        return
    if eyes is not None:
        _look(plan, turn, wanted, frozenset(topic.name for topic in catalogue), eyes)
    for pattern in sorted(set(plan.resolved) - wanted):
        del plan.resolved[pattern]
        plan.records.append(plan.group.pattern_removal(pattern))


def _look(plan: Plan, turn: Turn, wanted: set[str], names: frozenset[str], eyes: Eyes) -> None:
    group = plan.group
    is_fresh = names == group.names_seen and eyes.rules == group.rules_seen
    for pattern in sorted(wanted):
        if pattern in plan.resolved and is_fresh:
            continue
        topics = frozenset(filter(eyes.sees, patterns.matching(pattern, names)))
        if topics != plan.resolved.get(pattern):
            plan.resolved[pattern] = topics
            plan.records.append(group.pattern_record(pattern, topics, turn.now_ms))
    before = group.names_seen, group.rules_seen

    def look_again(_: BrokerError) -> None:
        group.names_seen, group.rules_seen = before

    turn.if_refused(look_again)
    group.names_seen, group.rules_seen = names, eyes.rules


def _topics_of(plan: Plan, member: ConsumerMember) -> frozenset[str]:
    if not member.pattern:
        return frozenset(member.topics)
    return plan.resolved.get(member.pattern, frozenset()).union(member.topics)


def names_of(plan: Plan) -> frozenset[str]:
    return frozenset().union(*(_topics_of(plan, member) for member in plan.members.values()))


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
    readers: dict[str, Reader] = {}
    counts: dict[bytes, int] = {}
    seen: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    """Most members of a group read the same."""
    for member_id, member in plan.members.items():
        subscribed = (member.topics, member.pattern)
        ids = seen.get(subscribed)
        if ids is None:
            topics = [topic for name in _topics_of(plan, member) if (topic := catalogue.get(name)) is not None]
            counts.update({topic.id: topic.partition_count for topic in topics})
            ids = seen[subscribed] = frozenset(bytes(topic.id) for topic in topics)
        readers[member_id] = Reader(ids, plan.target.get(member_id, NONE), member.instance_id)
    votes = replace(plan.group, members=plan.members)
    shares = ASSIGNORS[votes.assignor(turn.settings.assignors[0])](readers, counts)
    for member_id, places in shares.items():
        if plan.group.target.get(member_id) != places:
            plan.records.append(plan.group.target_record(member_id, places))
    plan.target = dict(shares)
    plan.records.append(plan.group.target_epoch_record(epoch, turn.now_ms))
