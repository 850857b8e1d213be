"""GetTelemetrySubscriptions: which metrics a client should push (KIP-714). Off unless `telemetry.enable` is set.

Clients begin to push as soon as they see that they could.
"""

from __future__ import annotations

import uuid

from broker_lite.apis.registry import Context, serves
from broker_lite.broker.telemetry import CODECS
from broker_lite.config.broker import TELEMETRY_ENABLE, TELEMETRY_MAX_BYTES
from broker_lite.wire.messages.k71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


@serves(GetTelemetrySubscriptionsRequest, versions="0", only_if=TELEMETRY_ENABLE)
def get_telemetry_subscriptions(
    ctx: Context, req: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    instance = req.client_instance_id if any(req.client_instance_id) else uuid.uuid4().bytes
    wanted = ctx.broker.telemetry.wanted_of(facts_of(ctx, instance))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=wanted.id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=ctx.broker.settings.get(TELEMETRY_MAX_BYTES),
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )


def facts_of(ctx: Context, instance: bytes) -> dict[str, str]:
    """What subscriptions can be told apart by."""
    connection = ctx.connection
    return {
        "client_instance_id": str(uuid.UUID(bytes=instance)),
        "client_id": ctx.client_id,
        "client_software_name": connection.client_software_name,
        "client_software_version": connection.client_software_version,
        "client_source_address": connection.peer[0],
        "client_source_port": str(connection.peer[1]),
    }
