"""AlterUserScramCredentials: add, change and remove what users log in with.

The password arrives salted and hashed; what is kept is one step further, and not enough to log in with.
"""

from __future__ import annotations

from collections import Counter

from broker_lite.apis.registry import Context, serves
from broker_lite.errors import BrokerError, ErrorCode, refusal
from broker_lite.security.scram import ScramMechanism, credential_of
from broker_lite.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 16384

_Wish = ScramCredentialDeletion | ScramCredentialUpsertion


@serves(AlterUserScramCredentialsRequest, versions="0")
def alter_user_scram_credentials(
    ctx: Context, req: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    wishes: list[_Wish] = [*req.deletions, *req.upsertions]
    times = Counter(wish.name for wish in wishes)
    once = {wish.name: wish for wish in wishes}
    return AlterUserScramCredentialsResponse(results=[_alter(ctx, wish, times[name]) for name, wish in once.items()])


def _alter(ctx: Context, wish: _Wish, times: int) -> AlterUserScramCredentialsResult:
    result = AlterUserScramCredentialsResult(user=wish.name, error_message=None)
    try:
        if times > 1:
            raise refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        if not wish.name:
            raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        _grant(ctx, wish, _mechanism(wish.mechanism))
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None


def _grant(ctx: Context, wish: _Wish, mechanism: ScramMechanism) -> None:
    users = ctx.broker.users
    if isinstance(wish, ScramCredentialDeletion):
        if users.scram(mechanism, wish.name) is None:
            raise refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        users.delete(mechanism, wish.name)
        return
    if wish.iterations < FEWEST_ITERATIONS:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wish.iterations > MOST_ITERATIONS:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not wish.salted_password:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    credential = credential_of(mechanism, bytes(wish.salted_password), bytes(wish.salt), wish.iterations)
    users.set(mechanism, wish.name, credential)
