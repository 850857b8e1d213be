"""Metadata: brokers, topics, partitions and their leaders.

Versions
    0    an empty list means all topics; later a null does, and an empty one means none
    1    controller, rack, internal topics
    4    the client says whether a missing topic may be created
    7    leader epochs
    8    authorized operations
    9    flexible
    10   topic ids
    12   topics by id
    13   a top-level error

The answer that names all topics is kept, bytes and all, until a topic changes: with ten thousand topics it takes a good
part of a second to make, and every console asks for it again and again.
"""

from __future__ import annotations

from broker_lite.apis.asked_topics import FIRST_BY_ID, meant
from broker_lite.apis.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.topics import Topic
from broker_lite.config import broker as keys
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest
from broker_lite.ids import INTERNAL_TOPICS, NO_TOPIC_ID, TopicId, check_topic_name
from broker_lite.wire.codec import Piece, encode_in_parts
from broker_lite.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_FIRST_WITH_NULL = 1
_MOST_KEPT = 16
_FEW = 10
"""Topics that are told at once."""

Alike = dict[tuple[int, ...], list[MetadataResponsePartition]]
"""The leader epochs of a topic's partitions, and how to say it."""


@serves(MetadataRequest, versions="0-13", stepwise=True)
def metadata(ctx: Context, req: MetadataRequest) -> MetadataResponse | Steps[MetadataResponse]:
    if req.topics is None or (ctx.version < _FIRST_WITH_NULL and not req.topics):
        if ctx.broker.acls.on or ctx.broker.quotas.active:  # then it is not the same for everybody
            return _everything(ctx, req)
        return _kept(ctx, req)
    asked, operations = meant(req.topics, ctx.version), _operations(req)
    if len(asked) > _FEW:
        return _many(ctx, req, asked, operations)
    topics = [_answer(ctx, one, req.allow_auto_topic_creation, operations) for one in asked]
    return _response(ctx, req, topics)


def _many(
    ctx: Context, req: MetadataRequest, asked: list[MetadataRequestTopic], operations: int
) -> Steps[MetadataResponse]:
    topics: list[MetadataResponseTopic] = []
    for one in asked:
        topics.append(_answer(ctx, one, req.allow_auto_topic_creation, operations))
        yield 1 + len(topics[-1].partitions)
    return _response(ctx, req, topics)


def _kept(ctx: Context, req: MetadataRequest) -> MetadataResponse | Steps[MetadataResponse]:
    kept, now = ctx.broker.kept, ctx.broker.topics.version
    asked = (
        ctx.version,
        ctx.advertised(),
        req.include_topic_authorized_operations,
        req.include_cluster_authorized_operations,
    )
    found = kept.get(asked)
    if found is None or found[0] != now:
        return _keep(ctx, req, asked)
    _, response, ctx.kept = found
    return response


def _keep(ctx: Context, req: MetadataRequest, asked: tuple[object, ...]) -> Steps[MetadataResponse]:
    """What changes meanwhile makes it an old answer: good enough for who asked before, not for the next."""
    kept, now = ctx.broker.kept, ctx.broker.topics.version
    response = yield from _everything(ctx, req)
    pieces: list[Piece] = []
    for piece in encode_in_parts(response, ctx.version):
        yield 0
        pieces.append(piece)
    response.topics = []
    if len(kept) >= _MOST_KEPT:
        kept.clear()
    kept[asked] = (now, response, pieces)
    ctx.kept = pieces
    return response


def _everything(ctx: Context, req: MetadataRequest) -> Steps[MetadataResponse]:
    alike: Alike = {}
    topics: list[MetadataResponseTopic] = []
    for topic in list(ctx.broker.topics):
        topics.append(_describe(ctx, topic, _operations(req), alike))
        yield 1 + len(topics[-1].partitions)
    return _response(ctx, req, topics)


def _operations(req: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if req.include_topic_authorized_operations else NOT_ASKED


def _response(ctx: Context, req: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    broker, node = ctx.broker, ctx.advertised()
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=(CLUSTER_OPERATIONS if req.include_cluster_authorized_operations else NOT_ASKED),
    )


def _answer(ctx: Context, asked: MetadataRequestTopic, may_create: bool, operations: int) -> MetadataResponseTopic:
    topics = ctx.broker.topics
    if ctx.version < FIRST_BY_ID and (asked.name is None or asked.topic_id != NO_TOPIC_ID):
        raise InvalidRequest(f"topics by id are asked for from version {FIRST_BY_ID} on, this is {ctx.version}")
    if asked.name is None:
        known = topics.by_id(TopicId(asked.topic_id))
        if known is None:
            return _refused(None, TopicId(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID)
        return _describe(ctx, known, operations)
    known = topics.get(asked.name)
    if known is not None:
        return _describe(ctx, known, operations)
    try:
        check_topic_name(asked.name)
        if may_create and ctx.broker.settings.get(keys.AUTO_CREATE_TOPICS_ENABLE):
            ctx.broker.creating.soon(asked.name)
        return _refused(asked.name, NO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, operations)
    except BrokerError as error:
        return _refused(asked.name, NO_TOPIC_ID, error.code, operations)


def _refused(
    name: str | None, topic_id: TopicId, code: ErrorCode, operations: int = NOT_ASKED
) -> MetadataResponseTopic:
    """What somebody might do with a topic is told before it is there, as Kafka does."""
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _describe(ctx: Context, topic: Topic, operations: int, alike: Alike | None = None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_partitions(ctx, topic, {} if alike is None else alike),
        topic_authorized_operations=operations,
    )


def _partitions(ctx: Context, topic: Topic, alike: Alike) -> list[MetadataResponsePartition]:
    """One object for all partitions that have the same number and the same epoch, whatever their topic."""
    epochs = ctx.broker.topics.leader_epochs(topic)
    partitions = alike.get(epochs)
    if partitions is None:
        nodes = [ctx.broker.node_id]
        partitions = alike[epochs] = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=nodes[0],
                leader_epoch=epoch,
                replica_nodes=nodes,
                isr_nodes=nodes,
            )
            for index, epoch in enumerate(epochs)
        ]
    return partitions
