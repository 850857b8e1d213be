"""Consumer groups over the wire: list, describe, move and delete."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from broker_lite.client.client import LATEST, Client
from broker_lite.client.connection import Connection
from broker_lite.client.views import refused
from broker_lite.errors import BrokerError, GroupIdNotFound
from broker_lite.ids import TopicPartition
from broker_lite.shapes import dataclass, field
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from broker_lite.wire.messages.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from broker_lite.wire.messages.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker_lite.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from broker_lite.wire.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

GROUP, TRANSACTIONAL_ID = 0, 1
_ONE_KEY = 3
"""The last version of FindCoordinator that asks for one."""
_BY_NAME = 7
"""The last version of OffsetFetch that names topics and asks for one group."""


@dataclass(slots=True)
class MemberView:
    member_id: str
    client_id: str
    host: str
    assigned: list[TopicPartition] = field(default_factory=list)


@dataclass(slots=True)
class GroupView:
    group: str
    kind: str
    state: str
    protocol: str
    members: list[MemberView]


async def coordinator_of(client: Client, key: str, kind: int) -> Connection:
    async def attempt() -> Connection:
        ask = FindCoordinatorRequest(key=key, key_type=kind)
        answer = await client.request(ask, FindCoordinatorResponse, at_most=_ONE_KEY)
        if answer.error_code:
            raise refused(answer.error_code, answer.error_message or key)
        client.addresses.setdefault(answer.node_id, (answer.host, answer.port))
        return await client.to_node(answer.node_id)

    return await client.patiently(attempt)


async def list_groups(client: Client) -> list[ListedGroup]:
    """Of every broker of the cluster, in the order of their names."""
    await client.metadata([])
    found: list[ListedGroup] = []
    for node in sorted(client.addresses):
        answer = await (await client.to_node(node)).request(ListGroupsRequest(), ListGroupsResponse)
        if answer.error_code:
            raise refused(answer.error_code, f"broker {node}")
        found += answer.groups
    return sorted(found, key=lambda group: group.group_id)


async def describe_group(client: Client, group: str) -> GroupView:
    listed = next((one for one in await list_groups(client) if one.group_id == group), None)
    connection = await coordinator_of(client, group, GROUP)
    if listed is not None and listed.group_type.lower() == "consumer":
        return await _describe_consumer(connection, group)
    answer = await connection.request(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    found = answer.groups[0]
    if found.error_code:
        raise refused(found.error_code, found.error_message or f"group {group}")
    if found.group_state == "Dead":
        raise GroupIdNotFound(f"GROUP_ID_NOT_FOUND: group {group}")
    members = [
        MemberView(one.member_id, one.client_id, one.client_host, assigned(bytes(one.member_assignment)))
        for one in found.members
    ]
    return GroupView(group, "classic", found.group_state, found.protocol_data, members)


async def _describe_consumer(connection: Connection, group: str) -> GroupView:
    ask = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    found = (await connection.request(ask, ConsumerGroupDescribeResponse)).groups[0]
    if found.error_code:
        raise refused(found.error_code, found.error_message or f"group {group}")
    members = [
        MemberView(
            one.member_id,
            one.client_id,
            one.client_host,
            [
                TopicPartition(part.topic_name, index)
                for part in one.assignment.topic_partitions
                for index in part.partitions
            ],
        )
        for one in found.members
    ]
    return GroupView(group, "consumer", found.group_state, found.assignor_name, members)


def assigned(raw: bytes) -> list[TopicPartition]:
    """What a classic member's leader gave it (Kafka's ConsumerProtocolAssignment); nothing if it is in other words."""
    found: list[TopicPartition] = []
    try:
        _, topics = struct.unpack_from(">hi", raw)
        pos = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", raw, pos)
            name = raw[pos + 2 : pos + 2 + length].decode()
            pos += 2 + length
            (count,) = struct.unpack_from(">i", raw, pos)
            found += [TopicPartition(name, index) for index in struct.unpack_from(f">{count}i", raw, pos + 4)]
            pos += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        return []
    return found


async def committed(client: Client, group: str) -> dict[TopicPartition, int]:
    """The offsets that a group has committed."""
    connection = await coordinator_of(client, group, GROUP)

    async def attempt() -> dict[TopicPartition, int]:
        ask = OffsetFetchRequest(group_id=group, topics=None)
        answer = await connection.request(ask, OffsetFetchResponse, at_most=_BY_NAME)
        if answer.error_code:
            raise refused(answer.error_code, f"group {group}")
        return {
            TopicPartition(topic.name, part.partition_index): part.committed_offset
            for topic in answer.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    return await client.patiently(attempt)


async def ends(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Where each log ends; None if the topic is gone."""
    found: dict[TopicPartition, int | None] = {}
    for topic in sorted({tp.topic for tp in partitions}):
        wanted = sorted(tp.partition for tp in partitions if tp.topic == topic)
        try:
            offsets = await client.list_offsets(topic, LATEST, wanted)
        except BrokerError:
            offsets = {}
        found |= {TopicPartition(topic, index): offsets[index].offset if index in offsets else None for index in wanted}
    return found


async def commit(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Move a group that has no members."""
    connection = await coordinator_of(client, group, GROUP)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, offset in offsets.items():
        part = OffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(tp.topic, []).append(part)
    ask = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    answer = await connection.request(ask, OffsetCommitResponse, at_most=9)
    for topic in answer.topics:
        for result in topic.partitions:
            if result.error_code:
                raise refused(result.error_code, f"group {group}, {topic.name}-{result.partition_index}")


async def delete_group(client: Client, group: str) -> None:
    connection = await coordinator_of(client, group, GROUP)
    answer = await connection.request(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
    if answer.results[0].error_code:
        raise refused(answer.results[0].error_code, f"group {group}")
