from __future__ import annotations

import pytest

from broker_lite.coordinator.groups.members import Joined
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.schemas import GroupMetadataValue
from broker_lite.errors import ErrorCode
from tests.coordinator.playbook import (
    GROUP,
    Playbook,
    assigned,
    heartbeat,
    join,
    joined,
    leave,
    refused,
    rejoin,
    sync,
    told,
    waits,
)

TWO = (("range", b"r"), ("sticky", b"s"))


def settled(group: Playbook, *names: str, **more: object) -> Playbook:
    """A stable group in generation 1, led by the first; each member is assigned its own name."""
    for name in names:
        group >> join(name, **more)  # type: ignore[arg-type]
    group.wait(0.2)
    for name in names:
        group << joined(name, generation=1, leader=names[0])
    group >> sync(names[0], {name: name.encode() for name in names})
    group << assigned(names[0], names[0].encode())
    for name in names[1:]:
        group >> sync(name) << assigned(name, name.encode())
    return group


def test_the_first_member_leads_and_hears_who_is_there(group: Playbook) -> None:
    group >> join("a", protocols=TWO) << waits
    group >> join("b", protocols=(("sticky", b"bs"),)) << waits
    group.wait(0.2)
    leader = group.heard[0][1]
    assert isinstance(leader, Joined)
    assert [(member.id, member.metadata) for member in leader.members] == [("a", b"s"), ("b", b"bs")]
    group << joined("a", generation=1, leader="a", protocol="sticky", protocol_type="consumer", member_id="a")
    group << joined("b", generation=1, leader="a", protocol="sticky", members=[])


def test_a_group_is_written_down_when_the_first_one_asks_to_be_in_it(group: Playbook) -> None:
    group >> join("a") >> join("b") << waits
    ((birth, _, _),) = group.log
    assert birth.spoken is not None
    value = birth.spoken[1]
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("", 0, None, None)
    assert value.members == []
    assert list(group.classic().members) == ["a", "b"]
    group.restart()
    assert group.classic().state is State.EMPTY


