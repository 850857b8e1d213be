"""The rows of APIs that name topics or groups and have rules of their own.

A topic that one may not describe is not there: left out of lists, and refused by name whether it exists or not, so that
nobody learns which.  It is never made by asking for it either; for that CREATE is needed, on it or on the cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker_lite.apis.asked_topics import meant
from broker_lite.apis.authorized import NOT_ASKED
from broker_lite.apis.guard import CODES, TEXTS, Ask, Guard, Row, answer_for, then
from broker_lite.config import broker as keys
from broker_lite.errors import ErrorCode, refusal
from broker_lite.ids import TopicId
from broker_lite.security.acls import Allowed, Operation, Resource
from broker_lite.wire.messages.k00_produce import ProduceRequest, TopicProduceData
from broker_lite.wire.messages.k01_fetch import FetchRequest, FetchResponse, PartitionData
from broker_lite.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from broker_lite.wire.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from broker_lite.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from broker_lite.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest
from broker_lite.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest
from broker_lite.wire.messages.k60_describe_cluster import DescribeClusterResponse
from broker_lite.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from broker_lite.wire.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

if TYPE_CHECKING:
    from broker_lite.apis.registry import Context

READ, WRITE, CREATE, DELETE, DESCRIBE = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.DESCRIBE,
)
TOPIC, GROUP, TXN, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID, Resource.CLUSTER
_DENIED = CODES[TOPIC]
_NULL_NAMES = 12


def may_write(ctx: Context, request: object) -> bool:
    """Whether all of a Produce is allowed, which it nearly always is: two looks at what the connection was allowed
    before, where asking part by part costs five times as much."""
    assert isinstance(request, ProduceRequest)
    if request.transactional_id is not None:
        return False
    connection, acls = ctx.connection, ctx.broker.acls
    allowed = connection.writable
    if allowed is None or allowed.changes != acls.changes or allowed.principal is not connection.principal:
        allowed = connection.writable = Allowed(connection.principal, acls.changes)
    names = allowed.names
    for topic in request.topic_data:
        if (topic.name or topic.topic_id) not in names and not _may_write(ctx, topic, allowed):
            return False
    return True


def _may_write(ctx: Context, topic: TopicProduceData, allowed: Allowed) -> bool:
    name = topic.name
    if not name:
        known = ctx.broker.topics.by_id(TopicId(topic.topic_id))
        if known is None:
            return False
        name = known.name
    if not ctx.broker.acls.allows(allowed.principal, ctx.connection.peer[0], WRITE, TOPIC, name):
        return False
    allowed.remember(topic.name or topic.topic_id)
    return True


def each_topic(field: str, answers: str, operation: Operation) -> Row:
    """Topics of the request, by name or by id; an id that nobody has is the handler's to answer."""

    def row(guard: Guard, request: object, ask: Ask) -> object:
        ctx = guard.ctx
        allows, who, host = ctx.broker.acls.allows, ctx.connection.principal, ctx.connection.peer[0]
        denied = [
            asked
            for asked in getattr(request, field)
            if (name := guard.topic_of(asked)) is not None and not allows(who, host, operation, TOPIC, name)
        ]
        return answer_for(guard, request, field, {TOPIC: denied}, answers, ask) if denied else ask(request)

    return row


def refuse_groups(field: str) -> Row:
    """Groups by their ids, and what one may do with each."""

    def row(guard: Guard, request: object, ask: Ask) -> object:
        denied = [name for name in getattr(request, field) if not guard.may(DESCRIBE, GROUP, name)]

        def finish(response: object) -> object:
            for group in getattr(response, "groups"):  # noqa: B009  the field of several messages
                if group.authorized_operations != NOT_ASKED:
                    group.authorized_operations = guard.operations(GROUP, group.group_id)
                if not all(guard.may(DESCRIBE, TOPIC, name) for name in _topics_of(group)):
                    group.error_code, group.error_message, group.members = _DENIED, TEXTS[TOPIC], []
            return response

        return then(answer_for(guard, request, field, {GROUP: denied}, "groups", ask), finish)

    return row


