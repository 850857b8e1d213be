"""How a client gets in: TLS and a log-in, as Kafka's client properties spell them.

security.protocol                 PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
sasl.mechanism                    PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
sasl.jaas.config                  … required username="alice" password="secret";
sasl.username, sasl.password      librdkafka's words for the same
ssl.truststore.location           a PEM file of those we trust (ssl.ca.location); else the system's
ssl.truststore.certificates       the same, written out
ssl.keystore.location             a PEM file with our certificate and key (ssl.certificate.location, ssl.key.location)
ssl.key.password                  of that key
ssl.endpoint.identification.algorithm   empty: the name in the certificate does not matter
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite.errors import ErrorCode, StartRefused, refusal

if TYPE_CHECKING:
    import ssl

Exchange = Generator[bytes, bytes, None]
"""Gives what to say, is sent what was answered, and ends when we are in."""

_OPTION = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_FIRST = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[A-Za-z0-9+/]+={0,2}),i=(?P<often>[1-9][0-9]{0,8})(,.*)?")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MOST_ITERATIONS = 1_000_000
"""No server may keep us hashing for ever."""


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.user!r})"

    def begin(self) -> Exchange:
        return self._plain() if self.mechanism == "PLAIN" else self._scram()

    def _plain(self) -> Exchange:
        yield f"\0{self.user}\0{self.password}".encode()

    def _scram(self) -> Exchange:
        """RFC 5802, without channel binding."""
        name = f"sha{self.mechanism[-3:]}"
        nonce = b64encode(secrets.token_bytes(24)).decode()
        user = self.user.replace("=", "=3D").replace(",", "=2C")
        bare = f"n={user},r={nonce}"
        answer = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
        found = _FIRST.fullmatch(answer)
        if found is None or not found["nonce"].startswith(nonce) or int(found["often"]) > _MOST_ITERATIONS:
            raise _not_in("the server's first SCRAM message cannot be trusted")
        salted = hashlib.pbkdf2_hmac(name, self.password.encode(), b64decode(found["salt"]), int(found["often"]))
        key = hmac.digest(salted, b"Client Key", name)
        without_proof = f"c={b64encode(b'n,,').decode()},r={found['nonce']}"
        whole = f"{bare},{answer},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(name, key).digest(), whole, name)
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        final = yield f"{without_proof},p={proof}".encode()
        expected = b"v=" + b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), whole, name))
        if not hmac.compare_digest(final, expected):
            raise _not_in("the server does not know the password itself")


def _not_in(text: str) -> Exception:
    return refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, text)


@dataclass(frozen=True, slots=True)
class Access:
    tls: ssl.SSLContext | None = None
    login: Login | None = None


def access_from(path: str) -> Access:
    """What a properties file says. StartRefused names what is wrong with it."""
    from broker_lite.config import properties

    try:
        return access(properties.parse(Path(path).read_text()))
    except OSError as error:
        raise StartRefused(f"--command-config {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise StartRefused(f"--command-config {path}: {error}") from None


def access(said: Mapping[str, str]) -> Access:
    protocol = said.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol is {protocol}; there are {', '.join(_PROTOCOLS)}")
    return Access(
        tls=_tls(said) if protocol.endswith("SSL") else None,
        login=_login(said) if protocol.startswith("SASL") else None,
    )


def _login(said: Mapping[str, str]) -> Login:
    mechanism = said.get("sasl.mechanism") or said.get("sasl.mechanisms") or ""
    if mechanism not in _MECHANISMS:
        raise ValueError(f"sasl.mechanism is {mechanism or 'missing'}; there are {', '.join(_MECHANISMS)}")
    options = {key: re.sub(r"\\(.)", r"\1", value) for key, value in _OPTION.findall(said.get("sasl.jaas.config", ""))}
    user = said.get("sasl.username") or options.get("username")
    password = said.get("sasl.password") or options.get("password")
    if user is None or password is None:
        raise ValueError("there is no user name and password, neither in sasl.jaas.config nor in sasl.username")
    return Login(mechanism, user, password)


def _tls(said: Mapping[str, str]) -> ssl.SSLContext:
    import ssl

    for store in ("ssl.truststore.type", "ssl.keystore.type"):
        if said.get(store, "PEM").upper() != "PEM":
            raise ValueError(f"{store} is {said[store]}; this client reads PEM")
    trusted = said.get("ssl.truststore.location") or said.get("ssl.ca.location")
    context = ssl.create_default_context(cafile=trusted, cadata=said.get("ssl.truststore.certificates"))
    if said.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        context.check_hostname = False
    own = said.get("ssl.keystore.location") or said.get("ssl.certificate.location")
    if own is not None:
        context.load_cert_chain(own, said.get("ssl.key.location"), said.get("ssl.key.password"))
    return context
