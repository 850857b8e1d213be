"""OffsetCommit: who may commit, and the records of what is committed."""

from __future__ import annotations

from collections.abc import Iterable

from broker_lite.coordinator.decision import Decision, Record
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.offsets import Committed, commit_record
from broker_lite.errors import ErrorCode, GroupIdNotFound, IllegalGeneration
from broker_lite.ids import NO_TOPIC_ID
from broker_lite.shapes import dataclass

_ACCEPTED = ErrorCode.NONE


@dataclass(slots=True)
class Commit:
    """One line of an OffsetCommit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: bytes = NO_TOPIC_ID


@dataclass(slots=True)
class Committer:
    """Who commits: a member of a generation, or nobody in particular."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1


def check(
    group_id: str,
    group: ClassicGroup | ConsumerGroup | None,
    who: Committer,
    commits: Iterable[Commit],
    *,
    transactional: bool,
    knows_epochs: bool,
) -> None:
    """`knows_epochs`: from version 9 on a client knows consumer groups and GROUP_ID_NOT_FOUND."""
    if isinstance(group, ConsumerGroup):
        group.check_commit(
            who.member_id,
            who.instance_id,
            who.generation,
            transactional=transactional,
            knows_epochs=knows_epochs,
            places=[(one.topic_id, one.partition) for one in commits],
        )
    elif group is not None:
        group.check_commit(who.member_id, who.instance_id, who.generation, transactional=transactional)
    elif who.generation >= 0:
        raise (GroupIdNotFound if knows_epochs else IllegalGeneration)(f"there is no group {group_id}")


def decide(
    group_id: str, commits: Iterable[Commit], now_ms: int, expire_ms: int, metadata_max: int
) -> Decision[list[ErrorCode]]:
    """A code for each commit, and a record for each that is accepted."""
    codes: list[ErrorCode] = []
    records: list[Record] = []
    for one in commits:
        metadata = one.metadata or ""
        if len(metadata) > metadata_max:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        committed = Committed(one.offset, one.leader_epoch, metadata, now_ms, expire_ms, one.topic_id)
        records.append(commit_record(group_id, one.topic, one.partition, committed))
        codes.append(_ACCEPTED)
    return Decision(codes, records)
