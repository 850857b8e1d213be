"""AlterPartitionReassignments: move partitions to other brokers. There is one, and they are there already.

Versions
    1    the number of copies may be fixed
"""

from __future__ import annotations

from broker_lite.apis.k19_create_topics import check_assignment
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import BrokerError, ErrorCode, UnknownTopicOrPartition
from broker_lite.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@serves(AlterPartitionReassignmentsRequest, versions="0-1")
def alter_partition_reassignments(
    ctx: Context, req: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse]:
    responses: list[ReassignableTopicResponse] = []
    for topic in req.topics:
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=[]))
        yield units(len(topic.name))
        for asked in topic.partitions:
            yield 1
            responses[-1].partitions.append(_move(ctx, topic.name, asked))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=req.allow_replication_factor_change, error_message=None, responses=responses
    )


def _move(ctx: Context, name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
    try:
        topic = ctx.broker.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
        if not 0 <= asked.partition_index < topic.partition_count:
            raise UnknownTopicOrPartition(f"Unable to find partition {name}:{asked.partition_index}.")
        if asked.replicas is None:
            result.error_code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        else:
            check_assignment(ctx.broker.node_id, asked.replicas)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