def _topics_of(group: object) -> set[str]:
    """Every topic that the description of a group names; a classic group's members keep theirs to themselves."""
    names: set[str] = set()
    for member in getattr(group, "members", ()):
        names.update(getattr(member, "subscribed_topic_names", None) or ())
        for field in ("assignment", "target_assignment"):
            for one in getattr(getattr(member, field, None), "topic_partitions", ()):
                names.add(one.topic_name)
    return names


def describe_transactions(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, DescribeTransactionsRequest)
    denied: list[object] = [one for one in request.transactional_ids if not guard.may(DESCRIBE, TXN, one)]

    def finish(response: object) -> object:
        assert isinstance(response, DescribeTransactionsResponse)
        for state in response.transaction_states:
            state.topics = [one for one in state.topics if guard.may(DESCRIBE, TOPIC, one.topic)]
        return response

    return then(answer_for(guard, request, "transactional_ids", {TXN: denied}, "transaction_states", ask), finish)


def fetch(guard: Guard, request: object, ask: Ask) -> object:
    """The handler asks, because a session remembers topics that the request does not name. The response is looked
    through once more: while a fetch waited, a right may have been withdrawn."""
    assert isinstance(request, FetchRequest)
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        guard.require(Operation.CLUSTER_ACTION, CLUSTER)

    def finish(response: object) -> object:
        assert isinstance(response, FetchResponse)
        for topic in response.responses:
            if not _may_read(guard, topic):
                for partition in topic.partitions:
                    release = getattr(partition.records, "release", None)
                    if release is not None:
                        release()
                topic.partitions = [
                    PartitionData(
                        partition_index=one.partition_index, error_code=_DENIED, high_watermark=-1, records=b""
                    )
                    for one in topic.partitions
                ]
        return response

    response = ask(request, may_read=lambda name: guard.may(READ, TOPIC, name))
    return then(response, finish) if isinstance(response, Awaitable) else response


def _may_read(guard: Guard, topic: object) -> bool:
    name = guard.topic_of(topic)
    return name is None or guard.may(READ, TOPIC, name)


def metadata(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, MetadataRequest)
    everything = request.topics is None or (guard.ctx.version == 0 and not request.topics)
    refused: list[MetadataResponseTopic] = []
    nothing_left = False
    if request.topics and not everything:
        left = []
        for asked in meant(request.topics, guard.ctx.version):
            name = guard.topic_of(asked)
            if name is None or _may_see(guard, name, request.allow_auto_topic_creation):
                left.append(asked)
            else:
                refused.append(_hidden(asked, guard.ctx.version))
        nothing_left = guard.ctx.version == 0 and not left
        if nothing_left:  # an empty list would mean all
            left = [type(request.topics[0])(name="")]
        request = copy.copy(request)
        request.topics = left

    def finish(response: object) -> object:
        assert isinstance(response, MetadataResponse)
        if everything:
            response.topics = [one for one in response.topics if one.name and guard.may(DESCRIBE, TOPIC, one.name)]
        for topic in response.topics:
            if topic.topic_authorized_operations != NOT_ASKED and topic.name:
                topic.topic_authorized_operations = guard.operations(TOPIC, topic.name)
        response.topics = refused if nothing_left else [*refused, *response.topics]
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = guard.operations(CLUSTER)
        return response

    return then(ask(request), finish)


