"""ElectLeaders: every partition has the only leader it can have, so no election is needed.

Versions
    1    unclean elections; a top-level error
    2    flexible
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED_OR_UNCLEAN = (0, 1)


@serves(ElectLeadersRequest, versions="0-2")
def elect_leaders(ctx: Context, req: ElectLeadersRequest) -> Steps[ElectLeadersResponse]:
    known_type = req.election_type in _PREFERRED_OR_UNCLEAN
    if req.topic_partitions is None:
        # Kafka lists only partitions that needed an election, under every topic.
        results = [ReplicaElectionResult(topic=topic.name, partition_result=[]) for topic in ctx.broker.topics]
    else:
        results = []
        for asked in req.topic_partitions:
            results.append(ReplicaElectionResult(topic=asked.topic, partition_result=[]))
            yield units(len(asked.topic))
            for index in asked.partitions:
                yield 1
                results[-1].partition_result.append(
                    _elect(ctx, asked.topic, index) if known_type else _unknown_type(index, req.election_type)
                )
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if known_type else ErrorCode.INVALID_REQUEST, replica_election_results=results
    )


def _elect(ctx: Context, name: str, index: int) -> PartitionResult:
    topic = ctx.broker.topics.get(name)
    code, text = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    if topic is None:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < topic.partition_count:
        code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return PartitionResult(partition_id=index, error_code=code, error_message=text)


def _unknown_type(index: int, number: int) -> PartitionResult:
    text = f"Unknown election type {number}"
    return PartitionResult(partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
