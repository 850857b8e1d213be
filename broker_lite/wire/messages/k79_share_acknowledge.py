"""ShareAcknowledge: records finished by a share group."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, Int64, String, Uuid, message, since, struct


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class AcknowledgeTopic:
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Accept, release or reject records that were acquired."""

    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = since(2, default=False)
    topics: list[AcknowledgeTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """Per partition whether that was noted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
