"""DescribeQuorum: who keeps the metadata. A quorum of one, whose log is our journal.

Versions
    1    when each voter was last heard of
    2    the voters' addresses
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import ErrorCode
from broker_lite.ids import parse_topic_id
from broker_lite.wire.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResult,
    ReplicaState,
    TopicDataResult,
)

_TOPIC = "__cluster_metadata"
_EPOCH = 1
_NO_ID = "A" * 22
"""Voters are known by their folders from kraft.version 1 on (KIP-853)."""


@serves(DescribeQuorumRequest, versions="0-2")
def describe_quorum(ctx: Context, req: DescribeQuorumRequest) -> Steps[DescribeQuorumResponse]:
    ours = [[topic.topic_name, *(part.partition_index for part in topic.partitions)] for topic in req.topics]
    if ours != [[_TOPIC, 0]]:
        topics: list[TopicDataResult] = []
        for topic in req.topics:
            topics.append(TopicDataResult(topic_name=topic.topic_name, partitions=[]))
            yield units(len(topic.topic_name))
            for part in topic.partitions:
                yield 1
                topics[-1].partitions.append(_unknown(part.partition_index))
        return DescribeQuorumResponse(topics=topics)
    node, end, now = ctx.advertised(), ctx.broker.journal_end, ctx.broker.clock.now_ms()
    directory = ctx.broker.folder.id if ctx.broker.features_on.level("kraft.version") else _NO_ID
    voter = ReplicaState(
        replica_id=node.id,
        replica_directory_id=parse_topic_id(directory),
        log_end_offset=end,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    partition = PartitionDataResult(
        partition_index=0,
        leader_id=node.id,
        leader_epoch=_EPOCH,
        high_watermark=end,
        current_voters=[voter],
        observers=[],
    )
    listener = Listener(name=ctx.connection.listener, host=node.host, port=node.port)
    return DescribeQuorumResponse(
        topics=[TopicDataResult(topic_name=_TOPIC, partitions=[partition])],
        nodes=[Node(node_id=node.id, listeners=[listener])],
    )


def _unknown(index: int) -> PartitionDataResult:
    return PartitionDataResult(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )
