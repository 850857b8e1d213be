from __future__ import annotations

from broker_lite.coordinator.groups.members import Joined
from broker_lite.errors import ErrorCode
from tests.coordinator.playbook import (
    Playbook,
    assigned,
    commit,
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


def two_static(group: Playbook) -> Playbook:
    group >> join("a", instance="i1") >> join("b", instance="i2")
    group.wait(0.2) << joined("a", generation=1, leader="a") << joined("b")
    group >> sync("a", {"a": b"p0", "b": b"p1"}, instance="i1") << assigned("a", b"p0")
    return group >> sync("b", instance="i2") << assigned("b", b"p1")


def test_a_returning_static_member_takes_its_old_seat(group: Playbook) -> None:
    two_static(group)
    group >> join("B", instance="i2") << joined("B", generation=1, leader="a", member_id="B", members=[])
    group >> sync("B", instance="i2") << assigned("B", b"p1")
    group >> heartbeat("b", instance="i2") << told("b", ErrorCode.FENCED_INSTANCE_ID)
    group >> heartbeat("a", instance="i1") << told("a")


def test_a_returning_leader_is_told_to_assign_nothing(group: Playbook) -> None:
    two_static(group)
    group >> join("A", instance="i1", skip=True)
    answer = group.heard[0][1]
    assert isinstance(answer, Joined)
    assert sorted(member.id for member in answer.members) == ["A", "b"]
    group << joined("A", generation=1, leader="A", skip_assignment=True)
    group >> sync("A", instance="i1") << assigned("A", b"p0")


def test_an_old_client_that_led_is_not_told_that_it_leads(group: Playbook) -> None:
    two_static(group)
    group >> join("A", instance="i1") << joined("A", generation=1, leader="a", skip_assignment=False, members=[])
    group >> sync("A", instance="i1") << assigned("A", b"p0")


def test_the_new_id_of_a_static_member_survives_a_restart(group: Playbook) -> None:
    two_static(group)
    group >> join("B", instance="i2") << joined("B")
    group.restart()
    group >> heartbeat("B", instance="i2") << told("B")
    group >> heartbeat("b", instance="i2") << told("b", ErrorCode.FENCED_INSTANCE_ID)
    group >> sync("B", instance="i2") << assigned("B", b"p1")


def test_a_return_that_changes_the_protocol_begins_a_round(group: Playbook) -> None:
    both = (("range", b""), ("sticky", b""))
    group >> join("a", instance="i1", protocols=both)
    group.wait(0.2) << joined("a", protocol="range")
    group >> sync("a", {"a": b"p0"}, instance="i1") << assigned("a", b"p0")
    group >> join("A", instance="i1", protocols=(("sticky", b""),)) << joined("A", generation=2, protocol="sticky")


def test_a_return_while_the_leader_assigns_begins_a_round(group: Playbook) -> None:
    group >> join("a", instance="i1") >> join("b", instance="i2")
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("a", instance="i2") << told("a", ErrorCode.FENCED_INSTANCE_ID)
    group >> sync("b", instance="i2") << waits
    group >> join("B", instance="i2") << refused("b", ErrorCode.FENCED_INSTANCE_ID) << waits
    group >> rejoin("a", instance="i1") << joined("a", generation=2) << joined("B", generation=2)


def test_a_return_during_a_round_fences_the_twin_that_waits(group: Playbook) -> None:
    group >> join("a", instance="i1") << waits
    group >> join("A", instance="i1") << refused("a", ErrorCode.FENCED_INSTANCE_ID, member_id="a")
    group.wait(0.2) << joined("A", generation=1, leader="A")


def test_a_static_member_keeps_its_seat_when_it_misses_a_round(group: Playbook) -> None:
    group >> join("a", instance="i1", rebalance=20, session=100) >> join("b", rebalance=20, session=100)
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("a", {"a": b"p0"}, instance="i1") << assigned("a", b"p0")
    group >> sync("b") << assigned("b", b"")
    group >> rejoin("b", protocols=(("range", b"new"),), rebalance=20, session=100) << waits
    group.wait(20) << joined("b", generation=2, leader="b")
    assert set(group.groups.group("readers").members) == {"a", "b"}


def test_a_round_without_anybody_is_put_off_until_the_sessions_end(group: Playbook) -> None:
    group >> join("a", instance="i1", session=100, rebalance=10) >> join("b", session=100, rebalance=10)
    group.wait(0.2) << joined("a") << joined("b")
    group >> sync("a", instance="i1") << assigned("a", b"")
    group >> sync("b") << assigned("b", b"")
    group >> leave(("b", None)) << told("leaver", [ErrorCode.NONE])
    group.wait(50)
    assert group.classic().generation == 1
    group.wait(60)
    assert group.classic().generation == 2
    assert not group.groups.group("readers").members


def test_a_static_member_is_removed_by_its_instance_id(group: Playbook) -> None:
    two_static(group)
    group >> leave(("", "i2"), ("", "i3"), ("a", "i2"), ("x", "i1"), ("x", None))
    group << told(
        "leaver",
        [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID,
         ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID],
    )  # fmt: skip
    group >> rejoin("a", instance="i1") << joined("a", generation=2)


def test_a_fenced_member_cannot_commit(group: Playbook) -> None:
    two_static(group)
    group >> join("B", instance="i2") << joined("B")
    group >> commit(5, who="b", instance="i2", generation=1) << told("b", ErrorCode.FENCED_INSTANCE_ID)
    group >> commit(5, who="B", instance="i2", generation=1) << told("B")


def test_a_join_with_a_wrong_instance_id_is_refused(group: Playbook) -> None:
    two_static(group)
    group >> rejoin("a", instance="i2") << told("a", ErrorCode.FENCED_INSTANCE_ID)
    group >> rejoin("a", instance="i9") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_return_that_cannot_be_written_leaves_the_old_id_seated(group: Playbook) -> None:
    two_static(group)
    group.disk_fails = True
    group >> join("B", instance="i2") << told("B", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.disk_fails = False
    group >> heartbeat("b", instance="i2") << told("b")
