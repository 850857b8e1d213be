"""Metadata: brokers, topics and who leads what."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Bool, Int16, Int32, String, Uuid, field, message, since, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: String | None = field(nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Describe these topics, or all of them, and perhaps create the missing ones."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = field(versions="8-10", default=False)
    include_topic_authorized_operations: Bool = since(8, default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = since(1, default=None)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = since(5, default=[])


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: String | None = field(nullable="12+")
    topic_id: Uuid = since(10, default=ZERO_UUID)
    is_internal: Bool = since(1, default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as a client should see it."""

    throttle_time_ms: Int32 = since(3, default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(versions="8-10", default=-2147483648)
    error_code: Int16 = since(13, default=0)
