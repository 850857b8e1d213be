from __future__ import annotations

import pytest

from broker_lite.coordinator.decision import Decision
from broker_lite.coordinator.groups.offsets import NOTHING
from broker_lite.coordinator.groups.settings import DAYS, GroupSettings
from broker_lite.errors import ErrorCode, GroupIdNotFound, NonEmptyGroup, UnstableOffsetCommit
from tests.coordinator.playbook import GROUP, Playbook, assigned, commit, join, joined, leave, sync, told, waits


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def one_reader(group: Playbook, topic: str = "t") -> Playbook:
    group >> join("a", protocols=(("range", subscription(topic)),), session=1800)
    group.wait(0.2) << joined("a")
    return group >> sync("a", {"a": b"p0"}) << assigned("a", b"p0")


def expire(group: Playbook, now_ms: int) -> None:
    for name in list(group.groups.groups):
        group.carry_out(Decision(None, group.groups.expire_offsets(name, now_ms=now_ms)))


def test_a_group_that_never_was_has_no_offset_and_no_error(group: Playbook) -> None:
    assert group.committed() is NOTHING
    assert (NOTHING.offset, NOTHING.leader_epoch, NOTHING.metadata) == (-1, -1, "")


def test_a_commit_without_generation_makes_a_simple_group(group: Playbook) -> None:
    group >> commit(42, metadata="note", epoch=3) << told("somebody")
    found = group.committed()
    assert (found.offset, found.leader_epoch, found.metadata) == (42, 3, "note")
    assert group.classic().is_simple


def test_commits_survive_a_restart(group: Playbook) -> None:
    group >> commit(42, metadata="note", epoch=3) << told("somebody")
    before = group.committed()
    group.restart()
    assert group.committed() == before


def test_a_commit_to_an_unknown_group_with_a_generation_is_refused(group: Playbook) -> None:
    group >> commit(1, who="a", generation=3) << told("a", ErrorCode.GROUP_ID_NOT_FOUND)
    group >> commit(1, who="a", generation=3, old=True) << told("a", ErrorCode.ILLEGAL_GENERATION)


