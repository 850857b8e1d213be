"""DescribeCluster: brokers of the cluster."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, message, since, struct


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Describe the brokers, or from version 1 the controllers."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2, default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = since(2, default=False)


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """Their addresses, and what the asker may do to the cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648
