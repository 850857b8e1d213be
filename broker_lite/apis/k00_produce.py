"""Produce: append record batches, one per partition.

Versions
    0-1  message sets of magic 0, each stored as one batch
    2    message sets of magic 1; the append time in the answer
    3    batches of magic 2 only, transactional id
    5    log start offset in the answer
    7    zstd
    8    which records were refused, and why
    9    flexible
    10   current leader hints
    13   topics by id

A batch that has to be read record by record or written anew (old messages, a topic with its own codec, a compacted
one) is checked in a thread if it is large, and appended when that is done.  The order in which a producer sent stays:
its connection takes no further request before this one is answered.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

import anyio

from broker_lite.apis.registry import NO_REPLY, Context, NoReply, serves
from broker_lite.broker.threads import in_a_thread
from broker_lite.clock import Clock, alarm
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidRequiredAcks,
    InvalidTopic,
    Malformed,
    UnknownTopicOrPartition,
    refusal,
)
from broker_lite.ids import INTERNAL_TOPICS, Offset, TopicId
from broker_lite.partition.answers import Appended
from broker_lite.partition.partition import Partition
from broker_lite.records.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, MAGIC, TRANSACTIONAL
from broker_lite.records.check import AppendRules, BadRecords, Checked
from broker_lite.records.compression import Codec
from broker_lite.records.legacy import MAGIC_AT
from broker_lite.records.patience import go_on, unless
from broker_lite.records.upconvert import check_any
from broker_lite.shapes import quick
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
_peek = struct.Struct(">16xb4xh12xq14xi").unpack_from
"""Of a batch: magic, attributes, highest timestamp and count."""
_OLD_ATTRIBUTES = 17
"""Of a message of magic 0 or 1."""
_PRODUCER = slice(43, 53)
"""Its producer's id and epoch."""

_LARGE = 16 << 10
_LARGE_COMPRESSED = 256
_MANY = 500
"""Bytes and records from which on a check that reads every record is worth a thread. Zstd makes 32 MiB of a kilobyte
and always is, gzip 200 KB of 256 bytes."""
_LONGEST_CHECK = 30.0
"""Seconds after which whoever sent such a batch is told that it took too long."""

_response = quick(ProduceResponse)
_topic = quick(TopicProduceResponse)
_line = quick(PartitionProduceResponse)

_Waiting = tuple[PartitionProduceResponse, Partition, Offset]
_Later = tuple[PartitionProduceResponse, Partition, memoryview]


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


@serves(ProduceRequest, versions="0-13", refuse=_refuse_all)
def produce(ctx: Context, req: ProduceRequest) -> ProduceResponse | NoReply | Awaitable[ProduceResponse | NoReply]:
    waiting: list[_Waiting] = []
    later: list[_Later] = []
    answers: list[TopicProduceResponse] = []
    refused = _refused_whole(req)
    for topic in req.topic_data:
        lines = [
            _append(ctx, req, topic, data, waiting, later) if refused is None else _refused(data.index, refused)
            for data in topic.partition_data
        ]
        answers.append(_topic(name=topic.name, topic_id=topic.topic_id, partition_responses=lines))
    response = _response(responses=answers)
    if later:
        return _append_later(ctx, req, response, waiting, later)
    if req.acks == 0:
        _close_on_error(answers)
        return NO_REPLY
    if waiting and req.acks == -1:
        return _answer_when_durable(ctx, response, waiting)
    return response


def _refused_whole(req: ProduceRequest) -> BrokerError | None:
    """What no single partition can be blamed for: whose transaction is this?"""
    producers: set[bytes] = set()
    for topic in req.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[_ATTRIBUTES] & TRANSACTIONAL
                and records[MAGIC_AT] == MAGIC
            ):
                producers.add(bytes(records[_PRODUCER]))
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
    ctx: Context,
    req: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    waiting: list[_Waiting],
    later: list[_Later],
) -> PartitionProduceResponse:
    broker = ctx.broker
    try:
        if ctx.version >= _FIRST_BY_ID:
            partition = broker.topics.partition_by_id(TopicId(topic.topic_id), data.index)
        else:
            partition = broker.topics.partition(topic.name, data.index)
        if req.acks not in (-1, 0, 1):
            raise InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {req.acks}")
        if partition.tp.topic in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT:
            raise InvalidTopic(f"{partition.tp.topic} is internal, clients cannot write to it")
        if data.records is not None and _takes_long(data.records, partition.settings.rules, broker.clock):
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            later.append((answer, partition, data.records))
            return answer
        if ctx.version < _FIRST_WITH_BATCHES:
            return _append_old(ctx, data, partition, waiting)
        appended = partition.append(
            data.records,
            api_version=ctx.version,
            now_ms=broker.clock.now_ms(),
            verify_transaction=None
            if req.transactional_id is None
            else broker.transactions.verifier(req.transactional_id, partition, ctx.version),
        )
    except BadRecords as error:
        return _refused(data.index, error.of(partition.tp))
    except BrokerError as error:
        return _refused(data.index, error)
    answer = _line(
        index=data.index,
        base_offset=appended.base,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start,
    )
    _tell(ctx, answer, partition, appended, waiting)
    return answer


