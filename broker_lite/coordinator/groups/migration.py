"""A live group changes its protocol (KIP-848): classic members and consumers side by side, for as long as it takes.

    up      the first consumer that comes to a classic group makes it a consumer group; the classic members stay, with
            the assignment they have, and from then on are assigned by the broker
    down    when the last consumer has gone, what is left is a classic group again, and its members gather anew

A classic member of a consumer group still joins and syncs, but nobody waits for anybody: a join is one step of the
member towards its target, a sync fetches the result, and a heartbeat tells when there is another step to be made.
"""

from __future__ import annotations

from broker_lite.coordinator.groups.assignors import Place
from broker_lite.coordinator.groups.catalogue import Catalogue
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import NONE, ConsumerGroup, ConsumerMember, Places, by_topic
from broker_lite.coordinator.groups.members import Joined, Member, Synced
from broker_lite.coordinator.groups.planning import Plan
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.subscription import (
    CONSUMER,
    TopicPartition,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.coordinator.schemas import ClassicMemberMetadata, ClassicProtocol
from broker_lite.errors import ErrorCode, GroupIdNotFound, Malformed
from broker_lite.ids import TopicId

UP = ("upgrade", "bidirectional")
DOWN = ("downgrade", "bidirectional")


def may_upgrade(group: ClassicGroup, turn: Turn) -> bool:
    limits = turn.settings
    return limits.migration in UP and group.protocol_type == CONSUMER and len(group.members) <= limits.consumer_max_size


def upgrade(group: ClassicGroup, turn: Turn, catalogue: Catalogue) -> ConsumerGroup:
    """The same group as a consumer group. Its records are decided; whoever waits is sent back to join."""
    try:
        members = [_as_consumer(group, member, catalogue) for member in group.members.values()]
    except Malformed:
        raise GroupIdNotFound(f"Group {group.id} has a member whose subscription cannot be read.") from None
    for waiting in group.members.values():
        if waiting.joining is not None:
            turn.answer(waiting.joining, Joined(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=waiting.id))
        if waiting.syncing is not None:
            turn.answer(waiting.syncing, Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
    turn.if_refused(lambda _: turn.answers.clear())  # the group is as it was: who waits in it waits on
    turn.is_atomic = True
    for what in ("join", "sync"):
        turn.cancel_timer(what, group.id)
    made = ConsumerGroup(group.id)
    records = [member.metadata_record(group.id) for member in members]
    records.append(made.epoch_record(group.generation, 0))
    records += [made.target_record(member.id, member.assigned) for member in members]
    records.append(
        made.target_epoch_record(group.generation, 0)
    )  # the broker has assigned nothing yet: it need not wait
    records += [member.assignment_record(group.id) for member in members]
    for line in records:
        assert line.spoken is not None
        made.apply(*line.spoken)
    turn.records += group.tombstones() + records
    for member in members:
        assert member.classic is not None
        turn.set_timer("session", group.id, member.id, within_ms=member.classic.session_timeout_ms)
    return made


def _as_consumer(group: ClassicGroup, member: Member, catalogue: Catalogue) -> ConsumerMember:
    protocol = group.protocol if group.protocol is not None else member.protocols[0][0]
    subscription = read_subscription(member.metadata(protocol))
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        # Written by an assignor of its own kind (Kafka Streams has one), to be read by its members: nobody here could.
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.id} to consumer group because an unsupported custom assignor is in "
            "use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
        )
    assigned = places_of(assignment.assigned_partitions, catalogue)
    return ConsumerMember(
        id=member.id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols],
        ),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
        since=dict.fromkeys(assigned, group.generation),
    )


def may_downgrade(plan: Plan, turn: Turn) -> bool:
    """Whether only classic members are left."""
    return (
        turn.settings.migration in DOWN
        and not plan.group.is_too_large_to_downgrade
        and 0 < len(plan.members) <= turn.settings.max_size
        and all(member.classic is not None for member in plan.members.values())
    )


def is_settled_without(plan: Plan, member_id: str) -> bool:
    """Whether everybody else has what it shall have, now and in the plan."""
    old = plan.group
    return plan.epoch == old.epoch == old.assignment_epoch and all(
        member.is_reconciled_to(old.epoch) and plan.target.get(member.id, NONE) == member.assigned
        for member in plan.members.values()
        if member.id != member_id
    )


def downgrade(plan: Plan, turn: Turn, catalogue: Catalogue, *, gather: bool = True) -> ClassicGroup:
    """What is left of the plan's group as a classic group. With `gather` it gathers anew as soon as this is written."""
    old = plan.group
    made = ClassicGroup(old.id, now_ms=turn.now_ms)
    made.state, made.generation = State.STABLE, old.epoch
    for member in plan.members.values():
        made.add(_as_classic(member))
    made.protocol = made.elected_protocol()
    assignments: dict[str, bytes] = {}
    for member in plan.members.values():
        spoken = made.members[member.id].metadata(made.protocol)
        assignments[member.id] = assignment_of(plan.target.get(member.id, NONE), spoken, catalogue)
    turn.is_atomic = True
    turn.if_refused(old.not_downgraded)
    turn.records += old.tombstones()
    turn.records.append(made.metadata_record(list(made.members.values()), assignments, leader=made.leader))
    for member in plan.members.values():
        for what in ("rejoin", "resync", "revoke"):
            turn.cancel_timer(what, old.id, member.id)
    if gather:
        turn.set_timer("downgraded", old.id, within_ms=0)
    return made


def _as_classic(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=CONSUMER,
        protocols=[(protocol.name, bytes(protocol.metadata)) for protocol in member.classic.supported_protocols],
    )


def places_of(lines: list[TopicPartition], catalogue: Catalogue) -> Places:
    """Topics by name to topics by id; those that are gone are left out."""
    places: set[Place] = set()
    for line in lines:
        topic = catalogue.get(line.topic)
        if topic is not None:
            places.update((bytes(topic.id), partition) for partition in line.partitions)
    return frozenset(places)


def assignment_of(places: Places, subscription: bytes, catalogue: Catalogue) -> bytes:
    """As a classic member wants to read it, in the version that it writes its subscription in."""
    topics = []
    for topic_id, partitions in by_topic(places):
        topic = catalogue.by_id(TopicId(topic_id))
        if topic is not None:
            topics.append((topic.name, partitions))
    try:
        return write_assignment(topics, version_of(subscription))
    except Malformed:
        return write_assignment(topics, 0)
