"""The join round: it begins with `prepare` and ends with `complete_join`."""

from __future__ import annotations

from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.members import Synced
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import RETRY_MS, Turn
from broker_lite.errors import ErrorCode


def prepare_or_complete(group: ClassicGroup, turn: Turn) -> None:
    """Somebody came, went or changed: begin a round, or end the one that is going on if that was the last missing."""
    if group.state is State.PREPARING_REBALANCE:
        complete_if_all_here(group, turn)
    else:
        prepare(group, turn)


def prepare(group: ClassicGroup, turn: Turn) -> None:
    if group.state is State.COMPLETING_REBALANCE:
        send_all_back_to_join(group, turn, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    turn.cancel_timer("sync", group.id)
    is_first = group.state is State.EMPTY
    group.become(State.PREPARING_REBALANCE, turn.now_ms)
    if is_first:
        group.grew = False
        group.gather_until = turn.now + group.rebalance_timeout_ms / 1000
        _gather(group, turn)
    elif group.everybody_joined:
        complete_join(group, turn)
    else:
        turn.set_timer("join", group.id, within_ms=group.rebalance_timeout_ms)


def _gather(group: ClassicGroup, turn: Turn) -> None:
    """The first generation waits for others who are just starting, too."""
    left_ms = round((group.gather_until - turn.now) * 1000)
    turn.set_timer("join", group.id, within_ms=min(turn.settings.initial_delay_ms, left_ms))


def newcomer(group: ClassicGroup, turn: Turn) -> None:
    """Somebody new is here or on its way: there may be more."""
    if group.state is State.PREPARING_REBALANCE and group.previous is State.EMPTY:
        group.grew = True


def join_time_is_over(group: ClassicGroup, turn: Turn) -> None:
    if group.state is not State.PREPARING_REBALANCE:
        return
    is_first = group.previous is State.EMPTY
    if is_first and group.grew and turn.now < group.gather_until:
        group.grew = False
        _gather(group, turn)
    else:
        complete_join(group, turn)


def complete_if_all_here(group: ClassicGroup, turn: Turn) -> None:
    if group.state is State.PREPARING_REBALANCE and group.previous is not State.EMPTY and group.everybody_joined:
        complete_join(group, turn)


def complete_join(group: ClassicGroup, turn: Turn) -> None:
    """End the round: whoever did not come back is out (static members keep their seats), the rest is a generation."""
    turn.cancel_timer("join", group.id)
    for member in list(group.members.values()):
        if member.joining is None and not member.is_static:
            group.remove(member.id, turn)
    if group.members and not _elect(group):
        # Only static members, and none of them came back: wait on until their sessions end.
        turn.set_timer("join", group.id, within_ms=max(group.rebalance_timeout_ms, RETRY_MS))
        return
    group.pending_sync.clear()
    if not group.members:
        turn.records.append(group.empty_record(turn.now_ms))
        # Until it is written the round goes on: whoever comes meanwhile is welcome.
        turn.if_refused(lambda _: turn.set_timer("join", group.id, within_ms=RETRY_MS))
        return
    group.generation += 1
    group.protocol = group.elected_protocol()
    group.learn_topics()
    group.become(State.COMPLETING_REBALANCE, turn.now_ms)
    for member in group.members.values():
        group.answer_join(member, turn, group.joined(member.id))
        member.is_new = False
        turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
        group.pending_sync.add(member.id)
    turn.set_timer("sync", group.id, within_ms=group.rebalance_timeout_ms)


def _elect(group: ClassicGroup) -> bool:
    """The leader must be one who is here to be answered: the old one, or else the first who came."""
    leader = group.members.get(group.leader or "")
    if leader is not None and leader.joining is not None:
        return True
    for member in group.members.values():
        if member.joining is not None:
            group.leader = member.id
            return True
    return False


def send_all_back_to_join(group: ClassicGroup, turn: Turn, error: ErrorCode) -> None:
    """No assignment will come for this generation. Those who wait for one hear why."""
    for member in group.members.values():
        member.assignment = b""
        if group.answer_sync(member, turn, Synced(error=error)):
            turn.set_timer("session", group.id, member.id, within_ms=member.session_timeout_ms)
