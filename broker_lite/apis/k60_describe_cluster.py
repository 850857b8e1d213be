"""DescribeCluster: the brokers and the controller.

Versions
    1    the kind of endpoint that is meant
    2    fenced brokers (there are none)
"""

from __future__ import annotations

from broker_lite.apis.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from broker_lite.apis.registry import Context, serves
from broker_lite.errors import ErrorCode, refusal
from broker_lite.wire.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS = 1
_CONTROLLERS = 2


@serves(DescribeClusterRequest, versions="0-2")
def describe_cluster(ctx: Context, req: DescribeClusterRequest) -> DescribeClusterResponse:
    if req.endpoint_type == _CONTROLLERS:
        raise refusal(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if req.endpoint_type != _BROKERS:
        raise refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {req.endpoint_type}")
    node = ctx.advertised()
    return DescribeClusterResponse(
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.node_id,
        brokers=[DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)],
        cluster_authorized_operations=CLUSTER_OPERATIONS if req.include_cluster_authorized_operations else NOT_ASKED,
    )
