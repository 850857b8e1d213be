from __future__ import annotations

from broker_lite.coordinator.groups.state import State
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


def pair(group: Playbook, **more: float) -> Playbook:
    """Generation 1 of a (who leads) and b, and nothing assigned yet."""
    group >> join("a", **more) >> join("b", **more)  # type: ignore[arg-type]
    return group.wait(0.2) << joined("a") << joined("b")


def stable(group: Playbook, **more: float) -> Playbook:
    pair(group, **more)
    group >> sync("a", {"a": b"p0", "b": b"p1"}) << assigned("a", b"p0")
    return group >> sync("b") << assigned("b", b"p1")


def test_a_sync_must_fit_the_group(group: Playbook) -> None:
    group >> sync("a") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)
    pair(group)
    group >> sync("x") << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> sync("a", generation=2) << told("a", ErrorCode.ILLEGAL_GENERATION)
    group >> sync("a", protocol="sticky") << told("a", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group >> sync("a", protocol_type="connect") << told("a", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group >> sync("a", protocol="range", protocol_type="consumer") << assigned("a", b"")


def test_a_heartbeat_must_fit_the_group(group: Playbook) -> None:
    group >> heartbeat("a") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)
    stable(group)
    group >> heartbeat("x") << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> heartbeat("a", generation=7) << told("a", ErrorCode.ILLEGAL_GENERATION)
    group >> heartbeat("a", instance="i") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> heartbeat("a") << told("a")


def test_a_member_that_is_silent_for_its_session_is_out(group: Playbook) -> None:
    stable(group, session=10)
    group.wait(6) >> heartbeat("a") << told("a")
    group.wait(6) >> heartbeat("b") << told("b", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> heartbeat("a") << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("a") << joined("a", generation=2, leader="a")


def test_a_commit_keeps_a_session_alive(group: Playbook) -> None:
    stable(group, session=10)
    group.wait(6) >> commit(1, who="a", generation=1) << told("a")
    group.wait(6) >> heartbeat("a") << told("a", ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_leader_that_dies_between_join_and_sync_does_not_stop_the_group(group: Playbook) -> None:
    pair(group, session=10, rebalance=60)
    group >> sync("b") << waits
    group.wait(10) << refused("b", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("b") << joined("b", generation=2, leader="b")


def test_a_member_that_never_syncs_is_out_after_the_rebalance_timeout(group: Playbook) -> None:
    pair(group, session=100, rebalance=20)
    group >> sync("a", {"a": b"p0"}) << assigned("a", b"p0")
    group.wait(20) >> heartbeat("a") << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> heartbeat("b") << told("b", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_leave_begins_a_round(group: Playbook) -> None:
    stable(group)
    group >> leave(("b", None)) << told("leaver", [ErrorCode.NONE])
    group >> heartbeat("a") << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("a") << joined("a", generation=2)
    group >> leave(("b", None)) << told("leaver", [ErrorCode.UNKNOWN_MEMBER_ID])


def test_a_leave_ends_the_round_that_waited_for_that_member(group: Playbook) -> None:
    stable(group)
    group >> rejoin("a") << waits
    group >> leave(("b", None)) << joined("a", generation=2) << told("leaver", [ErrorCode.NONE])


def test_a_member_that_leaves_while_it_waits_is_let_go(group: Playbook) -> None:
    pair(group)
    group >> sync("b") << waits
    group >> leave(("b", None)) << refused("b", ErrorCode.UNKNOWN_MEMBER_ID) << told("leaver", [ErrorCode.NONE])


def test_a_leave_of_an_unknown_group_is_refused(group: Playbook) -> None:
    group >> leave(("b", None)) << told("leaver", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_pending_member_may_leave(group: Playbook) -> None:
    group >> join("a", id_first=True) << refused("a", ErrorCode.MEMBER_ID_REQUIRED)
    group >> leave(("a", None)) << told("leaver", [ErrorCode.NONE])
    group >> rejoin("a") << told("a", ErrorCode.UNKNOWN_MEMBER_ID)


def test_an_assignment_that_cannot_be_written_reaches_nobody(group: Playbook) -> None:
    pair(group)
    group >> sync("b") << waits
    group.disk_fails = True
    group >> sync("a", {"a": b"p0", "b": b"p1"})
    group << told("a", ErrorCode.COORDINATOR_NOT_AVAILABLE) << told("b", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.disk_fails = False
    group >> heartbeat("b") << told("b", ErrorCode.REBALANCE_IN_PROGRESS)
    group >> rejoin("a") >> rejoin("b") << joined("a", generation=2) << joined("b", generation=2)


def test_a_stable_group_survives_a_restart_with_its_assignment(group: Playbook) -> None:
    stable(group, session=10)
    group.wait(9).restart()
    group.wait(9)
    group >> heartbeat("a") << told("a")
    group >> sync("b") << assigned("b", b"p1")
    group.wait(9.5) >> heartbeat("b") << told("b", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_rebalance_in_progress_is_forgotten_by_a_restart(group: Playbook) -> None:
    stable(group)
    group >> join("c") << waits
    group.restart()
    group >> heartbeat("a") << told("a")
    group >> rejoin("c") << told("c", ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_group_that_was_emptied_is_empty_after_a_restart(group: Playbook) -> None:
    stable(group)
    group >> leave(("a", None), ("b", None)) << told("leaver", [ErrorCode.NONE, ErrorCode.NONE])
    group.restart()
    found = group.classic()
    assert (found.state, found.generation, found.protocol_type) == (State.EMPTY, 2, "consumer")


def test_an_hour_of_heartbeats_writes_nothing(group: Playbook) -> None:
    stable(group)
    written = len(group.log)
    for _ in range(1200):
        group.wait(3) >> heartbeat("a") << told("a")
        group >> heartbeat("b") << told("b")
    assert len(group.log) == written == 2
