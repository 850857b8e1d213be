"""ConsumerGroupHeartbeat: joining, staying, moving to a new assignment and leaving are all one request."""

from __future__ import annotations

from broker_lite.coordinator.groups import migration, patterns
from broker_lite.coordinator.groups.catalogue import Catalogue, Eyes
from broker_lite.coordinator.groups.consumer import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    NONE,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Places,
)
from broker_lite.coordinator.groups.planning import Plan, hash_of_topics, progress, resolve_patterns
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
from broker_lite.shapes import dataclass, field, replace

MEMBER_TIMERS = ("session", "revoke", "rejoin", "resync")
"""Whichever of them ends, the member is out."""


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
    eyes: Eyes = field(default_factory=Eyes)


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


def beat(group: ConsumerGroup, turn: Turn, asked: Beat, catalogue: Catalogue) -> Beaten:
    member_id = asked.member_id or asked.new_member_id
    limit = turn.settings.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")
    plan = Plan.of(group)
    member = _seat(plan, asked, member_id)
    moved = progress(plan, turn, member, _updated(member, asked), asked.owned, catalogue, asked.eyes)
    turn.records += plan.records
    _set_timers(group, turn, moved)
    is_full = asked.epoch == 0 or (
        asked.rebalance_timeout_ms != -1
        and (asked.topics is not None or asked.pattern is not None)
        and asked.owned is not None
    )
    answer = Beaten(member_id, moved.epoch, turn.settings.consumer(group.id).heartbeat_ms)
    if is_full or moved.assigned != member.assigned:
        answer.assignment = moved.assigned
    return answer


def _seat(plan: Plan, asked: Beat, member_id: str) -> ConsumerMember:
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
        known = static_member(group, asked.instance_id, member_id)
        _check_epoch(known, asked)
        return known
    if seated is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if seated.classic is None and seated.epoch != LEAVES_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {asked.instance_id} cannot join the group because the "
            f"instance id is owned by {seated.id} member."
        )
    return take_seat(plan, seated, member_id)


def take_seat(plan: Plan, seated: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member came back under a new id: everything that was its is its again."""
    group = plan.group
    returned = replace(seated, id=member_id, epoch=0, previous_epoch=0)
    plan.replaced = seated.id
    plan.records += group.removal(seated.id)
    plan.records += [
        returned.metadata_record(group.id),
        group.target_record(member_id, group.target.get(seated.id, NONE)),
        returned.assignment_record(group.id),
    ]
    plan.drop(seated.id)
    plan.target = {**plan.target, member_id: plan.target.get(seated.id, NONE)}
    plan.target.pop(seated.id, None)
    return returned


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
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


def _set_timers(group: ConsumerGroup, turn: Turn, member: ConsumerMember) -> None:
    turn.set_timer("session", group.id, member.id, within_ms=turn.settings.consumer(group.id).session_ms)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        turn.cancel_timer("revoke", group.id, member.id)
        return
    before = group.members.get(member.id)
    if ("revoke", group.id, member.id) not in turn.timers or before is None or before.epoch != member.epoch:
        turn.set_timer("revoke", group.id, member.id, within_ms=member.rebalance_timeout_ms)


def ensure_sessions(group: ConsumerGroup, turn: Turn) -> None:
    """A full session for each member that has none: after a start, all of them."""
    own_ms = turn.settings.consumer(group.id).session_ms
    for member in group.members.values():
        if ("session", group.id, member.id) in turn.timers:
            continue
        classic = member.classic
        session_ms = own_ms if classic is None else classic.session_timeout_ms
        turn.set_timer("session", group.id, member.id, within_ms=session_ms)
        if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            turn.set_timer("revoke", group.id, member.id, within_ms=member.rebalance_timeout_ms)


def leave(group: ConsumerGroup, turn: Turn, asked: Beat, catalogue: Catalogue) -> Beaten:
    if asked.instance_id is None:
        fence(group, turn, [group.member(asked.member_id)], catalogue)
        return Beaten(asked.member_id, asked.epoch)
    member = static_member(group, asked.instance_id, asked.member_id)
    if asked.epoch == LEAVES:
        fence(group, turn, [member], catalogue)
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
                member = static_member(group, instance_id, member_id or seated)
            gone[member.id] = member
            codes.append(ErrorCode.NONE)
        except BrokerError as refused:
            codes.append(refused.code)
    if gone:
        fence(group, turn, list(gone.values()), catalogue)
    return codes


def fence(group: ConsumerGroup, turn: Turn, gone: list[ConsumerMember], catalogue: Catalogue) -> None:
    """These members are out; the next heartbeat of anybody else shares their partitions out.

    The epoch comes first: if only some of the records can be written, the others know that they have to move.
    """
    plan = Plan.of(group)
    for member in gone:
        plan.records += group.removal(member.id)
        plan.drop(member.id)
        for what in MEMBER_TIMERS:
            turn.cancel_timer(what, group.id, member.id)
    if migration.may_downgrade(plan, turn):
        migration.downgrade(plan, turn, catalogue)
        return
    resolve_patterns(plan, turn, catalogue)
    turn.records.append(group.epoch_record(group.epoch + 1, hash_of_topics(plan.names, catalogue)))
    turn.records += plan.records
