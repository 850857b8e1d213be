"""AlterUserScramCredentials: SCRAM users: change."""

from __future__ import annotations

from broker_lite.wire.schema import Bytes, Int8, Int16, Int32, String, message, struct


@struct
class ScramCredentialDeletion:
    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Add or remove these credentials."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """Per user whether it was changed."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
