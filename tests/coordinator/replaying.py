"""What a start would make of a group's log, to be held against what is in memory.

Memory may know more: a round of the classic protocol that is going on, and a group that is only being gathered, are
in no record.  Everything else must be the same.
"""

from __future__ import annotations

from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.coordinator import Group, Groups
from broker_lite.coordinator.groups.state import State


def differences(memory: Groups, replayed: Groups) -> list[str]:
    """What is true in one and not in the other, apart from what only memory knows."""
    found: list[str] = []
    for name in sorted(memory.groups.keys() | replayed.groups.keys()):
        ours, theirs = memory.groups.get(name), replayed.groups.get(name)
        if memory.offsets.of(name) != replayed.offsets.of(name):
            found.append(f"{name}: offsets {memory.offsets.of(name)} / {replayed.offsets.of(name)}")
        if not _is_gathering(ours) and _facts(ours) != _facts(theirs):
            found.append(f"{name}: {_facts(ours)} / {_facts(theirs)}")
        if _is_gathering(ours) and isinstance(theirs, ConsumerGroup):
            found.append(f"{name}: classic / consumer")
    return found


def _is_gathering(group: Group | None) -> bool:
    """Between two generations, or before the first: what was written is of another one, or nothing was."""
    if not isinstance(group, ClassicGroup):
        return False
    is_new = group.state is State.EMPTY and group.generation == 0
    return is_new or group.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)


def _facts(group: Group | None) -> object:
    match group:
        case None:
            return None
        case ClassicGroup():
            members = {member.id: (member.instance_id, member.assignment) for member in group.members.values()}
            return group.state, group.generation, group.protocol, group.leader, members, group.static
        case ConsumerGroup():
            return (
                (group.epoch, group.topics_hash, group.assignment_epoch),
                group.members,
                group.subscriptions,
                group.static,
                group.target,
                group.resolved,
                group.owners,
            )


def is_watched(groups: Groups) -> bool:
    """Whether each member has a session that ends, or a request that waits; and each round an end."""
    for group in groups:
        for member in group.members.values():
            waits = isinstance(group, ClassicGroup) and group.members[member.id].is_waiting
            if not waits and ("session", group.id, member.id) not in groups._timers:
                return False
        if isinstance(group, ClassicGroup):
            assert not group.replacing
            if group.state is State.PREPARING_REBALANCE and ("join", group.id, "") not in groups._timers:
                return False
            if group.pending_sync and ("sync", group.id, "") not in groups._timers:
                return False
    return True
