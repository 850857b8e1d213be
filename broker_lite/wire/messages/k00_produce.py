"""Produce: record batches on their way into partitions."""

from __future__ import annotations

from broker_lite.wire.schema import ZERO_UUID, Int16, Int32, Int64, Records, String, Uuid, field, message, since, struct


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None


@struct
class TopicProduceData:
    name: String = field(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    """Append these batches, one per partition."""

    transactional_id: String | None = since(3, default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = since(2, default=-1)
    log_start_offset: Int64 = since(5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, default=[])
    error_message: String | None = since(8, default=None)
    current_leader: LeaderIdAndEpoch = since(10, default=LeaderIdAndEpoch(), tag=0)


@struct
class TopicProduceResponse:
    name: String = field(versions="0-12", default="")
    topic_id: Uuid = since(13, default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    """Where each batch went, or why it did not."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = since(1, default=0)
    node_endpoints: list[NodeEndpoint] = since(10, default=[], tag=0)
