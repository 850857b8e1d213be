"""ListPartitionReassignments: none is ever in progress."""

from __future__ import annotations

from broker_lite.apis.registry import Context, serves
from broker_lite.wire.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@serves(ListPartitionReassignmentsRequest, versions="0")
def list_partition_reassignments(
    ctx: Context, req: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None, topics=[])
