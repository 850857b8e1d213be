"""PushTelemetry: a client's metrics, in OpenTelemetry's bytes (KIP-714). Off unless `telemetry.enable` is set."""

from __future__ import annotations

from broker_lite.apis.k71_get_telemetry_subscriptions import facts_of
from broker_lite.apis.registry import Context, serves
from broker_lite.config.broker import TELEMETRY_ENABLE
from broker_lite.wire.messages.k72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse


@serves(PushTelemetryRequest, versions="0", only_if=TELEMETRY_ENABLE)
def push_telemetry(ctx: Context, req: PushTelemetryRequest) -> PushTelemetryResponse:
    instance = req.client_instance_id
    ctx.broker.telemetry.push(
        instance,
        req.subscription_id,
        facts_of(ctx, instance),
        req.compression_type,
        bytes(req.metrics),
        last=req.terminating,
    )
    return PushTelemetryResponse()
