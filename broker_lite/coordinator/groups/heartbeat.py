"""ConsumerGroupHeartbeat: joining, staying, moving to a new assignment and leaving are all one request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups import patterns
from broker_lite.coordinator.groups.assignors import ASSIGNORS, Reader
from broker_lite.coordinator.groups.catalogue import Catalogue
from broker_lite.coordinator.groups.consumer import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    NONE,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Places,
)
from broker_lite.coordinator.groups.reconcile import step
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)


@dataclass(slots=True, kw_only=True)
class Beat:
    """A ConsumerGroupHeartbeat. None and -1: as it was."""

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: list[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Places | None = None
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""
    """For members of the first version, which let the broker name them."""
    must_have_id: bool = True


@dataclass(slots=True)
class Beaten:
    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Places | None = None
    """None: as it was."""


def check(asked: Beat, assignors: tuple[str, ...]) -> None:
    """What is wrong with a request whatever the group is."""
    for text, name in ((asked.group, "GroupId"), (asked.instance_id, "InstanceId"), (asked.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise InvalidRequest(f"{name} can't be empty.")
    if not asked.member_id and (asked.must_have_id or asked.epoch != 0):
        raise InvalidRequest("MemberId can't be empty.")
    if asked.epoch == 0:
        if asked.rebalance_timeout_ms == -1:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if asked.owned is None or asked.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if asked.topics is None and asked.pattern is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif asked.epoch == LEAVES_FOR_A_WHILE:
        if asked.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif asked.epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")
    if asked.assignor is not None and asked.assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {asked.assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
    if asked.pattern:
        patterns.check(asked.pattern)


@dataclass(slots=True)
class _Plan:
    """What the group would be after this heartbeat; nothing is changed before the records are written."""

    group: ConsumerGroup
    members: dict[str, ConsumerMember]
    resolved: dict[str, frozenset[str]]
    target: dict[str, Places]
    replaced: str | None = None
    records: list[Record] = field(default_factory=list)


def beat(group: ConsumerGroup, turn: Turn, asked: Beat, catalogue: Catalogue) -> Beaten:
    member_id = asked.member_id or asked.new_member_id
    limit = turn.settings.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")
    plan = _Plan(group, dict(group.members), dict(group.resolved), dict(group.target))
    member = _seat(plan, asked, member_id)
    updated = _updated(member, asked)
    is_new = member_id not in group.members and plan.replaced is None
    if is_new or updated != member:
        plan.records.append(updated.metadata_record(group.id))
    has_changed = (updated.topics, updated.pattern) != (member.topics, member.pattern)
    plan.members[member_id] = updated
    resolve_patterns(plan, turn, catalogue)
    topics_hash = _hash(plan, catalogue)
    epoch, target_epoch = group.epoch, group.assignment_epoch
    if not epoch:  # a new group: a member that reads nothing is in epoch 1, as in Kafka
        epoch = 1
    if has_changed or topics_hash != group.topics_hash:
        epoch += 1
    if epoch != group.epoch:
        plan.records.append(group.epoch_record(epoch, topics_hash))
    if epoch > target_epoch:
        _assign(plan, turn, epoch, catalogue)
        target_epoch = epoch
    moved = updated
    if not updated.is_reconciled_to(target_epoch):
        target = plan.target.get(member_id, NONE)
        owners = {place: who for place, who in group.owners.items() if who != plan.replaced}
        moved = step(updated, target, target_epoch, asked.owned, owners)
        if moved != updated or member_id not in group.members:
            plan.records.append(moved.assignment_record(group.id))
    turn.records += plan.records
    _set_timers(group, turn, moved)
    is_full = asked.epoch == 0 or (
        asked.rebalance_timeout_ms != -1
        and (asked.topics is not None or asked.pattern is not None)
        and asked.owned is not None
    )
    answer = Beaten(member_id, moved.epoch, turn.settings.consumer_heartbeat_ms)
    if is_full or moved.assigned != member.assigned:
        answer.assignment = moved.assigned
    return answer


def _seat(plan: _Plan, asked: Beat, member_id: str) -> ConsumerMember:
    """The member that speaks: known, new, or come back under a new id. Stale epochs are fenced here."""
    group = plan.group
    if asked.instance_id is None:
        known = group.members.get(member_id)
        if known is None and asked.epoch == 0:
            return ConsumerMember(member_id)
        known = group.member(member_id)
        _check_epoch(known, asked)
        return known
    seated = group.members.get(group.static.get(asked.instance_id, ""))
    if asked.epoch != 0:
        known = _static(group, asked.instance_id, member_id)
        _check_epoch(known, asked)
        return known
    if seated is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if seated.classic is None and seated.epoch != LEAVES_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {asked.instance_id} cannot join the group because the "
            f"instance id is owned by {seated.id} member."
        )
    returned = replace(seated, id=member_id, epoch=0, previous_epoch=0)
    plan.replaced = seated.id
    plan.records += group.removal(seated.id)
    plan.records += [
        returned.metadata_record(group.id),
        group.target_record(member_id, group.target.get(seated.id, NONE)),
        returned.assignment_record(group.id),
    ]
    plan.members.pop(seated.id, None)
    plan.target[member_id] = plan.target.pop(seated.id, NONE)
    return returned


def _static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    seated = group.members.get(group.static.get(instance_id, ""))
    if seated is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if seated.id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {seated.id}."
        )
    return seated


def _check_epoch(member: ConsumerMember, asked: Beat) -> None:
    if asked.epoch in (member.epoch, 0):
        return  # 0: it starts again under its name
    if asked.epoch > member.epoch:
        relation = "greater"
    elif asked.epoch == member.previous_epoch and asked.owned is not None and asked.owned <= member.assigned:
        return  # the answer that told it of its new epoch was lost
    else:
        relation = "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {relation} member epoch ({asked.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _updated(member: ConsumerMember, asked: Beat) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if asked.instance_id is None else asked.instance_id,
        rack_id=member.rack_id if asked.rack_id is None else asked.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if asked.rebalance_timeout_ms == -1 else asked.rebalance_timeout_ms
        ),
        assignor=member.assignor if asked.assignor is None else asked.assignor,
        topics=member.topics if asked.topics is None else tuple(sorted(set(asked.topics))),
        pattern=member.pattern if asked.pattern is None else asked.pattern,
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=None,
    )


def resolve_patterns(plan: _Plan, turn: Turn, catalogue: Catalogue) -> None:
    """Look again at what the patterns fit, if there are other topics or other patterns than before."""
    wanted = {member.pattern for member in plan.members.values() if member.pattern}
    if not wanted and not plan.resolved:
        return
    names = frozenset(topic.name for topic in catalogue)
    for pattern in sorted(wanted):
        if pattern in plan.resolved and names == plan.group.names_seen:
            continue
        topics = patterns.matching(pattern, names)
        if topics != plan.resolved.get(pattern):
            plan.resolved[pattern] = topics
            plan.records.append(plan.group.pattern_record(pattern, topics, turn.now_ms))
    plan.group.names_seen = names
    for pattern in sorted(set(plan.resolved) - wanted):
        del plan.resolved[pattern]
        plan.records.append(plan.group.pattern_removal(pattern))


def _topics_of(plan: _Plan, member: ConsumerMember) -> frozenset[str]:
    if not member.pattern:
        return frozenset(member.topics)
    return plan.resolved.get(member.pattern, frozenset()).union(member.topics)


def _hash(plan: _Plan, catalogue: Catalogue) -> int:
    """A number that differs when the topics that are read differ; 0 when there are none."""
    names = sorted({name for member in plan.members.values() for name in _topics_of(plan, member)})
    digest = hashlib.blake2b(digest_size=8)
    is_any = False
    for name in names:
        topic = catalogue.get(name)
        if topic is not None:
            is_any = True
            digest.update(topic.id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if is_any else 0


def _assign(plan: _Plan, turn: Turn, epoch: int, catalogue: Catalogue) -> None:
    readers: dict[str, Reader] = {}
    counts: dict[bytes, int] = {}
    for member_id, member in plan.members.items():
        ids = set()
        for name in _topics_of(plan, member):
            topic = catalogue.get(name)
            if topic is not None:
                ids.add(bytes(topic.id))
                counts[topic.id] = topic.partition_count
        readers[member_id] = Reader(frozenset(ids), plan.target.get(member_id, NONE), member.instance_id)
    votes = replace(plan.group, members=plan.members)
    shares = ASSIGNORS[votes.assignor(turn.settings.assignors[0])](readers, counts)
    for member_id, places in shares.items():
        if plan.group.target.get(member_id) != places:
            plan.records.append(plan.group.target_record(member_id, places))
    plan.target = dict(shares)
    plan.records.append(plan.group.target_epoch_record(epoch, turn.now_ms))


def _set_timers(group: ConsumerGroup, turn: Turn, member: ConsumerMember) -> None:
    turn.set_timer("session", group.id, member.id, within_ms=turn.settings.consumer_session_ms)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        turn.cancel_timer("revoke", group.id, member.id)
        return
    before = group.members.get(member.id)
    if ("revoke", group.id, member.id) not in turn.timers or before is None or before.epoch != member.epoch:
        turn.set_timer("revoke", group.id, member.id, within_ms=member.rebalance_timeout_ms)


def leave(group: ConsumerGroup, turn: Turn, asked: Beat, catalogue: Catalogue) -> Beaten:
    if asked.instance_id is None:
        fence(group, turn, group.member(asked.member_id), catalogue)
        return Beaten(asked.member_id, asked.epoch)
    member = _static(group, asked.instance_id, asked.member_id)
    if asked.epoch == LEAVES:
        fence(group, turn, member, catalogue)
    else:
        away = replace(member, epoch=LEAVES_FOR_A_WHILE, revoking=NONE)
        turn.records.append(away.assignment_record(group.id))
    return Beaten(member.id, asked.epoch)


def leave_many(
    group: ConsumerGroup, turn: Turn, leaving: list[tuple[str, str | None]], catalogue: Catalogue
) -> list[ErrorCode]:
    """LeaveGroup: by it admins remove members of whatever protocol. One code for each (member id, instance id)."""
    codes: list[ErrorCode] = []
    gone: dict[str, ConsumerMember] = {}
    for member_id, instance_id in leaving:
        try:
            if instance_id is None:
                member = group.member(member_id)
            else:
                seated = group.static.get(instance_id, "")
                member = _static(group, instance_id, member_id or seated)
            gone[member.id] = member
            codes.append(ErrorCode.NONE)
        except BrokerError as refused:
            codes.append(refused.code)
    if gone:
        _without(group, turn, list(gone.values()), catalogue)
    return codes


def fence(group: ConsumerGroup, turn: Turn, member: ConsumerMember, catalogue: Catalogue) -> None:
    """The member is out; the next heartbeat of anybody else shares its partitions out."""
    _without(group, turn, [member], catalogue)


def _without(group: ConsumerGroup, turn: Turn, gone: list[ConsumerMember], catalogue: Catalogue) -> None:
    plan = _Plan(group, dict(group.members), dict(group.resolved), dict(group.target))
    for member in gone:
        plan.records += group.removal(member.id)
        del plan.members[member.id]
        for what in ("session", "revoke"):
            turn.cancel_timer(what, group.id, member.id)
    resolve_patterns(plan, turn, catalogue)
    plan.records.append(group.epoch_record(group.epoch + 1, _hash(plan, catalogue)))
    turn.records += plan.records
