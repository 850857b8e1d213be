"""WriteTxnMarkers: end a transaction in single partitions. Coordinators do so, and people who abort a hanging one.

Versions
    1    flexible
    2    the transaction version, by which a marker's epoch is judged (KIP-1228)
"""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Pause
from broker_lite.errors import BrokerError, ErrorCode
from broker_lite.ids import TopicPartition
from broker_lite.wire.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@serves(WriteTxnMarkersRequest, versions="1-2")
async def write_txn_markers(ctx: Context, req: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    pause = Pause()
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=await _write(ctx, marker, TopicPartition(topic.name, index), pause),
                            )
                            for index in dict.fromkeys(topic.partition_indexes)  # as Kafka: once
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in req.markers
        ]
    )


async def _write(ctx: Context, marker: WritableTxnMarker, tp: TopicPartition, pause: Pause) -> ErrorCode:
    await pause.if_due()
    try:
        await ctx.broker.transactions.write_marker(
            tp,
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            version=marker.transaction_version,
        )
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE
