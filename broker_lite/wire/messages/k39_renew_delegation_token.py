"""RenewDelegationToken: delegation tokens: renew."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int32, Int64, message


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Let this token live longer."""

    hmac: Bytes
    renew_period_ms: Int64


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """When the token now expires."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
