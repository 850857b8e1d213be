"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups.

Versions
    1    which protocol each member speaks
"""

from __future__ import annotations

from broker_lite.apis.authorized import GROUP_OPERATIONS, NOT_ASKED
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
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
def consumer_group_describe(ctx: Context, req: ConsumerGroupDescribeRequest) -> Steps[ConsumerGroupDescribeResponse]:
    """A group that is asked for again is told again, as Kafka does, but looked up once."""
    operations = GROUP_OPERATIONS if req.include_authorized_operations else NOT_ASKED
    found: dict[str, tuple[DescribedGroup, int]] = {}
    groups: list[DescribedGroup] = []
    for group_id in req.group_ids:
        if group_id not in found:
            group = yield from _described(ctx, group_id)
            group.authorized_operations = operations if group.error_code == 0 else NOT_ASKED
            found[group_id] = group, _units(group)
        else:
            yield found[group_id][1]
        groups.append(found[group_id][0])
    return ConsumerGroupDescribeResponse(groups=groups)


def _units(group: DescribedGroup) -> int:
    return units(len(group.group_id)) + sum(map(_units_of_member, group.members))


def _units_of_member(member: Member) -> int:
    """Its topics and partitions are most of it."""
    size = sum(map(len, member.subscribed_topic_names)) + len(member.client_id)
    for assignment in (member.assignment, member.target_assignment):
        size += sum(20 + len(one.topic_name) + 4 * len(one.partitions) for one in assignment.topic_partitions)
    return units(size)


def _described(ctx: Context, group_id: str) -> Steps[DescribedGroup]:
    yield units(len(group_id))
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
    for member in list(group.members.values()):
        described.members.append(_member(ctx, group, member))
        yield _units_of_member(described.members[-1])
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