def test_a_group_that_cannot_be_written_down_does_not_come_to_be(group: Playbook) -> None:
    group.disk_fails = True
    group >> join("a") << told("a", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert list(group.groups) == []


def test_members_wait_for_the_leaders_assignment(group: Playbook) -> None:
    group >> join("a") >> join("b")
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("b") << waits
    group >> sync("a", {"a": b"p0", "b": b"p1"}) << assigned("a", b"p0") << assigned("b", b"p1")
    group >> heartbeat("a") << told("a")
    group >> heartbeat("b") << told("b")


def test_a_member_the_leader_forgot_reads_nothing(group: Playbook) -> None:
    group >> join("a") >> join("b")
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("b") >> sync("a", {"a": b"p0"}) << assigned("a", b"p0") << assigned("b", b"")


def test_a_newcomer_gets_its_id_first_and_comes_back_with_it(group: Playbook) -> None:
    group >> join("a", id_first=True) << refused("a", ErrorCode.MEMBER_ID_REQUIRED, member_id="a")
    group >> rejoin("a", id_first=True) << waits
    group.wait(0.2) << joined("a", generation=1, leader="a")


def test_an_id_nobody_came_back_with_is_forgotten(group: Playbook) -> None:
    group >> join("a", id_first=True, session=10) << refused("a", ErrorCode.MEMBER_ID_REQUIRED)
    group.wait(10)
    group >> rejoin("a") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_round_waits_for_an_id_that_was_given_out(group: Playbook) -> None:
    settled(group, "a")
    group >> join("b", id_first=True) << refused("b", ErrorCode.MEMBER_ID_REQUIRED)
    group >> rejoin("a") << waits
    group >> rejoin("b") << joined("a", generation=2) << joined("b", generation=2)


def test_consumers_started_together_share_the_first_generation(group: Playbook) -> None:
    group >> join("a") << waits
    group.wait(0.08) << waits
    group >> join("b") << waits
    group.wait(0.08) << waits
    group.wait(0.04) << joined("a", generation=1) << joined("b", generation=1)


def test_without_an_initial_delay_the_first_who_comes_is_a_generation() -> None:
    group = Playbook(GroupSettings(initial_delay_ms=0))
    group >> join("a") << waits
    group.wait(0) << joined("a", generation=1, leader="a")


def test_the_initial_delay_is_prolonged_by_newcomers() -> None:
    group = Playbook(GroupSettings(initial_delay_ms=3000))
    group >> join("a") << waits
    group.wait(2) >> join("b") << waits
    group.wait(2) << waits
    group.wait(2) << joined("a", generation=1) << joined("b", generation=1)


def test_a_newcomer_in_a_stable_group_begins_a_round_that_heartbeats_tell_of(group: Playbook) -> None:
    settled(group, "a", "b")
    group >> join("c") << waits
    group >> heartbeat("a") << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> sync("b") << told("b", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("a") << waits
    (
        group
        >> rejoin("b")
        << joined("a", generation=2, leader="a")
        << joined("b", generation=2)
        << joined("c", generation=2)
    )


def test_a_follower_that_joins_again_unchanged_is_told_the_generation(group: Playbook) -> None:
    settled(group, "a", "b")
    group >> rejoin("b") << joined("b", generation=1, leader="a", members=[])
    group >> heartbeat("a") << told("a")


def test_a_leader_that_joins_again_wants_a_rebalance(group: Playbook) -> None:
    settled(group, "a", "b")
    group >> rejoin("a") << waits
    group >> heartbeat("b") << told("b", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("b") << joined("a", generation=2) << joined("b", generation=2)


def test_a_member_that_changed_wants_a_rebalance(group: Playbook) -> None:
    settled(group, "a", "b")
    group >> rejoin("b", protocols=(("range", b"other topics"),)) << waits
    group >> rejoin("a") << joined("a", generation=2) << joined("b", generation=2)


def test_a_lost_join_answer_is_given_again(group: Playbook) -> None:
    group >> join("a") >> join("b")
    group.wait(0.2) << joined("a") << joined("b")
    group >> rejoin("a") << joined("a", generation=1, leader="a")
    group >> rejoin("b", protocols=(("range", b"changed"),)) << waits
    group >> rejoin("a") << joined("a", generation=2) << joined("b", generation=2)


def test_a_second_join_of_one_member_lets_the_first_go(group: Playbook) -> None:
    settled(group, "a", "b")
    group >> rejoin("a") << waits
    group >> rejoin("a") << refused("a", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("b") << joined("a", generation=2) << joined("b", generation=2)


def test_who_waits_for_an_assignment_is_sent_back_when_a_round_begins(group: Playbook) -> None:
    group >> join("a") >> join("b")
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("b") << waits
    group >> join("c") << refused("b", ErrorCode.REBALANCE_IN_PROGRESS)


def test_protocols_must_have_one_in_common(group: Playbook) -> None:
    group >> join("a", protocols=()) << told("a", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group >> join("a", protocol_type="") << told("a", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    settled(group, "a", protocols=TWO)
    group >> join("b", protocols=(("cooperative", b""),)) << told("b", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group >> join("b", protocol_type="connect") << told("b", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_the_protocol_that_most_members_prefer_is_chosen(group: Playbook) -> None:
    likes_sticky = (("sticky", b""), ("range", b""))
    group >> join("a", protocols=TWO) >> join("b", protocols=likes_sticky) >> join("c", protocols=likes_sticky)
    group.wait(0.2) << joined("a", protocol="sticky") << joined("b") << joined("c")


@pytest.mark.parametrize("session", [5.999, 1800.001])
def test_a_session_out_of_bounds_is_refused(group: Playbook, session: float) -> None:
    group >> join("a", session=session) << told("a", ErrorCode.INVALID_SESSION_TIMEOUT)


def test_an_empty_group_id_is_refused(group: Playbook) -> None:
    group >> join("a", group="") << told("a", ErrorCode.INVALID_GROUP_ID)


def test_a_member_nobody_knows_is_told_so(group: Playbook) -> None:
    group >> rejoin("x") << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    settled(group, "a")
    group >> rejoin("x") << told("x", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_full_group_takes_nobody_more() -> None:
    group = Playbook(GroupSettings(max_size=2))
    settled(group, "a", "b")
    group >> join("c") << told("c", ErrorCode.GROUP_MAX_SIZE_REACHED)
    group >> rejoin("a") << waits
    group >> rejoin("b") << joined("a", generation=2) << joined("b", generation=2)


def test_a_gathering_group_takes_as_many_as_it_may() -> None:
    group = Playbook(GroupSettings(max_size=2))
    group >> join("a") >> join("b") >> join("c") << told("c", ErrorCode.GROUP_MAX_SIZE_REACHED)
    group.wait(0.2) << joined("a") << joined("b")


def test_a_member_that_does_not_rejoin_in_time_is_out(group: Playbook) -> None:
    settled(group, "a", "b", rebalance=20, session=30)
    group >> rejoin("a", rebalance=20) << waits
    group.wait(20) << joined("a", generation=2, leader="a")
    group >> heartbeat("b") << told("b", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_leader_that_does_not_rejoin_loses_the_lead(group: Playbook) -> None:
    settled(group, "a", "b", rebalance=20, session=30)
    group >> rejoin("b", protocols=(("range", b"changed"),), rebalance=20) << waits
    group.wait(20) << joined("b", generation=2, leader="b")


def test_a_newcomer_that_waits_too_long_is_let_go(group: Playbook) -> None:
    settled(group, "a", rebalance=600, session=1000)
    group >> join("b", rebalance=600) << waits
    group.wait(300) << refused("b", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_group_that_everybody_left_is_empty_and_can_begin_again(group: Playbook) -> None:
    settled(group, "a")
    group >> leave(("a", None)) << told("leaver", [ErrorCode.NONE])
    assert group.groups.group(GROUP).state is State.EMPTY
    assert group.classic().generation == 2
    group >> join("b") << waits
    group.wait(0.2) << joined("b", generation=3, leader="b")
