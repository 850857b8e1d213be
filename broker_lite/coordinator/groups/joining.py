"""JoinGroup: who comes in, under which id, and what that does to the group."""

from __future__ import annotations

from broker_lite.coordinator.decision import Ticket
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.members import Join, Joined, Member
from broker_lite.coordinator.groups.rebalance import complete_if_all_here, newcomer, prepare, prepare_or_complete
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    UnknownMemberId,
)


def join(group: ClassicGroup, turn: Turn, asked: Join, ticket: Ticket) -> None:
    """Answer or park the ticket. A refusal is raised and has changed nothing (but for a member above the limit)."""
    if not _has_room(group, asked.member_id, turn.settings.max_size):
        group.remove(asked.member_id, turn)
        raise GroupMaxSizeReached(f"group {group.id} has {len(group.members)} members, that is the limit")
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable(f"group {group.id} is gone")
    if not group.supports(asked.protocol_type, {name for name, _ in asked.protocols}):
        raise InconsistentGroupProtocol(
            f"group {group.id} speaks {group.protocol_type!r} and has no protocol in common with the member"
        )
    if asked.member_id:
        _known(group, turn, asked, ticket)
    elif asked.instance_id is not None and asked.instance_id in group.static:
        _return_to_seat(group, turn, asked, ticket)
    elif asked.instance_id is None and asked.id_first:
        group.pending_join.add(asked.new_member_id)
        newcomer(group, turn)
        turn.set_timer("session", group.id, asked.new_member_id, within_ms=asked.session_timeout_ms)
        turn.answer(ticket, Joined(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=asked.new_member_id))
    else:
        _add(group, turn, asked, asked.new_member_id, ticket)


def _has_room(group: ClassicGroup, member_id: str, limit: int) -> bool:
    member = group.members.get(member_id)
    match group.state:
        case State.EMPTY | State.DEAD:
            return True
        case State.PREPARING_REBALANCE:
            # Who waits already is counted, not who is a member: a limit that was lowered takes hold this way.
            return (member is not None and member.joining is not None) or group.joining < limit
        case _:
            return member is not None or len(group.members) < limit


def _add(group: ClassicGroup, turn: Turn, asked: Join, member_id: str, ticket: Ticket) -> None:
    member = Member(
        id=member_id,
        instance_id=asked.instance_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        protocol_type=asked.protocol_type,
        protocols=asked.protocols,
        joining=ticket,
        is_new=True,
    )
    newcomer(group, turn)
    group.add(member)
    turn.set_timer("session", group.id, member_id, within_ms=turn.settings.new_member_join_ms)
    prepare_or_complete(group, turn)


def _known(group: ClassicGroup, turn: Turn, asked: Join, ticket: Ticket) -> None:
    if asked.member_id in group.pending_join:
        if asked.instance_id is not None:
            raise UnknownMemberId(f"{asked.member_id} was given to a member without an instance id")
        _add(group, turn, asked, asked.member_id, ticket)
        return
    member = group.check_member(asked.member_id, asked.instance_id)
    is_unchanged = member.protocols == asked.protocols
    match group.state:
        case State.PREPARING_REBALANCE:
            _rejoin(group, turn, asked, member, ticket)
        case State.COMPLETING_REBALANCE if is_unchanged:
            # Perhaps the answer was lost: give it again.
            turn.answer(ticket, group.joined(member.id))
        case State.STABLE if is_unchanged and group.leader != member.id:
            turn.answer(ticket, group.joined(member.id))
        case State.COMPLETING_REBALANCE | State.STABLE:
            # The member changed; or it is the leader, who asks for a rebalance when it sees other partitions.
            _rejoin(group, turn, asked, member, ticket)
        case _:
            raise UnknownMemberId(f"group {group.id} is {group.state.value}")


def _rejoin(group: ClassicGroup, turn: Turn, asked: Join, member: Member, ticket: Ticket) -> None:
    group.update(member, asked.protocols, asked.session_timeout_ms, asked.rebalance_timeout_ms)
    group.park_join(member, ticket, turn)
    prepare_or_complete(group, turn)


def _return_to_seat(group: ClassicGroup, turn: Turn, asked: Join, ticket: Ticket) -> None:
    """An instance came back under a new member id (KIP-345)."""
    assert asked.instance_id is not None
    old = group.members[group.static[asked.instance_id]]
    new = Member(
        id=asked.new_member_id,
        instance_id=asked.instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        protocol_type=old.protocol_type,
        protocols=asked.protocols,
        assignment=old.assignment,
    )
    if group.state is State.STABLE and _keeps_protocol(group, old, new):
        _replace_in_record(group, turn, old, new, asked, ticket)
        return
    group.replace(old, new, turn)
    group.park_join(new, ticket, turn)
    turn.set_timer("session", group.id, new.id, within_ms=new.session_timeout_ms)
    if group.state is State.PREPARING_REBALANCE:
        complete_if_all_here(group, turn)
    else:
        # After the join round the leader may already be assigning to the old id: once more, then.
        prepare(group, turn)


def _keeps_protocol(group: ClassicGroup, old: Member, new: Member) -> bool:
    kept = old.protocols
    group.update(old, new.protocols, old.session_timeout_ms, old.rebalance_timeout_ms)
    elected = group.elected_protocol()
    group.update(old, kept, old.session_timeout_ms, old.rebalance_timeout_ms)
    return elected == group.protocol


def _replace_in_record(group: ClassicGroup, turn: Turn, old: Member, new: Member, asked: Join, ticket: Ticket) -> None:
    """Same generation, same assignment, another member id: one record says so, nobody else notices."""
    leader_before = group.leader
    leader = new.id if leader_before == old.id else leader_before
    members = [new if member is old else member for member in group.members.values()]
    assignments = {member.id: member.assignment for member in members}
    group.replacing[new.id] = new
    turn.if_refused(lambda _: group.replacing.clear())
    group.answer_join(old, turn, Joined(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.id))
    turn.cancel_timer("session", group.id, old.id)
    turn.set_timer("session", group.id, new.id, within_ms=new.session_timeout_ms)
    turn.records.append(group.metadata_record(members, assignments, leader=leader))
    answer = group.joined(old.id)
    answer.member_id = new.id
    if asked.may_skip_assignment:
        answer.leader = leader or ""
        answer.skip_assignment = leader == new.id
        for line in answer.members:
            if line.id == old.id:
                line.id, line.metadata = new.id, new.metadata(group.protocol)
    else:
        # Before KIP-814 a returning leader must not believe that it leads: it would assign for nothing.
        answer.leader, answer.members = leader_before or "", []
    turn.answer(ticket, answer)
