"""WriteTxnMarkers: commit and abort markers."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, Int64, String, message, since, struct


@struct
class WritableTxnMarkerTopic:
    name: String
    partition_indexes: list[Int32]


@struct
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0, ignorable=True)


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Write these markers into the partitions' logs."""

    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """Per producer and partition whether the marker is written."""

    markers: list[WritableTxnMarkerResult]
