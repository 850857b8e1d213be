"""StreamsGroupDescribe: streams groups in detail."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int16, Int32, Int64, String, Uint16, message, struct


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    """Describe these streams groups."""

    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class KeyValue:
    key: String
    value: String


@struct
class TopicInfo:
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology] | None = None


@struct
class Endpoint:
    host: String
    port: Uint16


@struct
class TaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class TaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class Assignment:
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class Member:
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: Int32 = -2147483648


@message(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    """Topology, members and tasks of each group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
