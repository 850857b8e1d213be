"""TxnOffsetCommit: offsets that become the group's when the transaction commits.

Versions
    2    leader epochs
    3    flexible; the member and its generation are checked (KIP-447)
    4    errors that an abort heals
    5    the group is added to the transaction by this request (KIP-890)
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.groups.coordinator import Commit, Committer
from broker_lite.coordinator.txns.coordinator import Producer
from broker_lite.errors import ErrorCode, InvalidGroupId
from broker_lite.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_THAT_KNOWS_LOADING = 2
_FIRST_ABORTABLE = 4
_FIRST_THAT_ADDS = 5


@serves(
    TxnOffsetCommitRequest,
    versions="0-5",
    refuse=lambda ctx, req, error: _all(req, ctx.code(error)),
    older={
        ErrorCode.TRANSACTION_ABORTABLE: (_FIRST_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        # Producers from before 2.0 fail for good when they hear of loading.
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (_FIRST_THAT_KNOWS_LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    },
)
async def txn_offset_commit(ctx: Context, req: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    broker = ctx.broker
    producer = Producer(req.producer_id, req.producer_epoch)
    known = [
        (topic.name, part)
        for topic in req.topics
        for part in topic.partitions
        if _exists(ctx, topic.name, part.partition_index)
    ]
    response = _all(req, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        return response
    if not req.group_id:
        raise InvalidGroupId("offsets belong to a group with a name")
    broker.transactions.check_offsets(
        req.transactional_id, producer, req.group_id, implicit=ctx.version >= _FIRST_THAT_ADDS
    )
    codes = broker.groups.commit_in_transaction(
        req.group_id,
        Committer(member_id=req.member_id, instance_id=req.group_instance_id, generation=req.generation_id),
        [
            Commit(
                topic=name,
                partition=part.partition_index,
                offset=part.committed_offset,
                leader_epoch=part.committed_leader_epoch,
                metadata=part.committed_metadata or "",
            )
            for name, part in known
        ],
        producer_id=req.producer_id,
        producer_epoch=req.producer_epoch,
    )
    by_place = {(name, part.partition_index): code for (name, part), code in zip(known, codes, strict=True)}
    for topic in response.topics:
        for answer in topic.partitions:
            answer.error_code = by_place.get((topic.name, answer.partition_index), answer.error_code)
    await broker.transactions.offsets_durable(req.transactional_id, req.group_id)
    return response


def _exists(ctx: Context, topic: str, index: int) -> bool:
    known = ctx.broker.topics.get(topic)
    return known is not None and 0 <= index < known.partition_count


def _all(req: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in req.topics
        ]
    )
