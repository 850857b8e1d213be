"""SyncGroup, Heartbeat, LeaveGroup, and what happens when nothing is heard."""

from __future__ import annotations

from broker_lite.coordinator.decision import Ticket
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.members import Sync, Synced
from broker_lite.coordinator.groups.rebalance import complete_if_all_here, complete_join, prepare, prepare_or_complete
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    ErrorCode,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)


def sync(group: ClassicGroup, turn: Turn, asked: Sync, ticket: Ticket) -> None:
    """Answer or park the ticket; the leader's request ends the round for all by a record."""
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable(f"group {group.id} is gone")
    member = group.check_member(asked.member_id, asked.instance_id)
    group.check_generation(asked.generation)
    for told, is_now in ((asked.protocol_type, group.protocol_type), (asked.protocol, group.protocol)):
        if told is not None and is_now is not None and told != is_now:
            raise InconsistentGroupProtocol(f"group {group.id} speaks {is_now!r}, not {told!r}")
    match group.state:
        case State.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {group.id} gathers its next generation")
        case State.COMPLETING_REBALANCE:
            group.answer_sync(member, turn, Synced(error=ErrorCode.REBALANCE_IN_PROGRESS))
            member.syncing = ticket
            _has_synced(group, turn, member.id)
            if group.leader == member.id:
                _assign(group, turn, asked.assignments)
        case State.STABLE:
            _has_synced(group, turn, member.id)
            turn.answer(ticket, _synced(group, member.assignment))
        case _:
            raise UnknownMemberId(f"group {group.id} is {group.state.value}")


def _has_synced(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        turn.cancel_timer("sync", group.id)


def _synced(group: ClassicGroup, assignment: bytes) -> Synced:
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment)


def _assign(group: ClassicGroup, turn: Turn, assignments: dict[str, bytes]) -> None:
    """Write the generation down. Whoever the leader forgot gets nothing to read."""
    group.since_ms = turn.now_ms
    turn.if_refused(lambda _: _assignment_was_not_written(group, turn))
    turn.records.append(group.metadata_record(list(group.members.values()), assignments, leader=group.leader))
    for member in group.members.values():
        if group.answer_sync(member, turn, _synced(group, assignments.get(member.id, b""))):
            turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)


def _assignment_was_not_written(group: ClassicGroup, turn: Turn) -> None:
    """Nobody may act on this generation: everybody who came for it hears why, and the members gather once more."""
    for member in group.members.values():
        turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
    prepare(group, turn)


def heartbeat(group: ClassicGroup, turn: Turn, member_id: str, instance_id: str | None, generation: int) -> None:
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable(f"group {group.id} is gone")
    member = group.check_member(member_id, instance_id)
    group.check_generation(generation)
    if group.state is State.EMPTY:
        raise UnknownMemberId(f"group {group.id} is empty")
    # Nothing is written, so nothing will have to be taken back.
    turn.timers.set(("session", group.id, member_id), turn.now + member.session_timeout_ms / 1000)
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group {group.id} gathers its next generation")


def leave(group: ClassicGroup, turn: Turn, leaving: list[tuple[str, str | None]]) -> list[ErrorCode]:
    """Each (member id, instance id) gets its code. By the instance id alone an admin removes a static member."""
    if group.state is State.DEAD:
        raise CoordinatorNotAvailable(f"group {group.id} is gone")
    codes: list[ErrorCode] = []
    for member_id, instance_id in leaving:
        try:
            if not member_id:
                if instance_id is None or instance_id not in group.static:
                    raise UnknownMemberId(f"group {group.id} has no member with the instance id {instance_id!r}")
                member_id = group.static[instance_id]
            elif member_id not in group.pending_join:
                group.check_member(member_id, instance_id)
            group.remove(member_id, turn)
            codes.append(ErrorCode.NONE)
        except BrokerError as refused:
            codes.append(refused.code)
    if ErrorCode.NONE in codes:
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            prepare(group, turn)
        else:
            complete_if_all_here(group, turn)
    return codes


def session_is_over(group: ClassicGroup, turn: Turn, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending_join:
            group.remove(member_id, turn)
            _complete_without(group, turn)
    elif not member.is_waiting:
        group.remove(member_id, turn)
        if group.state is State.PREPARING_REBALANCE:
            _complete_without(group, turn)
        elif group.state is not State.EMPTY:
            prepare_or_complete(group, turn)


def _complete_without(group: ClassicGroup, turn: Turn) -> None:
    if group.state is State.PREPARING_REBALANCE and group.everybody_joined:
        complete_join(group, turn)


def sync_time_is_over(group: ClassicGroup, turn: Turn) -> None:
    """Whoever was told of the generation and never came for its assignment is out."""
    if group.state in (State.COMPLETING_REBALANCE, State.STABLE) and group.pending_sync:
        for member_id in list(group.pending_sync):
            group.remove(member_id, turn)
        prepare(group, turn)
