"""StreamsGroupHeartbeat: membership of a streams group."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Uint16, message, struct


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
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class Endpoint:
    host: String
    port: Uint16


@struct
class TaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest:
    """A streams client's topology, tasks and tags; also the way to join and leave."""

    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


@struct
class Status:
    status_code: Int8
    status_detail: String


@struct
class TaskIdsResult:
    subtopology_id: String
    partitions: list[Int32]


@struct
class EndpointResult:
    host: String
    port: Uint16


@struct
class TopicPartition:
    topic: String
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: EndpointResult
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@message(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    """The tasks it should run and where its peers are."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None
    active_tasks: list[TaskIdsResult] | None = None
    standby_tasks: list[TaskIdsResult] | None = None
    warmup_tasks: list[TaskIdsResult] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