def _tell(
    ctx: Context,
    answer: PartitionProduceResponse,
    partition: Partition,
    appended: Appended,
    waiting: list[_Waiting],
) -> None:
    broker = ctx.broker
    if not appended.duplicate:
        broker.appended(partition)
    if broker.flusher.active:
        waiting.append((answer, partition, appended.end))


def _append_old(
    ctx: Context, data: PartitionProduceData, partition: Partition, waiting: list[_Waiting]
) -> PartitionProduceResponse:
    """A small message set."""
    now_ms = ctx.broker.clock.now_ms()
    checked = check_any(data.records, api_version=ctx.version, rules=partition.settings.rules, now_ms=now_ms)
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    if checked is not None:
        _append_checked(ctx, None, answer, partition, checked, waiting)
    return answer


def _append_checked(
    ctx: Context,
    transactional_id: str | None,
    answer: PartitionProduceResponse,
    partition: Partition,
    checked: Checked,
    waiting: list[_Waiting],
) -> None:
    broker = ctx.broker
    appended = partition.append_checked(
        checked,
        now_ms=broker.clock.now_ms(),
        verify_transaction=None
        if transactional_id is None
        else broker.transactions.verifier(transactional_id, partition, ctx.version),
    )
    answer.base_offset = appended.base
    answer.log_append_time_ms = appended.log_append_time
    answer.log_start_offset = appended.log_start
    _tell(ctx, answer, partition, appended, waiting)


def _takes_long(records: memoryview, rules: AppendRules, clock: Clock) -> bool:
    """Whether every record will be read, and there may be many of them."""
    size = len(records)
    if size < HEADER_SIZE:
        return False
    if size <= _LARGE and not records[_ATTRIBUTES] & CODEC_MASK and records[MAGIC_AT] == MAGIC:
        return False  # as nearly all small ones
    magic, attributes, newest, count = _peek(records)
    if magic < MAGIC:
        codec, count = records[_OLD_ATTRIBUTES] & CODEC_MASK, 0
    elif (
        rules.may_be_slow
        or attributes & LOG_APPEND_TIME
        or (newest - clock.now_ms() > rules.after_max_ms and not rules.log_append_time)
    ):
        codec = attributes & CODEC_MASK
    else:
        return False
    if not codec:
        return size > _LARGE
    return size > _LARGE_COMPRESSED or codec == Codec.ZSTD or count > _MANY


async def _append_later(
    ctx: Context, req: ProduceRequest, response: ProduceResponse, waiting: list[_Waiting], later: list[_Later]
) -> ProduceResponse | NoReply:
    """Check what is large in a thread, then append it. A client that hangs up meanwhile has still sent it."""
    topics, now_ms = ctx.broker.topics, ctx.broker.clock.now_ms()
    with anyio.CancelScope(shield=True):
        work = [(records, partition.settings.rules) for _, partition, records in later]
        checks: list[Checked | BrokerError | None] = [_too_long() for _ in work]
        with anyio.move_on_after(_LONGEST_CHECK):
            late = alarm(_LONGEST_CHECK)
            checks = await in_a_thread(
                _check_all, work, ctx.version, now_ms, late, limiter=ctx.broker.inflating, abandon_on_cancel=True
            )
        for (answer, partition, _), checked in zip(later, checks, strict=True):
            try:
                if isinstance(checked, BrokerError):
                    raise checked
                if topics.partition(*partition.tp) is not partition:
                    raise UnknownTopicOrPartition(f"{partition.tp} was deleted")
                if checked is not None:
                    _append_checked(ctx, req.transactional_id, answer, partition, checked, waiting)
            except BadRecords as error:
                _refuse(answer, error.of(partition.tp))
            except BrokerError as error:
                _refuse(answer, error)
    if req.acks == 0:
        _close_on_error(response.responses)
        return NO_REPLY
    if waiting and req.acks == -1:
        return await _answer_when_durable(ctx, response, waiting)
    return response


def _too_long() -> BrokerError:
    return refusal(ErrorCode.REQUEST_TIMED_OUT, f"the batch could not be checked within {_LONGEST_CHECK:g} s")


def _check_all(
    work: list[tuple[memoryview, AppendRules]], version: int, now_ms: int, late: Callable[[], bool]
) -> list[Checked | BrokerError | None]:
    """In a thread: the rules and the bytes are all that is looked at. It ends by itself soon after it is late, for
    then nobody waits for it and others get its place."""
    results: list[Checked | BrokerError | None] = []
    with unless(late):
        for records, rules in work:
            try:
                go_on()
                results.append(check_any(records, api_version=version, rules=rules, now_ms=now_ms))
            except BrokerError as error:
                results.append(error)
    return results


def _refused(index: int, error: BrokerError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=index, base_offset=-1)
    _refuse(answer, error)
    return answer


def _refuse(answer: PartitionProduceResponse, error: BrokerError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = answer.log_start_offset = -1
    if isinstance(error, BadRecords):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.record_errors
        ]


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
            _refuse(answer, error)
    return response
