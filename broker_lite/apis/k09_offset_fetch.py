"""OffsetFetch: how far a group has read. A group that never committed is at -1, and that is no error.

Versions
    0      an unknown offset is UNKNOWN_TOPIC_OR_PARTITION
    2      an error for the whole group; topics may be null for all
    5      leader epochs
    6      flexible
    7      require_stable: UNSTABLE_OFFSET_COMMIT while a transaction may change the offset
    8      many groups
    9      consumer groups: member and its epoch
    10     topics by id
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import NO_TOPIC_ID, TopicId
from broker_lite.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_FIRST_WITH_GROUP_ERROR = 2
_FIRST_WITH_MANY = 8
_FIRST_BY_ID = 10


@serves(OffsetFetchRequest, versions="0-10")
def offset_fetch(ctx: Context, req: OffsetFetchRequest) -> Steps[OffsetFetchResponse | Awaitable[OffsetFetchResponse]]:
    """A group that asks for all its offsets again is answered again, as Kafka does, but they are looked up once."""
    asked = req.groups if ctx.version >= _FIRST_WITH_MANY else [_only_group(req)]
    known: dict[tuple[str, str | None, int], OffsetFetchResponseGroup] = {}
    found: list[OffsetFetchResponseGroup] = []
    for one in asked:
        key = one.group_id, one.member_id, one.member_epoch
        if one.topics is None and key in known:
            yield 1 + sum(1 + len(topic.partitions) for topic in known[key].topics)
            found.append(known[key])
            continue
        found.append((yield from _group(ctx, one, stable=req.require_stable)))
        if one.topics is None:
            known[key] = found[-1]
    unsynced = {one.group_id for one in asked if not ctx.broker.groups.is_durable(one.group_id)}
    return _when_durable(ctx, asked, found, unsynced) if unsynced else _response(ctx, asked, found)


async def _when_durable(
    ctx: Context, asked: list[OffsetFetchRequestGroup], found: list[OffsetFetchResponseGroup], unsynced: set[str]
) -> OffsetFetchResponse:
    """An offset that is told must not be lost: in `fsync` mode it is on disk first, as Kafka's is replicated."""
    failed: dict[str, ErrorCode] = {}
    for group_id in unsynced:
        try:
            await ctx.broker.groups.durable(group_id)
        except BrokerError as error:
            failed[group_id] = ctx.code(error)
    for at, one in enumerate(asked):
        if one.group_id in failed:
            code = failed[one.group_id]
            found[at] = OffsetFetchResponseGroup(group_id=one.group_id, topics=[], error_code=code)
    return _response(ctx, asked, found)


def _only_group(req: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = req.topics
    if topics is None:
        return OffsetFetchRequestGroup(group_id=req.group_id, topics=None)
    wanted = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics]
    return OffsetFetchRequestGroup(group_id=req.group_id, topics=wanted)


def _response(
    ctx: Context, asked: list[OffsetFetchRequestGroup], found: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if ctx.version >= _FIRST_WITH_MANY:
        return OffsetFetchResponse(groups=found)
    return _single(ctx, asked[0], found[0])


def _group(ctx: Context, asked: OffsetFetchRequestGroup, *, stable: bool) -> Steps[OffsetFetchResponseGroup]:
    yield 1
    group_id = asked.group_id
    try:
        groups = ctx.broker.groups.of(group_id)
        groups.check_fetch(group_id, asked.member_id, asked.member_epoch)
    except BrokerError as error:
        return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=ctx.code(error))
    wanted = list(_everything(ctx, groups, group_id)) if asked.topics is None else asked.topics
    if ctx.version >= _FIRST_BY_ID:
        # As Kafka has it: what nobody knows comes last.
        wanted = sorted(wanted, key=lambda topic: ctx.broker.topics.by_id(TopicId(topic.topic_id)) is None)
    topics = []
    for topic in wanted:
        yield 1 + len(topic.partition_indexes)
        topics.append(_topic(ctx, groups, group_id, topic, stable=stable))
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _everything(ctx: Context, groups: Groups, group_id: str) -> Iterator[OffsetFetchRequestTopics]:
    for name, partitions in groups.offsets.of(group_id).items():
        topic = ctx.broker.topics.get(name)
        if topic is not None or ctx.version < _FIRST_BY_ID:
            topic_id = NO_TOPIC_ID if topic is None else topic.id
            yield OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(partitions))


def _topic(
    ctx: Context, groups: Groups, group_id: str, asked: OffsetFetchRequestTopics, *, stable: bool
) -> OffsetFetchResponseTopics:
    name, topic_id = asked.name, asked.topic_id
    if ctx.version >= _FIRST_BY_ID:
        topic = ctx.broker.topics.by_id(TopicId(topic_id))
        if topic is None:
            lines = [_line(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in asked.partition_indexes]
            return OffsetFetchResponseTopics(topic_id=topic_id, partitions=lines)
        name = topic.name
    lines = []
    for index in asked.partition_indexes:
        try:
            found = groups.committed(group_id, name, index, stable=stable, topic_id=topic_id)
        except BrokerError as error:
            lines.append(_line(index, error.code))
            continue
        lines.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
            )
        )
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=lines)


def _line(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=code)


def _single(ctx: Context, asked: OffsetFetchRequestGroup, found: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The one group of a version before 8. Before 2 an error of the group stands beside each partition."""
    topics = found.topics
    if found.error_code and ctx.version < _FIRST_WITH_GROUP_ERROR:
        code = ErrorCode(found.error_code)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_line(index, code) for index in topic.partition_indexes]
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=[_old_line(ctx, line) for line in topic.partitions])
            for topic in topics
        ],
    )


def _old_line(ctx: Context, line: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    code = line.error_code
    if ctx.version == 0 and line.committed_offset < 0 and not code:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetFetchResponsePartition(
        partition_index=line.partition_index,
        committed_offset=line.committed_offset,
        committed_leader_epoch=line.committed_leader_epoch,
        metadata=line.metadata,
        error_code=code,
    )
