"""OffsetCommit: a group remembers how far it has read.

Versions
    0      no member, no generation
    1      a commit timestamp, which is ignored
    2-4    a retention time of the client's own
    6      the leader epoch of the last record read
    7      static members
    8      flexible
    9      consumer groups; an unknown group is GROUP_ID_NOT_FOUND where older ones say ILLEGAL_GENERATION
    10     topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.groups.committing import Commit, Committer
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import TopicId
from broker_lite.shapes import quick
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FIRST_WITH_EPOCHS = 9
_FIRST_BY_ID = 10

_response = quick(OffsetCommitResponse)
_topic = quick(OffsetCommitResponseTopic)
_line = quick(OffsetCommitResponsePartition)


def _not_committed(ctx: Context, req: OffsetCommitRequest, error: BrokerError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=ctx.code(error))
                    for partition in topic.partitions
                ],
            )
            for topic in req.topics
        ]
    )


@serves(OffsetCommitRequest, versions="0-10", refuse=_not_committed)
def offset_commit(ctx: Context, req: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    commits: list[Commit] = []
    wanted: list[OffsetCommitResponsePartition] = []
    topics: list[OffsetCommitResponseTopic] = []
    catalogue, by_id = ctx.broker.topics, ctx.version >= _FIRST_BY_ID
    for asked in req.topics:
        topic = catalogue.by_id(TopicId(asked.topic_id)) if by_id else catalogue.get(asked.name)
        answers: list[OffsetCommitResponsePartition] = []
        for line in asked.partitions:
            index = line.partition_index
            answer = _line(partition_index=index)
            answers.append(answer)
            if topic is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not 0 <= index < topic.partition_count:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offset, epoch, note = line.committed_offset, line.committed_leader_epoch, line.committed_metadata
                commits.append(Commit(topic.name, index, offset, epoch, note, topic.id))
                wanted.append(answer)
        topics.append(_topic(name=asked.name, topic_id=asked.topic_id, partitions=answers))
    response = _response(topics=topics)
    if not commits:
        return response
    groups = ctx.broker.groups
    try:
        codes = groups.commit(
            req.group_id,
            Committer(req.member_id, req.group_instance_id, req.generation_id_or_member_epoch),
            commits,
            retention_ms=req.retention_time_ms,
            knows_epochs=ctx.version >= _FIRST_WITH_EPOCHS,
        )
    except BrokerError as refused:
        codes = [ctx.code(refused)] * len(wanted)
    for answer, code in zip(wanted, codes):
        answer.error_code = code
    return groups.when_durable(req.group_id, response)
