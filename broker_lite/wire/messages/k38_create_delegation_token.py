"""CreateDelegationToken: delegation tokens: make."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int32, Int64, String, message, since, struct


@struct
class CreatableRenewers:
    principal_type: String
    principal_name: String


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Make a token that these principals may renew."""

    owner_principal_type: String | None = since(3, default="")
    owner_principal_name: String | None = since(3, default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The token with its secret."""

    error_code: Int16 = 0
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
