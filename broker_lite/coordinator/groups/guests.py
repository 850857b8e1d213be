"""Classic members of a consumer group: their JoinGroup, SyncGroup and Heartbeat. See `migration`."""

from __future__ import annotations

from broker_lite.coordinator.decision import Ticket
from broker_lite.coordinator.groups.catalogue import Catalogue
from broker_lite.coordinator.groups.consumer import NONE, ConsumerGroup, ConsumerMember, MemberState
from broker_lite.coordinator.groups.heartbeat import MEMBER_TIMERS, static_member, take_seat
from broker_lite.coordinator.groups.members import Join, Joined, Sync, Synced
from broker_lite.coordinator.groups.migration import (
    assignment_of,
    downgrade,
    is_settled_without,
    may_downgrade,
    places_of,
)
from broker_lite.coordinator.groups.planning import Plan, progress
from broker_lite.coordinator.groups.subscription import CONSUMER, read_subscription
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.coordinator.schemas import ClassicMemberMetadata, ClassicProtocol
from broker_lite.errors import (
    ErrorCode,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    Malformed,
    RebalanceInProgress,
    UnknownMemberId,
)
from broker_lite.shapes import replace


def join(group: ConsumerGroup, turn: Turn, asked: Join, ticket: Ticket, catalogue: Catalogue) -> None:
    """One step towards the target. The answer names no leader: nobody but the broker assigns here."""
    if turn.settings.migration == "disabled":
        raise InconsistentGroupProtocol(f"group {group.id} speaks the consumer protocol, and migration is disabled")
    member_id = asked.member_id or asked.new_member_id
    if len(group.members) >= turn.settings.consumer_max_size and member_id not in group.members:
        raise GroupMaxSizeReached(f"group {group.id} has {len(group.members)} members, that is the limit")
    if not _supports(group, asked):
        raise InconsistentGroupProtocol(f"group {group.id} has no protocol in common with the member")
    if not asked.member_id and asked.instance_id is None and asked.id_first:
        turn.answer(ticket, Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        return
    try:
        subscription = read_subscription(asked.protocols[0][1])
    except Malformed:
        raise InconsistentGroupProtocol(f"the subscription of {member_id} cannot be read") from None
    plan = Plan.of(group)
    member = _seat(plan, asked, member_id)
    updated = replace(
        member,
        instance_id=asked.instance_id if asked.instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        pattern="",
        client_id=asked.client_id,
        client_host=asked.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=asked.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in asked.protocols],
        ),
    )
    owned = places_of(subscription.owned_partitions, catalogue)
    moved = progress(plan, turn, member, updated, owned, catalogue)
    generation = moved.epoch
    if plan.replaced is not None and group.members[plan.replaced].classic is None and may_downgrade(plan, turn):
        # The last consumer came back as a classic member: nobody is left to assign for. Who has all it shall have
        # keeps it, and the newcomer fetches its seat's share with the sync.
        for what in MEMBER_TIMERS:
            turn.cancel_timer(what, group.id, plan.replaced)
        made = downgrade(plan, turn, catalogue, gather=not is_settled_without(plan, member_id))
        generation = made.generation
    else:
        turn.records += plan.records
        turn.set_timer("resync", group.id, member_id, within_ms=asked.rebalance_timeout_ms)
    turn.cancel_timer("rejoin", group.id, member_id)
    turn.set_timer("session", group.id, member_id, within_ms=asked.session_timeout_ms)
    turn.answer(
        ticket,
        Joined(member_id=member_id, generation=generation, protocol_type=CONSUMER, protocol=asked.protocols[0][0]),
    )


def _supports(group: ConsumerGroup, asked: Join) -> bool:
    if asked.protocol_type != CONSUMER or not asked.protocols:
        return False
    guests = [member.classic for member in group.members.values() if member.classic is not None]
    common = {name for name, _ in asked.protocols}
    for guest in guests:
        common &= {protocol.name for protocol in guest.supported_protocols}
    return bool(common)


def _seat(plan: Plan, asked: Join, member_id: str) -> ConsumerMember:
    group = plan.group
    if asked.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if asked.member_id:
        return static_member(group, asked.instance_id, asked.member_id)
    seated = group.members.get(group.static.get(asked.instance_id, ""))
    return ConsumerMember(member_id) if seated is None else take_seat(plan, seated, member_id)


def sync(group: ConsumerGroup, turn: Turn, asked: Sync, ticket: Ticket, catalogue: Catalogue) -> None:
    member, classic = _guest(group, asked.member_id, asked.instance_id, asked.generation)
    names = {protocol.name for protocol in classic.supported_protocols}
    if asked.protocol_type not in (None, CONSUMER) or (asked.protocol is not None and asked.protocol not in names):
        raise InconsistentGroupProtocol(f"member {member.id} joined with {sorted(names)}, not {asked.protocol!r}")
    if _can_follow(group, turn, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, turn, member)
        raise RebalanceInProgress(f"group {group.id} is in epoch {group.epoch}, member {member.id} must join again")
    turn.cancel_timer("resync", group.id, member.id)
    turn.set_timer("session", group.id, member.id, within_ms=classic.session_timeout_ms)
    spoken = bytes(classic.supported_protocols[0].metadata)
    assignment = assignment_of(member.assigned, spoken, catalogue)
    turn.answer(ticket, Synced(protocol_type=asked.protocol_type, protocol=asked.protocol, assignment=assignment))


def heartbeat(group: ConsumerGroup, turn: Turn, member_id: str, instance_id: str | None, generation: int) -> None:
    member, classic = _guest(group, member_id, instance_id, generation)
    turn.set_timer("session", group.id, member.id, within_ms=classic.session_timeout_ms)
    waits = member.state is MemberState.UNRELEASED_PARTITIONS and not _can_get_more(group, member)
    if (
        _can_follow(group, turn, member)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not waits)
    ):
        _expect_join(group, turn, member)
        raise RebalanceInProgress(f"member {member.id} has another step to make in group {group.id}")


def _can_follow(group: ConsumerGroup, turn: Turn, member: ConsumerMember) -> bool:
    """Whether a join would bring the member on: there is a younger assignment, or its join may make one."""
    if member.epoch < group.assignment_epoch:
        return True
    interval_ms = turn.settings.consumer(group.id).assignment_interval_ms
    return member.epoch < group.epoch and group.may_assign(turn.now_ms, interval_ms)


def _can_get_more(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether everything that the member still waits for is free."""
    missing = group.target.get(member.id, NONE) - member.assigned
    return all(place not in group.owners for place in missing)


def _expect_join(group: ConsumerGroup, turn: Turn, member: ConsumerMember) -> None:
    if ("rejoin", group.id, member.id) not in turn.timers:
        turn.set_timer("rejoin", group.id, member.id, within_ms=member.rebalance_timeout_ms)


def _guest(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """The classic member with this id, in this generation."""
    member = group.member(member_id) if instance_id is None else static_member(group, instance_id, member_id)
    if member.classic is None:
        raise UnknownMemberId(f"member {member_id} of group {group.id} speaks the consumer protocol")
    if member.epoch != generation:
        raise IllegalGeneration(f"member {member_id} is in generation {member.epoch}, not {generation}")
    return member, member.classic