def _hidden(asked: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    """Says no more of the topic than the request did; a name that is null has only been readable since version 12."""
    name = asked.name or (None if version >= _NULL_NAMES else "")
    return MetadataResponseTopic(error_code=_DENIED, name=name, topic_id=asked.topic_id, partitions=[])


def _may_see(guard: Guard, name: str, may_create: bool) -> bool:
    if not guard.may(DESCRIBE, TOPIC, name):
        return False
    broker = guard.ctx.broker
    creates = may_create and broker.settings.get(keys.AUTO_CREATE_TOPICS_ENABLE) and broker.topics.get(name) is None
    return not creates or _may_create(guard, name)


def _may_create(guard: Guard, name: str) -> bool:
    return guard.may(CREATE, CLUSTER) or guard.may(CREATE, TOPIC, name)


def offset_fetch(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, OffsetFetchRequest)
    asked_for_all: set[str] = set()
    if guard.ctx.version < 8:
        guard.require(DESCRIBE, GROUP, request.group_id)
        if request.topics is None:
            asked_for_all.add("")
        denied: list[object] = []
    else:
        denied = [group for group in request.groups if not guard.may(DESCRIBE, GROUP, group.group_id)]
        asked_for_all = {group.group_id for group in request.groups if group.topics is None}

    def finish(response: object) -> object:
        assert isinstance(response, OffsetFetchResponse)
        for group_id, group in [("", response), *((one.group_id, one) for one in response.groups)]:
            topics: list[object] = []
            for topic in getattr(group, "topics"):  # noqa: B009  two kinds of groups and topics, one rule
                name = guard.topic_of(topic)
                if name is None or guard.may(DESCRIBE, TOPIC, name):
                    topics.append(topic)
                elif group_id not in asked_for_all:
                    for partition in topic.partitions:
                        partition.committed_offset = partition.committed_leader_epoch = -1
                        partition.metadata, partition.error_code = "", _DENIED
                    topics.append(topic)
            setattr(group, "topics", topics)  # noqa: B010
        return response

    if guard.ctx.version < 8:
        return then(ask(request), finish)
    return then(answer_for(guard, request, "groups", {GROUP: denied}, "groups", ask), finish)


def find_coordinator(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, FindCoordinatorRequest)
    resource = TXN if request.key_type == 1 else GROUP
    if guard.ctx.version < 4:
        guard.require(DESCRIBE, resource, request.key)
        return ask(request)
    # The key of a share group's state is GROUP:TOPIC_ID:PARTITION, and only brokers ask for it.
    if request.key_type == 2:
        guard.require(Operation.CLUSTER_ACTION, CLUSTER)
        return ask(request)
    denied: list[object] = [key for key in request.coordinator_keys if not guard.may(DESCRIBE, resource, key)]
    return answer_for(guard, request, "coordinator_keys", {resource: denied}, "coordinators", ask)


def create_topics(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, CreateTopicsRequest)
    denied: list[object] = [topic for topic in request.topics if not _may_create(guard, topic.name)]

    def finish(response: object) -> object:
        assert isinstance(response, CreateTopicsResponse)
        for topic in response.topics:
            if not topic.error_code and not guard.may(Operation.DESCRIBE_CONFIGS, TOPIC, topic.name):
                topic.topic_config_error_code = _DENIED
                topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, None
        return response

    return then(answer_for(guard, request, "topics", {TOPIC: denied}, "topics", ask), finish)


def delete_topics(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, DeleteTopicsRequest)
    if guard.may(DELETE, CLUSTER):
        return ask(request)
    if guard.ctx.version < 6:
        denied: list[object] = [name for name in request.topic_names if not guard.may(DELETE, TOPIC, name)]
        return answer_for(guard, request, "topic_names", {TOPIC: denied}, "responses", ask)
    return each_topic("topics", "responses", DELETE)(guard, request, ask)


def offsets_for_leader_epochs(guard: Guard, request: object, ask: Ask) -> object:
    """Followers ask too; they need no topic."""
    if guard.may(Operation.CLUSTER_ACTION, CLUSTER):
        return ask(request)
    return each_topic("topics", "topics", DESCRIBE)(guard, request, ask)


def init_producer_id(guard: Guard, request: object, ask: Ask) -> object:
    assert isinstance(request, InitProducerIdRequest)
    if request.transactional_id is not None:
        guard.require(WRITE, TXN, request.transactional_id)
    elif not guard.may_some(WRITE, TOPIC):
        guard.require(Operation.IDEMPOTENT_WRITE, CLUSTER)
    return ask(request)


def add_partitions_to_txn(guard: Guard, request: object, ask: Ask) -> object:
    """All partitions or none: if one topic is not allowed, the others are not attempted."""
    assert isinstance(request, AddPartitionsToTxnRequest)
    if guard.ctx.version >= 4:
        guard.require(Operation.CLUSTER_ACTION, CLUSTER)
        return ask(request)
    if not guard.may(WRITE, TXN, request.v3_and_below_transactional_id):
        return guard.refused(request, TXN)
    denied = {topic.name for topic in request.v3_and_below_topics if not guard.may(WRITE, TOPIC, topic.name)}
    if not denied:
        return ask(request)
    response = guard.refused(request, TOPIC)
    for topic in getattr(response, "results_by_topic_v3_and_below"):  # noqa: B009  what was made is an object
        if topic.name not in denied:
            for partition in topic.results_by_partition:
                partition.partition_error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
    return response


def write_txn_markers(guard: Guard, request: object, ask: Ask) -> object:
    """Coordinators do it, and since Kafka 4.0 admins who abort a hanging transaction."""
    if not guard.may(Operation.ALTER, CLUSTER):
        guard.require(Operation.CLUSTER_ACTION, CLUSTER)
    return ask(request)


def describe_cluster(guard: Guard, request: object, ask: Ask) -> object:
    def finish(response: object) -> object:
        assert isinstance(response, DescribeClusterResponse)
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = guard.operations(CLUSTER)
        return response

    return then(ask(request), finish)


def subscribe(guard: Guard, request: object, ask: Ask) -> object:
    """A heartbeat that names topics names only those that one may see."""
    guard.require(READ, GROUP, getattr(request, "group_id"))  # noqa: B009  the field of three messages
    for name in getattr(request, "subscribed_topic_names", None) or ():
        if not guard.may(DESCRIBE, TOPIC, name):
            raise refusal(_DENIED, TEXTS[TOPIC])
    return ask(request)


def describe_topic_partitions(guard: Guard, request: object, ask: Ask) -> object:
    """Who asks for all topics asks for those that one may see: pages are made of them, and the cursor names one."""
    assert isinstance(request, DescribeTopicPartitionsRequest)
    if request.topics:
        denied: list[object] = [topic for topic in request.topics if not guard.may(DESCRIBE, TOPIC, topic.name)]
        answered = answer_for(guard, request, "topics", {TOPIC: denied}, "topics", ask)
    else:
        first = "" if request.cursor is None else request.cursor.topic_name
        seen = [
            one.name for one in guard.ctx.broker.topics if one.name >= first and guard.may(DESCRIBE, TOPIC, one.name)
        ]
        if not seen:
            return DescribeTopicPartitionsResponse(topics=[])
        request = copy.copy(request)
        request.topics = [TopicRequest(name=name) for name in seen]
        if first not in seen:
            request.cursor = None
        answered = ask(request)

    def finish(response: object) -> object:
        assert isinstance(response, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            if topic.topic_authorized_operations != NOT_ASKED and topic.name:
                topic.topic_authorized_operations = guard.operations(TOPIC, topic.name)
        return response

    return then(answered, finish)


def share_group_offsets(guard: Guard, request: object, ask: Ask) -> object:
    groups: list[object] = getattr(request, "groups")  # noqa: B009  of a message that is not served by every build
    denied = [group for group in groups if not guard.may(DESCRIBE, GROUP, getattr(group, "group_id"))]  # noqa: B009
    return answer_for(guard, request, "groups", {GROUP: denied}, "groups", ask)
