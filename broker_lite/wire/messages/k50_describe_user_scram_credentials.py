"""DescribeUserScramCredentials: SCRAM users: look."""

from __future__ import annotations

from broker_lite.wire.schema import Int8, Int16, Int32, String, message, struct


@struct
class UserName:
    name: String


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Which mechanisms do these users have?"""

    users: list[UserName] | None


@struct
class CredentialInfo:
    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None
    credential_infos: list[CredentialInfo]


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Per user the mechanisms and iteration counts."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    results: list[DescribeUserScramCredentialsResult]
