"""SCRAM (RFC 5802, RFC 7677): a log-in in which the password never travels.

    client  n,,n=user,r=NONCE                     who I am, and a random number
    server  r=NONCE+OURS,s=salt,i=iterations      how your password was salted
    client  c=biws,r=NONCE+OURS,p=proof           a proof that only the password can make of all this
    server  v=signature                           a proof that we know its hash

We keep two hashes made of the password: with `stored_key` a proof can be checked but not made, with `server_key` we
show that we know the user.  Neither lets anybody log in.

What is always true.  The number in the third message is the whole of the one in the second; without that check a
recorded log-in could be played again.  The third message repeats the header of the first, so nobody between us can
take channel binding away; we do not bind channels, and who insists (`p=`) is refused.  A user that does not exist is
asked for a proof like any other, with a salt that is always the same for that name, and refused in the same words.

Names are taken as they are: Kafka's clients do not run SASLprep over them either.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

from broker_lite.security.sasl import AuthenticationFailed, Step
from broker_lite.shapes import dataclass

LEAST_ITERATIONS = 4096
MOST_ITERATIONS = 16384
"""Kafka's bounds for what is stored."""
_NONCE_BYTES = 24
_LONGEST_NAME = 1024
_LONGEST_NONCE = 1024
MAX_SCRAM_MESSAGE = 4096
"""Clients say some hundred bytes. The first message is kept until the second comes, for every connection, as bytes: one
strange letter would make a text four times as large."""

_FIRST = re.compile(
    r"(?P<header>(?P<binding>n|y|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>(?P<mandatory>m=[^,]*,)?n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]+)*)"
)
_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<header>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-oq-z]=[^,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_HASHES = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}
_ESCAPED = re.compile("=2C|=3D")
_NAME_FAULT = re.compile("=(?!2C|3D)")


class ScramMechanism(Enum):
    """The value is the number that travels in the APIs that change users."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-SHA-{self.hash_name[3:]}"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def size(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of a password: not enough to log in with."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Milliseconds of work: not for the loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What to keep of a password that was salted already, as AlterUserScramCredentials brings it."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), iterations
    )


def new_credential(
    mechanism: ScramMechanism, password: str, *, iterations: int = LEAST_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    salt = secrets.token_bytes(_NONCE_BYTES) if salt is None else salt
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def password_fits(mechanism: ScramMechanism, password: str, credential: ScramCredential) -> bool:
    """Whether a password that came in the clear (PLAIN) is the one of which this was kept.  Milliseconds of work."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    again = credential_of(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(again.stored_key, credential.stored_key)


@lru_cache(1024)
def _keyed(name: str, key: bytes) -> Callable[[bytes], bytes]:
    """HMAC (RFC 2104) with a key of the hash's own size. What it makes of the key alone is kept: a user logs in again
    and again, and where all of it takes 8 µs the rest takes 3."""
    new = _HASHES[name]
    block = new().block_size
    assert len(key) <= block
    inner, outer = (new(bytes(byte ^ pad for byte in key.ljust(block, b"\0"))) for pad in (0x36, 0x5C))

    def digest(message: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(message)
        second.update(first.digest())
        return second.digest()

    return digest


class ScramServer:
    """One log-in. `respond` takes the client's two messages in turn."""

    max_message = MAX_SCRAM_MESSAGE

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential | None],
        pepper: bytes,
        *,
        nonce: str | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._pepper = pepper
        """A secret of this process from which the salt of nobody is made."""
        self._ours = nonce or b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        self._name = self._nonce = ""
        self._header = self._said = b""
        self._credential: ScramCredential | None = None
        self._known = False

    def respond(self, token: bytes) -> Step:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("a SCRAM message is not UTF-8") from None
        if self._credential is None:
            return Step(self._first(text))
        return self._final(text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the first SCRAM message cannot be read")
        if found["binding"].startswith("p="):
            raise AuthenticationFailed("channel binding is not supported")
        if found["mandatory"]:
            raise AuthenticationFailed("an extension that we do not know is mandatory")
        if len(found["nonce"]) > _LONGEST_NONCE:
            raise AuthenticationFailed(f"a nonce of {len(found['nonce'])} characters, the limit is {_LONGEST_NONCE}")
        name = _unescape(found["name"])
        if found["authzid"] and _unescape(found["authzid"]) != name:
            raise AuthenticationFailed("the client asks to act as another user than it logs in as")
        self._name, self._header = name, found["header"].encode()
        found_credential = self._find(name)
        self._known = found_credential is not None
        self._credential = found_credential or self._nobody(name)
        self._nonce = found["nonce"] + self._ours
        salt = b64encode(self._credential.salt).decode()
        reply = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{reply},".encode()
        return reply.encode()

    def _final(self, text: str) -> Step:
        credential, name = self._credential, self._mechanism.hash_name
        assert credential is not None
        found = _FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the final SCRAM message cannot be read")
        if _decode(found["header"]) != self._header:
            raise AuthenticationFailed("the final SCRAM message does not repeat the header of the first")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise AuthenticationFailed("the final SCRAM message does not carry our nonce")
        whole = self._said + found["without_proof"].encode()
        signature = _keyed(name, credential.stored_key)(whole)
        proof = _decode(found["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailed(f"a proof of {len(proof)} bytes, expected {len(signature)}")
        client_key = (int.from_bytes(proof) ^ int.from_bytes(signature)).to_bytes(len(proof))
        fits = hmac.compare_digest(_HASHES[name](client_key).digest(), credential.stored_key)
        if not (fits and self._known):
            raise AuthenticationFailed("wrong user name or password")
        return Step(b"v=" + b64encode(_keyed(name, credential.server_key)(whole)), user=self._name)

    def _nobody(self, name: str) -> ScramCredential:
        seed = hmac.digest(self._pepper, name.encode(), "sha512")
        return ScramCredential(seed[:_NONCE_BYTES], b"", seed, LEAST_ITERATIONS)


def _unescape(name: str) -> str:
    if len(name) > _LONGEST_NAME or _NAME_FAULT.search(name) or "\0" in name:
        raise AuthenticationFailed("a user name cannot be read")
    return _ESCAPED.sub(lambda found: "," if found[0] == "=2C" else "=", name)


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64:
        raise AuthenticationFailed("a SCRAM message is not base64 where it should be") from None
