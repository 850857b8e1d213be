"""One member, one step nearer to its target. See the picture in `consumer`."""

from __future__ import annotations

from collections.abc import Mapping

from broker_lite.coordinator.groups.assignors import Place
from broker_lite.coordinator.groups.consumer import NONE, ConsumerMember, MemberState, Places
from broker_lite.shapes import replace


def step(
    member: ConsumerMember, target: Places, target_epoch: int, owned: Places | None, owners: Mapping[Place, str]
) -> ConsumerMember:
    """The member as it shall be. `owned` is what it says it owns now; None: it did not say."""
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or owned & member.revoking:
                return member
            return _next(member, member.epoch + 1, target, target_epoch, owned, owners)
        case _:
            return _next(member, member.epoch, target, target_epoch, owned, owners)


def _next(
    member: ConsumerMember,
    epoch: int,
    target: Places,
    target_epoch: int,
    owned: Places | None,
    owners: Mapping[Place, str],
) -> ConsumerMember:
    keeps = member.assigned & target
    revokes = member.assigned - keeps
    wants = target - keeps
    gets = frozenset(place for place in wants if owners.get(place, member.id) == member.id)
    if revokes and (owned is None or owned & revokes):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, keeps, revokes)
    state = MemberState.STABLE if gets == wants else MemberState.UNRELEASED_PARTITIONS
    return _moved(member, target_epoch, state, keeps | gets, NONE)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Places, revoking: Places
) -> ConsumerMember:
    since = {place: member.since.get(place, epoch) for place in assigned | revoking}
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        since=since,
    )
