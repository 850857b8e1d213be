"""SASL as both sides see it: tokens go to and fro until the server knows who it is, or refuses.

A mechanism is an object with `respond(token) -> Step`; it lives for one log-in.  What is wrong with a log-in is an
`AuthenticationFailed`: its text is for our log, `told` is all that the client hears.
"""

from __future__ import annotations

from typing import Protocol

from broker_lite.shapes import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """The answer to one token; with `user` the log-in is complete."""

    token: bytes
    user: str | None = None
    expires_at_ms: int | None = None
    """When what was shown is no longer valid (wall clock), for mechanisms that know."""


class AuthenticationFailed(Exception):
    """`told` is for the client: it does not say whether the user exists. None is Kafka's general text."""

    def __init__(self, why: str, told: str | None = None) -> None:
        super().__init__(why)
        self.told = told


class Exchange(Protocol):
    def respond(self, token: bytes, /) -> Step: ...


@dataclass(frozen=True, slots=True)
class PlainLogin:
    user: str
    password: str

    def __repr__(self) -> str:
        return f"PlainLogin({self.user!r})"


WRONG_PASSWORD = "Authentication failed: Invalid username or password"


def read_plain(token: bytes) -> PlainLogin:
    """The one message of PLAIN (RFC 4616): [authorization id] NUL user NUL password."""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailed("a PLAIN message is not UTF-8") from None
    if len(parts) != 3:
        raise AuthenticationFailed(f"a PLAIN message of {len(parts)} parts, expected 3")
    authorization_id, user, password = parts
    if not user:
        raise AuthenticationFailed("no user name", "Authentication failed: username not specified")
    if not password:
        raise AuthenticationFailed("no password", "Authentication failed: password not specified")
    if authorization_id and authorization_id != user:
        raise AuthenticationFailed(
            "the client asks to act as another user than it logs in as",
            "Authentication failed: Client requested an authorization id that is different from username",
        )
    return PlainLogin(user, password)
