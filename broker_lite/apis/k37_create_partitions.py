"""CreatePartitions: give topics more partitions.

Versions
    2    flexible
    3    who has made too many partitions is refused
"""

from __future__ import annotations

from collections import Counter

from broker_lite.apis.k19_create_topics import MOST_PARTITIONS_A_REQUEST, check_assignment
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.watch import mutate
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
    refusal,
)
from broker_lite.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_FIRST_WITH_STRICT_QUOTA = 3


@serves(CreatePartitionsRequest, versions="0-3")
def create_partitions(ctx: Context, req: CreatePartitionsRequest) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in req.topics)
    once = {topic.name: topic for topic in req.topics}
    return CreatePartitionsResponse(results=[_grow(ctx, req, topic, times[name]) for name, topic in once.items()])


def _grow(
    ctx: Context, req: CreatePartitionsRequest, asked: CreatePartitionsTopic, times: int
) -> CreatePartitionsTopicResult:
    try:
        if req.timeout_ms <= 0:
            raise refusal(ErrorCode.REQUEST_TIMED_OUT, "the request's time was over before it began")
        if times > 1:
            raise InvalidRequest("Duplicate topic name.")
        topic = ctx.broker.topics.get(asked.name)
        if topic is None:  # Kafka has no text for this
            return CreatePartitionsTopicResult(
                name=asked.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
            )
        _check(ctx, asked, topic.partition_count)
        if not req.validate_only:
            mutate(ctx, asked.count - topic.partition_count, strict_from=_FIRST_WITH_STRICT_QUOTA)
            ctx.broker.topics.add_partitions(topic, asked.count)
    except BrokerError as error:
        return CreatePartitionsTopicResult(name=asked.name, error_code=error.code, error_message=error.message)
    return CreatePartitionsTopicResult(name=asked.name)


def _check(ctx: Context, asked: CreatePartitionsTopic, now: int) -> None:
    if asked.count == now:
        raise InvalidPartitions(f"Topic already has {now} partition(s).")
    if asked.count < now:
        raise InvalidPartitions(
            f"The topic {asked.name} currently has {now} partition(s); {asked.count} would not be an increase."
        )
    more = asked.count - now
    if more > MOST_PARTITIONS_A_REQUEST:
        raise PolicyViolation(f"{more} partitions in one request are more than {MOST_PARTITIONS_A_REQUEST}")
    if asked.assignments is not None:
        if len(asked.assignments) != more:
            raise InvalidReplicaAssignment(
                f"Attempted to add {more} additional partition(s), "
                f"but only {len(asked.assignments)} assignment(s) were specified."
            )
        for assignment in asked.assignments:
            check_assignment(ctx.broker.node_id, assignment.broker_ids)
