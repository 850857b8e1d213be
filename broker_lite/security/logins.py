"""The ways to log in: which mechanisms there are, and where the passwords are looked up.

`Mechanisms.begin(name)` starts a log-in.  `respond` answers at once, or with some work (a function without arguments)
that takes milliseconds and is to be done beside the loop: checking a password against its hash, or a signature.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from broker_lite.security.oauth import OAuthServer, TokenRules
from broker_lite.security.sasl import WRONG_PASSWORD, AuthenticationFailed, PlainLogin, Step, read_plain
from broker_lite.security.scram import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    new_credential,
    password_fits,
)

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MAX_PLAIN_MESSAGE = 16_384
"""A name and a password: some ten bytes. All of it waits for its turn to be hashed."""
SCRAM = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}

Stored = Callable[[ScramMechanism, str], ScramCredential | None]
Work = Callable[[], Step]


class Login(Protocol):
    """One log-in; see `Mechanisms`."""

    max_message: int
    """Bytes; a longer one is never looked at."""

    def respond(self, token: bytes, /) -> Step | Work: ...


class PlainServer:
    """The password comes in the clear, in one message; it is checked against whichever hash there is."""

    max_message = MAX_PLAIN_MESSAGE

    def __init__(self, find: Stored, pepper: bytes) -> None:
        self._find = find
        self._pepper = pepper

    def respond(self, token: bytes) -> Work:
        login = read_plain(token)
        for mechanism in (ScramMechanism.SHA_512, ScramMechanism.SHA_256):
            kept = self._find(mechanism, login.user)
            if kept is not None:
                return _checking(login, mechanism, kept)
        # Who does not exist takes as long as who does.
        nobody = ScramCredential(self._pepper, b"", b"", LEAST_ITERATIONS)
        return _checking(login, ScramMechanism.SHA_512, nobody)


def _checking(login: PlainLogin, mechanism: ScramMechanism, kept: ScramCredential) -> Work:
    def check() -> Step:
        if not password_fits(mechanism, login.password, kept):
            raise AuthenticationFailed(f"wrong user name or password of {login.user!r}", WRONG_PASSWORD)
        return Step(b"", user=login.user)

    return check


class Mechanisms:
    """What clients of a listener may choose from. `given` are users of the settings, with their passwords."""

    def __init__(
        self,
        enabled: Sequence[str],
        given: Mapping[str, str],
        stored: Stored,
        tokens: TokenRules | None = None,
    ) -> None:
        assert tokens is not None or OAUTHBEARER not in enabled, "OAUTHBEARER without rules for tokens"
        self.enabled = tuple(enabled)
        self._stored = stored
        self._tokens = tokens
        self._pepper = secrets.token_bytes(32)
        self._given = {
            (mechanism, user): new_credential(mechanism, password)
            for user, password in given.items()
            for mechanism in ScramMechanism
        }

    @property
    def signed_tokens(self) -> TokenRules | None:
        """The rules for tokens, where keys in a file say which to believe."""
        return self._tokens if self._tokens is not None and self._tokens.keys is not None else None

    def begin(self, mechanism: str) -> Login:
        if mechanism == PLAIN:
            return PlainServer(self.find, self._pepper)
        if mechanism == OAUTHBEARER:
            assert self._tokens is not None
            return OAuthServer(self._tokens)
        scram = SCRAM[mechanism]
        return ScramServer(scram, lambda user: self.find(scram, user), self._pepper)

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """A user who was stored while running counts before one of the settings."""
        return self._stored(mechanism, user) or self._given.get((mechanism, user))
