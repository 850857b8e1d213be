"""OAUTHBEARER (RFC 7628): the client shows a token, a JWT, that says who it is and until when.

A token is worth as much as its signature.  `TokenRules` with `keys` (the text of a JWKS file) takes tokens that one of
them signed; without, tokens that nobody signed (`alg: none`), which is a game for tests.  Never both: a token without
a signature does not pass where signatures are asked for, and the algorithm is one of the asymmetric ones, so a public
key is never taken for a shared secret.

A token that is refused is told of in JSON, the client says that it has read that (one byte), and then it is refused.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_lite.security.sasl import AuthenticationFailed, Step

if TYPE_CHECKING:
    from jwt import PyJWKSet

_INITIAL = re.compile(r"n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x00\x01]*\x01)*)\x01")
_BEARER = re.compile(r"Bearer +(?P<token>[-_.A-Za-z0-9]+=*)", re.IGNORECASE)
_PADDING = {0: "", 2: "==", 3: "="}
_REFUSED = b'{"status":"invalid_token"}'
_READ = b"\x01"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LONGEST_TOKEN = 65_536
MAX_OAUTH_MESSAGE = LONGEST_TOKEN + 16_384
"""With extensions."""


@dataclass(slots=True)
class TokenRules:
    now_ms: Callable[[], int]
    keys: PyJWKSet | None = None
    """None: believe what nobody signed."""
    read: Callable[[], str] | None = None
    """The text of the keys, as it is now."""
    audience: tuple[str, ...] = ()
    issuer: str | None = None
    subject_claim: str = "sub"
    skew_seconds: int = 30

    def read_keys_again(self) -> None:
        """From now on others count. OSError or ValueError says why the old ones stay."""
        assert self.read is not None
        self.keys = read_keys(self.read())

    def check(self, token: str) -> Step:
        """Who the token is for. Takes long enough, with a signature, to be done beside the loop."""
        if len(token) > LONGEST_TOKEN:
            raise AuthenticationFailed(f"a token of {len(token)} characters")
        claims = _unsigned(token) if self.keys is None else _signed(token, self.keys)
        now = self.now_ms() / 1000
        expires = _number(claims, "exp")
        if expires is None or expires + self.skew_seconds <= now:
            raise AuthenticationFailed("the token has expired, or does not say when it does")
        begins = _number(claims, "nbf")
        if begins is not None and begins - self.skew_seconds > now:
            raise AuthenticationFailed("the token is not valid yet")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationFailed("the token is of another issuer")
        if self.audience:
            meant = claims.get("aud")
            meant = meant if isinstance(meant, list) else [meant]
            if not any(isinstance(one, str) and one in self.audience for one in meant):
                raise AuthenticationFailed("the token is meant for somebody else")
        user = claims.get(self.subject_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationFailed(f"the token has no claim {self.subject_claim}")
        return Step(b"", user=user, expires_at_ms=int(expires * 1000))


def read_keys(text: str) -> PyJWKSet:
    """The keys of a JWKS file. ValueError says what is wrong, ImportError that PyJWT is missing."""
    from jwt import PyJWKSet
    from jwt.exceptions import PyJWTError

    try:
        return PyJWKSet.from_json(text)
    except (PyJWTError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"not a JWKS file with keys that can be used: {error}") from None


@dataclass
class OAuthServer:
    rules: TokenRules
    _why: str | None = field(default=None, init=False)
    """Why the token was refused; the exception itself would hold the token."""
    max_message = MAX_OAUTH_MESSAGE

    def respond(self, token: bytes) -> Step | Callable[[], Step]:
        if self._why is not None:
            if token != _READ:
                raise AuthenticationFailed("something after a token that was refused")
            raise AuthenticationFailed(self._why, _REFUSED.decode())
        bearer, acts_as = _bearer(token)

        def check() -> Step:
            try:
                step = self.rules.check(bearer)
            except AuthenticationFailed as error:
                self._why = str(error)
                return Step(_REFUSED)
            if acts_as and acts_as != step.user:
                raise AuthenticationFailed("the client asks to act as another user than its token's")
            return step

        return check


def _bearer(token: bytes) -> tuple[str, str]:
    """The token, and whom the client wants to be: its own user, or nobody said."""
    try:
        found = _INITIAL.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationFailed("the OAUTHBEARER message cannot be read")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise AuthenticationFailed("the OAUTHBEARER message has no bearer token")
    return bearer["token"], found["authzid"] or ""


def _unsigned(token: str) -> Mapping[str, object]:
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise AuthenticationFailed("the token is signed, but this listener only takes unsigned ones")
    head, claims = _json(parts[0]), _json(parts[1])
    if head.get("alg") != "none":
        raise AuthenticationFailed("the token names an algorithm, but has no signature")
    return claims


def _signed(token: str, keys: PyJWKSet) -> Mapping[str, object]:
    import jwt
    from jwt.exceptions import PyJWTError

    head = _json(token.partition(".")[0])
    algorithm, wanted = head.get("alg"), head.get("kid")
    if algorithm not in ALGORITHMS:
        raise AuthenticationFailed("the token is not signed with an algorithm that we take")
    options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False, "verify_iss": False}
    for key in keys.keys:
        if wanted is not None and key.key_id != wanted:
            continue
        try:
            return dict(jwt.decode(token, key.key, algorithms=[str(algorithm)], options=options))  # type: ignore[arg-type]
        except (PyJWTError, ValueError, TypeError):
            continue
    raise AuthenticationFailed("the token is signed with none of the keys")


def _json(part: str) -> Mapping[str, object]:
    try:
        found = json.loads(urlsafe_b64decode(part + _PADDING[len(part) % 4]))
    except (NotBase64, ValueError, KeyError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AuthenticationFailed("the token is not a JWT")
    return found


def _number(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        raise AuthenticationFailed(f"the token's {name} is not a time")
    return float(value)
