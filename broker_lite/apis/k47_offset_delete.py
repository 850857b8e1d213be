"""OffsetDelete: a group forgets some of its offsets, of topics that nobody in it reads.

Versions
    0
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def _not_deleted(ctx: Context, req: OffsetDeleteRequest, error: BrokerError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=ctx.code(error), topics=[])


@serves(OffsetDeleteRequest, versions="0", refuse=_not_deleted)
def offset_delete(ctx: Context, req: OffsetDeleteRequest) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    response = OffsetDeleteResponse(topics=[])
    places: list[tuple[str, int]] = []
    wanted: list[OffsetDeleteResponsePartition] = []
    for asked in req.topics:
        topic = ctx.broker.topics.get(asked.name)
        answers: list[OffsetDeleteResponsePartition] = []
        for line in asked.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=line.partition_index)
            answers.append(answer)
            if topic is None or not 0 <= line.partition_index < topic.partition_count:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                places.append((asked.name, line.partition_index))
                wanted.append(answer)
        response.topics.append(OffsetDeleteResponseTopic(name=asked.name, partitions=answers))
    for answer, code in zip(wanted, ctx.broker.groups.delete_offsets(req.group_id, places)):
        answer.error_code = code
    return ctx.broker.groups.when_durable(req.group_id, response)
