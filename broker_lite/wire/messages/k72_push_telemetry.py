"""PushTelemetry: metrics of a client."""

from __future__ import annotations

from broker_lite.wire.schema import Bool, Bytes, Int8, Int16, Int32, Uuid, message


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """A client's metrics in OpenTelemetry's format."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    """Whether they were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
