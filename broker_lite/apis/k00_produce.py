"""Produce: append record batches, one per partition.

Versions
    0-2  advertised because librdkafka turns compression off without them; answered UNSUPPORTED_VERSION per partition
    3    batches of magic 2 only, transactional id
    5    log start offset in the answer
    7    zstd
    8    which records were refused, and why
    9    flexible
    10   current leader hints
    13   topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import NO_REPLY, Context, NoReply, serves
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidRequiredAcks,
    InvalidTopic,
    Malformed,
    UnsupportedVersion,
    refusal,
)
from broker_lite.ids import INTERNAL_TOPICS, Offset, TopicId
from broker_lite.partition.partition import Partition
from broker_lite.records.batch import HEADER_SIZE, TRANSACTIONAL
from broker_lite.records.check import BadRecords
from broker_lite.wire.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_FIRST_WITH_BATCHES = 3
_FIRST_BY_ID = 13
ADMIN_CLIENT = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics."""

_ATTRIBUTES = 22
"""Of a batch: the byte with the bits that matter."""
_PRODUCER = slice(43, 53)
"""Its producer's id and epoch."""

_Waiting = tuple[PartitionProduceResponse, Partition, Offset]


def _refuse_all(ctx: Context, req: ProduceRequest, error: BrokerError) -> ProduceResponse:
    if req.acks == 0:
        raise Malformed(f"produce with acks=0 failed with {error.code.name}: {error.message}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refused(data.index, error) for data in topic.partition_data],
            )
            for topic in req.topic_data
        ]
    )


@serves(ProduceRequest, versions="3-13", advertise="0-13", refuse=_refuse_all)
def produce(ctx: Context, req: ProduceRequest) -> ProduceResponse | NoReply | Awaitable[ProduceResponse]:
    waiting: list[_Waiting] = []
    refused = _refused_whole(req)
    answers = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _append(ctx, req, topic, data, waiting) if refused is None else _refused(data.index, refused)
                for data in topic.partition_data
            ],
        )
        for topic in req.topic_data
    ]
    if req.acks == 0:
        _close_on_error(answers)
        return NO_REPLY
    response = ProduceResponse(responses=answers)
    if waiting and req.acks == -1:
        return _answer_when_durable(ctx, response, waiting)
    return response


def _refused_whole(req: ProduceRequest) -> BrokerError | None:
    """What no single partition can be blamed for: whose transaction is this?"""
    producers = {
        bytes(data.records[_PRODUCER])
        for topic in req.topic_data
        for data in topic.partition_data
        if data.records is not None and len(data.records) >= HEADER_SIZE and data.records[_ATTRIBUTES] & TRANSACTIONAL
    }
    if not producers:
        return None
    if req.transactional_id is None:
        return refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch came without a transactional id"
        )
    if len(producers) > 1:
        return InvalidProducerIdMapping(f"batches of {len(producers)} producers are in one request")
    return None


def _append(
    ctx: Context, req: ProduceRequest, topic: TopicProduceData, data: PartitionProduceData, waiting: list[_Waiting]
) -> PartitionProduceResponse:
    broker = ctx.broker
    try:
        if ctx.version < _FIRST_WITH_BATCHES:
            raise UnsupportedVersion("message sets of magic 0 and 1 are not accepted, produce with version 3 or later")
        if ctx.version >= _FIRST_BY_ID:
            partition = broker.topics.partition_by_id(TopicId(topic.topic_id), data.index)
        else:
            partition = broker.topics.partition(topic.name, data.index)
        if req.acks not in (-1, 0, 1):
            raise InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {req.acks}")
        if partition.tp.topic in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
            raise InvalidTopic(f"{partition.tp.topic} is internal, clients cannot write to it")
        appended = partition.append(
            data.records,
            api_version=ctx.version,
            now_ms=broker.clock.now_ms(),
            verify_transaction=None
            if req.transactional_id is None
            else broker.transactions.verifier(req.transactional_id, partition, ctx.version),
        )
    except BrokerError as error:
        return _refused(data.index, error)
    if not appended.duplicate:
        broker.appended(partition)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start,
    )
    if broker.flusher.active:
        waiting.append((answer, partition, Offset(appended.last + 1)))
    return answer


def _refused(index: int, error: BrokerError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, log_start_offset=-1, error_message=error.message
    )
    if isinstance(error, BadRecords):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.record_errors
        ]
    return answer


def _close_on_error(answers: list[TopicProduceResponse]) -> None:
    """With acks=0 no answer can carry an error, so Kafka closes the connection to make the producer look again."""
    for topic in answers:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise Malformed(
                    f"produce with acks=0 failed with {ErrorCode(answer.error_code).name}: {answer.error_message}"
                )


async def _answer_when_durable(ctx: Context, response: ProduceResponse, waiting: list[_Waiting]) -> ProduceResponse:
    for answer, partition, upto in waiting:
        try:
            await ctx.broker.flusher.durable(partition, upto)
        except BrokerError as error:
            answer.error_code = error.code
            answer.error_message = error.message
            answer.base_offset = answer.log_start_offset = -1
    return response
