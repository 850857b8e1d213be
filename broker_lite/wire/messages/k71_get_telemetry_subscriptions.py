"""GetTelemetrySubscriptions: which metrics a client should push."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Int8, Int16, Int32, String, Uuid, message


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """What do you want to know of me?"""

    client_instance_id: Uuid


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """Names of metrics, how often and in which form."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]
