"""DescribeDelegationToken: delegation tokens: look."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int16, Int32, Int64, String, message, since, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: String
    principal_name: String


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """List the tokens of these owners."""

    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String
    principal_name: String


@struct
class DescribedDelegationToken:
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens the asker may see."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
