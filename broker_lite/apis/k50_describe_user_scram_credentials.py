"""DescribeUserScramCredentials: which mechanisms users have, and how often their passwords were hashed."""

from __future__ import annotations

from collections import Counter

from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.responses import units
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages.k50_describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@serves(DescribeUserScramCredentialsRequest, versions="0")
def describe_user_scram_credentials(
    ctx: Context, req: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    times = Counter(user.name for user in req.users) if req.users else Counter(list(ctx.broker.users))
    results: list[DescribeUserScramCredentialsResult] = []
    for name, count in times.items():
        yield units(2 * len(name))
        results.append(_describe(ctx, name, count))
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _describe(ctx: Context, name: str, times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=[])
    kept = ctx.broker.users.of(name)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif not kept:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        result.credential_infos = [
            CredentialInfo(mechanism=mechanism.value, iterations=credential.iterations)
            for mechanism, credential in kept.items()
        ]
    return result
