"""DeleteTopics: remove topics with all their records.

Versions
    1    throttle time
    4    flexible
    5    error messages; who has removed too many partitions is refused
    6    topics by id
"""

from __future__ import annotations

from collections import Counter

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.watch import mutate
from broker_lite.broker.topics import Topic
from broker_lite.config import broker as keys
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    InvalidRequest,
    UnknownTopicId,
    UnknownTopicOrPartition,
    refusal,
)
from broker_lite.ids import NO_TOPIC_ID, TopicId
from broker_lite.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_FIRST_BY_ID = 6
_FIRST_WITH_STRICT_QUOTA = 5
_FIRST_WITH_DISABLED = 3


@serves(DeleteTopicsRequest, versions="0-6")
def delete_topics(ctx: Context, req: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = req.topics
    if ctx.version < _FIRST_BY_ID:
        asked = [DeleteTopicState(name=name, topic_id=NO_TOPIC_ID) for name in req.topic_names]
    if not ctx.broker.settings.get(keys.DELETE_TOPIC_ENABLE):
        disabled = (
            ErrorCode.TOPIC_DELETION_DISABLED if ctx.version >= _FIRST_WITH_DISABLED else ErrorCode.INVALID_REQUEST
        )
        error = refusal(disabled, "topic deletion is disabled by delete.topic.enable")
        return DeleteTopicsResponse(responses=[_refused(state, error) for state in asked])
    times = Counter((state.name, state.topic_id) for state in asked)
    once = {(state.name, state.topic_id): state for state in asked}
    results: list[DeletableTopicResult] = []
    found: dict[str, Topic] = {}
    for key, state in once.items():
        try:
            topic = _check(ctx, req, state, times[key])
        except BrokerError as error:
            results.append(_refused(state, error))
        else:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
            found[topic.name] = topic
    if found:
        try:
            ctx.broker.delete_topics(list(found.values()))
        except BrokerError as error:
            results = [one if one.error_code else _refused(one, error) for one in results]
    return DeleteTopicsResponse(responses=results)


def _check(ctx: Context, req: DeleteTopicsRequest, state: DeleteTopicState, times: int) -> Topic:
    if req.timeout_ms <= 0:
        raise refusal(ErrorCode.REQUEST_TIMED_OUT, "the request's time was over before it began")
    topic = _find(ctx, state)
    if times > 1:
        raise InvalidRequest("Duplicate topic name." if state.name is not None else "Duplicate topic id.")
    mutate(ctx, topic.partition_count, strict_from=_FIRST_WITH_STRICT_QUOTA)
    return topic


def _find(ctx: Context, state: DeleteTopicState) -> Topic:
    if state.name is not None and state.topic_id != NO_TOPIC_ID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if state.name is None:
        if state.topic_id == NO_TOPIC_ID:
            raise InvalidRequest("Neither topic name nor id were specified.")
        by_id = ctx.broker.topics.by_id(TopicId(state.topic_id))
        if by_id is None:
            raise UnknownTopicId("This server does not host this topic ID.")
        return by_id
    by_name = ctx.broker.topics.get(state.name)
    if by_name is None:
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")
    return by_name


def _refused(state: DeleteTopicState | DeletableTopicResult, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
    )
