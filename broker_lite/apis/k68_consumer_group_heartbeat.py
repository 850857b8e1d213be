"""ConsumerGroupHeartbeat: the whole life of a member of a consumer group (KIP-848).

Versions
    0    the broker names the members
    1    members name themselves (KIP-1082); patterns for topic names
"""

from __future__ import annotations

from collections.abc import Awaitable

from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.groups.catalogue import Eyes
from broker_lite.coordinator.groups.consumer import by_topic
from broker_lite.coordinator.groups.heartbeat import Beat
from broker_lite.errors import ErrorCode
from broker_lite.ids import format_topic_id, new_topic_id
from broker_lite.security.acls import Operation, Resource
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsResult,
)

_FIRST_WITH_OWN_NAMES = 1
_ALL = Eyes()


@serves(ConsumerGroupHeartbeatRequest, versions="0-1")
def consumer_group_heartbeat(
    ctx: Context, req: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    if not ctx.broker.groups.has_consumer_protocol:
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, member_epoch=0, heartbeat_interval_ms=0
        )
    owned = req.topic_partitions
    beaten = ctx.broker.groups.beat(
        Beat(
            group=req.group_id,
            member_id=req.member_id,
            epoch=req.member_epoch,
            instance_id=req.instance_id,
            rack_id=req.rack_id,
            rebalance_timeout_ms=req.rebalance_timeout_ms,
            topics=req.subscribed_topic_names,
            pattern=req.subscribed_topic_regex,
            assignor=req.server_assignor,
            owned=None if owned is None else frozenset((t.topic_id, p) for t in owned for p in t.partitions),
            client_id=ctx.client_id,
            client_host=f"/{ctx.connection.peer[0]}",
            new_member_id=format_topic_id(new_topic_id()),
            must_have_id=ctx.version >= _FIRST_WITH_OWN_NAMES,
            eyes=_eyes(ctx),
        )
    )
    assignment = None
    if beaten.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitionsResult(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(beaten.assignment)
            ]
        )
    response = ConsumerGroupHeartbeatResponse(
        member_id=beaten.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=beaten.interval_ms,
        assignment=assignment,
    )
    return ctx.broker.groups.when_durable(req.group_id, response)


def _eyes(ctx: Context) -> Eyes:
    """A pattern fits nothing that its member may not see."""
    acls, client = ctx.broker.acls, ctx.connection
    if not acls.on:
        return _ALL

    def sees(name: str) -> bool:
        return acls.allows(client.principal, client.peer[0], Operation.DESCRIBE, Resource.TOPIC, name)

    return Eyes(sees, acls.changes)
