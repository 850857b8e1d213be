"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups.

Versions
    1    which protocol each member speaks
"""

from __future__ import annotations

from broker_lite.apis.authorized import GROUP_OPERATIONS, NOT_ASKED
from broker_lite.apis.registry import Context, serves
from broker_lite.coordinator.groups.consumer import NONE, ConsumerGroup, ConsumerMember, Places, by_topic
from broker_lite.errors import BrokerError, ErrorCode, GroupIdNotFound, InvalidGroupId
from broker_lite.ids import TopicId
from broker_lite.wire.messages.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC = 0
_CONSUMER = 1


@serves(ConsumerGroupDescribeRequest, versions="0-1")
def consumer_group_describe(ctx: Context, req: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    groups = [_described(ctx, group_id) for group_id in req.group_ids]
    operations = GROUP_OPERATIONS if req.include_authorized_operations else NOT_ASKED
    for group in groups:
        group.authorized_operations = operations if group.error_code == 0 else NOT_ASKED
    return ConsumerGroupDescribeResponse(groups=groups)


def _described(ctx: Context, group_id: str) -> DescribedGroup:
    described = DescribedGroup(
        group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0, assignor_name="", members=[]
    )
    if not ctx.broker.groups.has_consumer_protocol:
        described.error_code = ErrorCode.UNSUPPORTED_VERSION
        return described
    try:
        _check_id(group_id)
        group = ctx.broker.groups.of(group_id).group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
    except BrokerError as error:
        described.error_code, described.error_message = error.code, error.message
        return described
    described.group_state = group.state.value
    described.group_epoch, described.assignment_epoch = group.epoch, group.assignment_epoch
    described.assignor_name = group.assignor(ctx.broker.groups.settings.assignors[0])
    described.members = [_member(ctx, group, member) for member in group.members.values()]
    return described


def _check_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId("the group id is empty")


def _member(ctx: Context, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(ctx, member.assigned | member.revoking),
        target_assignment=_assignment(ctx, group.target.get(member.id, NONE)),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(ctx: Context, places: Places) -> Assignment:
    lines = []
    for topic_id, partitions in by_topic(places):
        topic = ctx.broker.topics.by_id(TopicId(topic_id))
        if topic is not None:
            lines.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=partitions))
    return Assignment(topic_partitions=lines)
