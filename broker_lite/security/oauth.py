"""OAUTHBEARER (RFC 7628): the client shows a token, a JWT, that says who it is and until when.

A token is worth as much as its signature.  `TokenRules` with `keys` (the text of a JWKS file) takes tokens that one of
them signed; without, tokens that nobody signed (`alg: none`), which is a game for tests.  Never both: a token without
a signature does not pass where signatures are asked for, and the algorithm is one of the asymmetric ones, so a public
key is never taken for a shared secret.  Keys come from that file alone, whatever a token's header offers (`jwk`, `jku`,
`x5c`), and a key is used for what it was made for: not for encryption, not with another algorithm than its own.

A signed token says when it was issued and when it ends, and is meant for us: one with an audience passes only where
`sasl.oauthbearer.expected.audience` has it.  All of that is as in Kafka 4.3 (`BrokerJwtValidator`).

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
    from jwt import PyJWK

_INITIAL = re.compile(r"n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x00\x01]*\x01)*)\x01")
_BEARER = re.compile(r"Bearer +(?P<token>[-_.A-Za-z0-9]+=*)", re.IGNORECASE)
_PADDING = {0: "", 2: "==", 3: "="}
_REFUSED = b'{"status":"invalid_token"}'
_READ = b"\x01"
_BLANKS = "".join(map(chr, range(33)))
"""What Kafka trims off a name."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MIN_RSA_BITS = 2048
LONGEST_TOKEN = 65_536
MAX_OAUTH_MESSAGE = LONGEST_TOKEN + 16_384
"""With extensions."""


@dataclass(slots=True)
class TokenRules:
    now_ms: Callable[[], int]
    keys: tuple[SigningKey, ...] | None = None
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
        expires = self._check_times(claims)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationFailed("the token is of another issuer")
        self._check_audience(claims.get("aud"))
        user = claims.get(self.subject_claim)
        user = user.strip(_BLANKS) if isinstance(user, str) else ""
        if not user:
            raise AuthenticationFailed(f"the token has no claim {self.subject_claim}")
        return Step(b"", user=user, expires_at_ms=int(expires * 1000))

    def _check_times(self, claims: Mapping[str, object]) -> float:
        """Returns when it ends."""
        now = self.now_ms() / 1000
        expires, begins, issued = (_number(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None or expires + self.skew_seconds <= now:
            raise AuthenticationFailed("the token has expired, or does not say when it does")
        if begins is not None and begins - self.skew_seconds > now:
            raise AuthenticationFailed("the token is not valid yet")
        if issued is None and self.keys is not None:
            raise AuthenticationFailed("the token does not say when it was issued")
        if expires < max(begins or expires, issued or expires):
            raise AuthenticationFailed("the token ends before it begins")
        return expires

    def _check_audience(self, claim: object) -> None:
        if not self.audience and (claim is None or self.keys is None):
            return
        meant = claim if isinstance(claim, list) else [claim]
        if not any(isinstance(one, str) and one in self.audience for one in meant):
            raise AuthenticationFailed("the token is meant for somebody else")


@dataclass(frozen=True, slots=True)
class SigningKey:
    jwk: PyJWK
    algorithm: str | None
    """The only one it is for, if it says so."""


def read_keys(text: str) -> tuple[SigningKey, ...]:
    """The keys of a JWKS file that sign tokens. ValueError says what is wrong, ImportError that PyJWT is missing."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    why = "there are none that sign"
    keys: list[SigningKey] = []
    try:
        for one in json.loads(text)["keys"]:
            if not _signs(one):
                continue
            try:
                jwk = PyJWK(one)
            except PyJWTError as error:  # one of a kind that we do not know leaves the others
                why = str(error)
                continue
            if one["kty"] == "RSA" and jwk.key.key_size < MIN_RSA_BITS:
                why = f"an RSA key of {jwk.key.key_size} bits, the least is {MIN_RSA_BITS}"
                continue
            keys.append(SigningKey(jwk, one.get("alg")))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        keys = []
    if not keys:
        raise ValueError(f"not a JWKS file with keys that can be used: {why}")
    return tuple(keys)


def _signs(jwk: Mapping[str, object]) -> bool:
    operations = jwk.get("key_ops")
    return (
        jwk.get("kty") != "oct"
        and jwk.get("use", "sig") == "sig"
        and (not isinstance(operations, list) or "verify" in operations)
    )


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


def _signed(token: str, keys: tuple[SigningKey, ...]) -> Mapping[str, object]:
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    parts = token.split(".")
    head = _json(parts[0])
    algorithm, wanted = head.get("alg"), head.get("kid")
    if len(parts) != 3 or algorithm not in ALGORITHMS:
        raise AuthenticationFailed("the token is not signed with an algorithm that we take")
    if "crit" in head:  # RFC 7515: whoever does not know such a header refuses the token
        raise AuthenticationFailed("the token has a header that must be understood, and is not")
    for key in keys:
        if (wanted is not None and key.jwk.key_id != wanted) or key.algorithm not in (None, algorithm):
            continue
        try:
            PyJWS().decode(token, key.jwk.key, algorithms=[str(algorithm)])
        except (PyJWTError, ValueError, TypeError):
            continue
        return _json(parts[1])
    raise AuthenticationFailed("the token is signed with none of the keys")


def _json(part: str) -> Mapping[str, object]:
    try:
        raw = urlsafe_b64decode(part + _PADDING[len(part) % 4])
        found = json.loads(raw, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (NotBase64, ValueError, KeyError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AuthenticationFailed("the token is not a JWT")
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Who reads the first of two claims and who reads the last would see two tokens."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _number(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        raise AuthenticationFailed(f"the token's {name} is not a time")
    return float(value)
