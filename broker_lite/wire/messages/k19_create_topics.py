"""CreateTopics: making topics."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, message, since, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest:
    """Create these topics."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = since(1, default=False)


@struct
class CreatableTopicConfigs:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    name: String
    topic_id: Uuid = since(7, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: String | None = since(1, default="")
    topic_config_error_code: Int16 = since(5, default=0, tag=0)
    num_partitions: Int32 = since(5, default=-1)
    replication_factor: Int16 = since(5, default=-1)
    configs: list[CreatableTopicConfigs] | None = since(5, default=[])


@message(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse:
    """Per topic what was created, or why not."""

    throttle_time_ms: Int32 = since(2, default=0)
    topics: list[CreatableTopicResult]
