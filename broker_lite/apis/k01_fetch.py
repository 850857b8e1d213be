"""Fetch: raw batches from partitions, waiting for them if asked to.

Versions
    0-1  messages of magic 0, converted from batches; a first message beyond the limit comes cut off
    2-3  messages of magic 1; from 3 on a limit for the whole answer, and the first message always whole
    4    batches of magic 2; isolation level, aborted transactions
    5    log start offset
    7    fetch sessions (KIP-227)
    9    leader epoch of the reader is checked
    10   zstd: topics that compress with it are refused to older versions
    12   flexible; a diverging log is told (KIP-595)
    13   topics by id
    15   replicas name themselves in a tagged field
    16   node endpoints
    17   replicas name their folder in a tagged field
    18   replicas name their high watermark in a tagged field
Not done
    requests of replicas: there are no followers
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from broker_lite.apis.registry import Context, serves
from broker_lite.broker.fetch_sessions import Plan, Want, WantKey
from broker_lite.broker.fetching import Appetite, Fetch, Fetched, release
from broker_lite.broker.old_fetching import OldFetch, as_batches
from broker_lite.config import broker as keys
from broker_lite.config.topic import COMPRESSION_TYPE
from broker_lite.errors import ErrorCode
from broker_lite.ids import TopicId
from broker_lite.records.compression import Codec
from broker_lite.wire.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_READ_COMMITTED = 1
_NONE_DENIED: Sequence[Fetched] = ()
_NOT_THERE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
_FIRST_BY_ID = 13
_FIRST_WITH_STORAGE_ERROR = 6
_FIRST_WITH_BATCHES = 4
_FIRST_WITH_ZSTD = 10


@serves(FetchRequest, versions="0-18")
def fetch(
    ctx: Context, req: FetchRequest, may_read: Callable[[str], bool] | None = None
) -> FetchResponse | Awaitable[FetchResponse]:
    """With ACLs `may_read` is asked about every topic, those that the session remembers included: what is not allowed
    is neither read nor waited for, or the time of the answer would tell when somebody writes there."""
    broker = ctx.broker
    by_id = ctx.version >= _FIRST_BY_ID
    plan = broker.fetch_sessions.plan(
        req.session_id,
        req.session_epoch,
        _wants(req),
        _forgotten(req),
        by_topic_id=by_id,
        now=broker.clock.monotonic(),
    )
    max_bytes = min(req.max_bytes, broker.settings.get(keys.FETCH_MAX_BYTES))
    appetite = Appetite(
        min_bytes=min(req.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_wait_ms=req.max_wait_ms,
        committed=req.isolation_level == _READ_COMMITTED,
    )
    wants, denied = plan.wants, _NONE_DENIED
    if may_read is not None:
        denied = [_denied(want) for want in wants if not _is_readable(ctx, want, may_read)]
        if denied:
            refused = {id(one.want) for one in denied}
            wants = [want for want in wants if id(want) not in refused]
    if ctx.version < _FIRST_WITH_BATCHES:
        return _wait(ctx, plan, OldFetch(broker, wants, appetite, version=ctx.version).run(), denied)
    results = Fetch(broker, wants, appetite).run()
    if isinstance(results, list):
        if any(fetched.old for fetched in results):
            return _wait(ctx, plan, as_batches(ctx.broker, results), denied)
        return _response(ctx, plan, [*results, *denied] if denied else results)
    return _wait_for_batches(ctx, plan, results, denied)


async def _wait(
    ctx: Context, plan: Plan, results: Awaitable[list[Fetched]], denied: Sequence[Fetched]
) -> FetchResponse:
    return _response(ctx, plan, [*await results, *denied])


async def _wait_for_batches(
    ctx: Context, plan: Plan, results: Awaitable[list[Fetched]], denied: Sequence[Fetched]
) -> FetchResponse:
    return _response(ctx, plan, [*await as_batches(ctx.broker, await results), *denied])


def _is_readable(ctx: Context, want: Want, may_read: Callable[[str], bool]) -> bool:
    """An id that nobody has is told so."""
    if want.topic:
        return may_read(want.topic)
    known = ctx.broker.topics.by_id(want.topic_id)
    return known is None or may_read(known.name)


def _denied(want: Want) -> Fetched:
    return Fetched(want, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _wants(req: FetchRequest) -> list[Want]:
    return [
        Want(
            topic=topic.topic,
            topic_id=TopicId(topic.topic_id),
            partition=asked.partition,
            offset=asked.fetch_offset,
            max_bytes=asked.partition_max_bytes,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        for topic in req.topics
        for asked in topic.partitions
    ]


def _forgotten(req: FetchRequest) -> list[WantKey]:
    return [
        (topic.topic, TopicId(topic.topic_id), partition)
        for topic in req.forgotten_topics_data
        for partition in topic.partitions
    ]


def _response(ctx: Context, plan: Plan, results: list[Fetched]) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    if ctx.version < _FIRST_WITH_ZSTD:
        _refuse_zstd(ctx, results)
    for fetched in results:
        want = fetched.want
        news = plan.is_news(
            want,
            failed=fetched.error != ErrorCode.NONE,
            has_records=bool(fetched.records),
            high=fetched.high,
            start=fetched.start,
            diverging=fetched.diverging is not None,
        )
        if news:
            if not topics or topics[-1].topic != want.topic or topics[-1].topic_id != want.topic_id:
                topics.append(FetchableTopicResponse(topic=want.topic, topic_id=want.topic_id, partitions=[]))
            topics[-1].partitions.append(_partition(ctx, fetched))
    return FetchResponse(session_id=plan.session_id, responses=topics)


def _refuse_zstd(ctx: Context, results: list[Fetched]) -> None:
    """Only what the topic itself compresses. What a producer compressed is sent as it is, as in Kafka."""
    for fetched in results:
        topic = ctx.broker.topics.get(fetched.want.topic)
        if fetched.records and topic is not None and topic.settings.get(COMPRESSION_TYPE) == Codec.ZSTD.name.lower():
            release([fetched])
            fetched.records = None
            fetched.error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def _partition(ctx: Context, fetched: Fetched) -> PartitionData:
    error = fetched.error
    if error == ErrorCode.KAFKA_STORAGE_ERROR and ctx.version < _FIRST_WITH_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = PartitionData(
        partition_index=fetched.want.partition,
        error_code=error,
        high_watermark=fetched.high,
        last_stable_offset=fetched.stable,
        log_start_offset=fetched.start,
        # Null to a reader of everything, a list to one of committed records and, as Kafka has it, of what is not there.
        aborted_transactions=[] if error in _NOT_THERE else None,
        # Never null: librdkafka refuses a null here.
        records=b"" if fetched.records is None else fetched.records,
    )
    if fetched.aborted is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset) for txn in fetched.aborted
        ]
    if fetched.diverging is not None:
        epoch, end = fetched.diverging
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
    return answer
