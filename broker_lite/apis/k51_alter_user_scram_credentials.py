"""AlterUserScramCredentials: add, change and remove what users log in with.

The password arrives salted and hashed; what is kept is one step further, and not enough to log in with.
"""

from __future__ import annotations

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
    """Deletions are looked at first, and what is wrong with a user first is what the user is told."""
    granted: dict[str, _Wish] = {}
    refused: dict[str, tuple[ErrorCode, str]] = {}  # not the errors: they would hold this frame, and it the passwords
    wishes: list[_Wish] = [*req.deletions, *req.upsertions]
    for wish in wishes:
        if wish.name in refused:
            continue
        try:
            if granted.pop(wish.name, None) is not None:
                raise refusal(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            _check(ctx, wish)
            granted[wish.name] = wish
        except BrokerError as error:
            refused[wish.name] = error.code, error.message
    for name, wish in [*granted.items()]:
        try:
            _grant(ctx, wish)
        except BrokerError as error:
            del granted[name]
            refused[name] = error.code, error.message
    return AlterUserScramCredentialsResponse(
        results=[
            *(AlterUserScramCredentialsResult(user=name, error_message=None) for name in granted),
            *(
                AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
                for name, (code, message) in refused.items()
            ),
        ]
    )


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None


def _check(ctx: Context, wish: _Wish) -> None:
    if not wish.name:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = _mechanism(wish.mechanism)
    if isinstance(wish, ScramCredentialDeletion):
        if ctx.broker.users.scram(mechanism, wish.name) is None:
            raise refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return
    if wish.iterations < FEWEST_ITERATIONS:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if wish.iterations > MOST_ITERATIONS:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not wish.salted_password:
        raise refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")


def _grant(ctx: Context, wish: _Wish) -> None:
    users, mechanism = ctx.broker.users, _mechanism(wish.mechanism)
    if isinstance(wish, ScramCredentialDeletion):
        users.delete(mechanism, wish.name)
        return
    credential = credential_of(mechanism, bytes(wish.salted_password), bytes(wish.salt), wish.iterations)
    users.set(mechanism, wish.name, credential)