def test_a_commit_must_fit_the_group(group: Playbook) -> None:
    one_reader(group)
    group >> commit(1, who="x", generation=1) << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> commit(1, who="a", generation=2) << told("a", ErrorCode.ILLEGAL_GENERATION)
    group >> commit(1) << told("somebody", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> commit(1, who="a", generation=1) << told("a")


def test_a_commit_between_join_and_sync_is_told_to_wait(group: Playbook) -> None:
    group >> join("a")
    group.wait(0.2) << joined("a")
    group >> commit(1, who="a", generation=1) << told("a", ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_commit_during_the_join_round_is_taken(group: Playbook) -> None:
    one_reader(group)
    group >> join("b", protocols=(("range", subscription("t")),)) << waits
    group >> commit(9, who="a", generation=1) << told("a")
    assert group.committed().offset == 9


def test_long_metadata_is_refused(group: Playbook) -> None:
    group >> commit(1, metadata="x" * 4097) << told("somebody", ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert group.committed() is NOTHING
    group >> commit(1, metadata="x" * 4096) << told("somebody")


def test_an_offset_of_a_transaction_is_pending_until_its_marker(group: Playbook) -> None:
    group >> commit(5) << told("somebody")
    group >> commit(8, producer=7) << told("somebody")
    assert group.committed().offset == 5
    with pytest.raises(UnstableOffsetCommit):
        group.committed(stable=True)
    group.groups.apply_marker(7, commit=True)
    assert group.committed(stable=True).offset == 8


def test_an_aborted_transaction_commits_nothing(group: Playbook) -> None:
    group >> commit(8, producer=7) << told("somebody")
    group.groups.apply_marker(7, commit=False)
    assert group.committed(stable=True) is NOTHING


def test_of_a_plain_and_a_transactional_commit_the_later_in_the_log_wins(group: Playbook) -> None:
    group >> commit(8, producer=7) << told("somebody")
    group >> commit(5) << told("somebody")
    group.groups.apply_marker(7, commit=True)
    assert group.committed().offset == 5


def test_pending_offsets_survive_a_restart(group: Playbook) -> None:
    group >> commit(8, producer=7) << told("somebody")
    group.restart()
    with pytest.raises(UnstableOffsetCommit):
        group.committed(stable=True)
    group.groups.apply_marker(7, commit=True)
    assert group.committed().offset == 8


def test_a_transaction_of_an_old_generation_is_refused(group: Playbook) -> None:
    group >> commit(1, producer=7, generation=4) << told("somebody", ErrorCode.ILLEGAL_GENERATION)
    one_reader(group)
    group >> commit(1, producer=7, who="a", generation=4) << told("a", ErrorCode.ILLEGAL_GENERATION)
    group >> commit(1, producer=7, who="x", generation=1) << told("x", ErrorCode.UNKNOWN_MEMBER_ID)
    group >> commit(1, producer=7) << told("somebody")


def test_offsets_of_a_simple_group_end_after_their_retention(group: Playbook) -> None:
    group >> commit(1) << told("somebody")
    group.now_ms += 4 * DAYS
    group >> commit(2, partition=1) << told("somebody")
    group.now_ms += 4 * DAYS
    expire(group, group.now_ms)
    assert group.committed(0) is NOTHING
    assert group.committed(1).offset == 2
    group.now_ms += 4 * DAYS
    expire(group, group.now_ms)
    with pytest.raises(GroupIdNotFound):
        group.groups.group(GROUP)


def test_offsets_of_a_group_age_from_the_day_it_became_empty(group: Playbook) -> None:
    one_reader(group)
    group >> commit(1, who="a", generation=1) << told("a")
    group.now_ms += 30 * DAYS
    expire(group, group.now_ms)
    assert group.committed().offset == 1, "a topic that is read keeps its offsets"
    group >> leave(("a", None)) << told("leaver", [ErrorCode.NONE])
    group.now_ms += 6 * DAYS
    expire(group, group.now_ms)
    assert group.committed().offset == 1
    group.now_ms += 2 * DAYS
    expire(group, group.now_ms)
    assert group.committed() is NOTHING
    assert list(group.groups) == []


def test_a_stable_group_forgets_topics_it_reads_no_more(group: Playbook) -> None:
    one_reader(group, "other")
    group >> commit(1, who="a", generation=1) << told("a")
    group.now_ms += 8 * DAYS
    expire(group, group.now_ms)
    assert group.committed() is NOTHING


def test_a_retention_named_by_an_old_client_holds(group: Playbook) -> None:
    group >> commit(1, retention_ms=1000) << told("somebody")
    group.restart()
    expire(group, group.now_ms + 999)
    assert group.committed().offset == 1
    expire(group, group.now_ms + 1000)
    assert group.committed() is NOTHING


def test_the_longest_retention_there_is_never_ends(group: Playbook) -> None:
    group >> commit(1, retention_ms=2**63 - 1) << told("somebody")
    group.restart()
    expire(group, group.now_ms + 365_000 * DAYS)
    assert group.committed().offset == 1


def test_an_open_transaction_keeps_offset_and_group(group: Playbook) -> None:
    group >> commit(1) << told("somebody")
    group >> commit(2, producer=7) << told("somebody")
    group.now_ms += 30 * DAYS
    expire(group, group.now_ms)
    assert group.committed().offset == 1


def test_offsets_of_a_deleted_topic_are_deleted(group: Playbook) -> None:
    group >> commit(1) << told("somebody")
    group >> commit(2, topic="kept") << told("somebody")
    group >> commit(3, producer=7) << told("somebody")
    group.carry_out(group.groups.on_topic_deleted("t", now=group.now, now_ms=group.now_ms))
    group.groups.apply_marker(7, commit=True)
    assert group.committed() is NOTHING
    assert group.committed(topic="kept").offset == 2


def test_a_group_is_deleted_with_its_offsets_when_nobody_is_in_it(group: Playbook) -> None:
    one_reader(group)
    group >> commit(1, who="a", generation=1) << told("a")
    with pytest.raises(NonEmptyGroup):
        group.groups.delete_group(GROUP)
    group >> leave(("a", None)) << told("leaver", [ErrorCode.NONE])
    group.carry_out(group.groups.delete_group(GROUP))
    group.restart()
    assert group.committed() is NOTHING
    with pytest.raises(GroupIdNotFound):
        group.groups.delete_group(GROUP)


def test_offsets_can_be_deleted_of_topics_that_are_not_read(group: Playbook) -> None:
    def delete(*places: tuple[str, int]) -> list[ErrorCode]:
        return group.carry_out(group.groups.delete_offsets(GROUP, places, now=group.now, now_ms=group.now_ms))

    with pytest.raises(GroupIdNotFound):
        delete(("t", 0))
    one_reader(group, "t")
    group >> commit(1, who="a", generation=1) << told("a")
    group >> commit(1, who="a", generation=1, topic="old") << told("a")
    assert delete(("t", 0), ("old", 0), ("never", 0)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE,
    ]  # fmt: skip
    assert group.committed().offset == 1
    assert group.committed(topic="old") is NOTHING


def test_offsets_of_a_group_that_is_not_of_consumers_are_kept_while_it_lives(group: Playbook) -> None:
    group >> join("a", protocol_type="connect")
    group.wait(0.2) << joined("a")
    with pytest.raises(NonEmptyGroup):
        group.groups.delete_offsets(GROUP, [("t", 0)], now=group.now, now_ms=group.now_ms)


def test_a_subscription_that_cannot_be_read_keeps_all_offsets() -> None:
    group = Playbook(GroupSettings(retention_ms=1000))
    group >> join("a", protocols=(("range", b"\x00\x00\x7f\xff\xff\xff"),), session=1800)
    group.wait(0.2) << joined("a")
    group >> sync("a", {"a": b"p0"}) << assigned("a", b"p0")
    group >> commit(1, who="a", generation=1) << told("a")
    group.now_ms += 5000
    expire(group, group.now_ms)
    assert group.committed().offset == 1
