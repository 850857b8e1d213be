"""ExpireDelegationToken: delegation tokens: expire."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int32, Int64, message


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """End this token sooner."""

    hmac: Bytes
    expiry_time_period_ms: Int64


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """When the token now expires."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
