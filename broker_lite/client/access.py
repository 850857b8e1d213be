"""How a client gets in: TLS and a log-in, as Kafka's client properties spell them.

security.protocol                 PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
sasl.mechanism                    PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER
sasl.jaas.config                  … required username="alice" password="secret";
sasl.username, sasl.password      librdkafka's words for the same
sasl.oauthbearer.token.endpoint.url   file:///… with a token (OAUTHBEARER), or instead
                                  … required unsecuredLoginStringClaim_sub="alice"; in sasl.jaas.config, for tests
ssl.truststore.location           a PEM file of those we trust (ssl.ca.location); else the system's
ssl.truststore.certificates       the same, written out
ssl.keystore.location             a PEM file with our certificate and key (ssl.certificate.location, ssl.key.location)
ssl.keystore.certificate.chain, ssl.keystore.key   the same, written out
ssl.key.password                  of that key
ssl.endpoint.identification.algorithm   empty: the name in the certificate does not matter
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import tempfile
import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite.errors import ErrorCode, StartRefused, refusal
from broker_lite.shapes import dataclass

if TYPE_CHECKING:
    import ssl

Said = Mapping[str, str]

Exchange = Generator[bytes, bytes, None]
"""Gives what to say, is sent what was answered, and ends when we are in."""

_OPTION = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_FIRST = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[A-Za-z0-9+/]+={0,2}),i=(?P<often>[1-9][0-9]{0,8})(,.*)?")
_TOKENS = "OAUTHBEARER"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _TOKENS)
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MOST_ITERATIONS = 1_000_000
"""No server may keep us hashing for ever."""


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    user: str
    password: str
    """Or the token, for OAUTHBEARER."""

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.user!r})"

    def begin(self) -> Exchange:
        if self.mechanism == _TOKENS:
            return self._token()
        return self._plain() if self.mechanism == "PLAIN" else self._scram()

    def _token(self) -> Exchange:
        """RFC 7628. A token that is not taken is told of in words, which we have to say that we read."""
        why = yield f"n,,\x01auth=Bearer {self.password}\x01\x01".encode()
        if why:
            yield b"\x01"
            raise _not_in(f"the token was not taken: {why.decode('ascii', 'replace')[:200]}")

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
        where = f"{path}: {error.filename}" if error.filename not in (None, path) else path
        raise StartRefused(f"--command-config {where}: {error.strerror or error}") from None
    except ValueError as error:
        raise StartRefused(f"--command-config {path}: {error}") from None


def access(said: Said) -> Access:
    protocol = said.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol is {protocol}; there are {', '.join(_PROTOCOLS)}")
    return Access(
        tls=_tls(said) if protocol.endswith("SSL") else None,
        login=_login(said) if protocol.startswith("SASL") else None,
    )


def _login(said: Said) -> Login:
    mechanism = said.get("sasl.mechanism") or said.get("sasl.mechanisms") or ""
    if mechanism not in _MECHANISMS:
        raise ValueError(f"sasl.mechanism is {mechanism or 'missing'}; there are {', '.join(_MECHANISMS)}")
    options = {key: re.sub(r"\\(.)", r"\1", value) for key, value in _OPTION.findall(said.get("sasl.jaas.config", ""))}
    if mechanism == _TOKENS:
        return Login(mechanism, "", _token(said, options))
    user = said.get("sasl.username") or options.get("username")
    password = said.get("sasl.password") or options.get("password")
    if user is None or password is None:
        raise ValueError("there is no user name and password, neither in sasl.jaas.config nor in sasl.username")
    return Login(mechanism, user, password)


def _token(said: Said, options: Said) -> str:
    url = said.get("sasl.oauthbearer.token.endpoint.url")
    if url is not None:
        if not url.startswith("file:///"):
            raise ValueError(f"sasl.oauthbearer.token.endpoint.url is {url}; this client reads a token from file:///…")
        return Path(url.removeprefix("file://")).read_text().strip()
    user = options.get("unsecuredLoginStringClaim_sub")
    if user is None:
        raise ValueError("there is no token: name its file in sasl.oauthbearer.token.endpoint.url")
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600})
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def _tls(said: Said) -> ssl.SSLContext:
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
        context.load_cert_chain(own, said.get("ssl.key.location"), said.get("ssl.key.password", ""))
    elif said.get("ssl.keystore.certificate.chain") and said.get("ssl.keystore.key"):
        with tempfile.NamedTemporaryFile("w") as file:  # OpenSSL wants a file; this one is readable by us alone
            file.write(f"{said['ssl.keystore.key']}\n{said['ssl.keystore.certificate.chain']}\n")
            file.flush()
            context.load_cert_chain(file.name, password=said.get("ssl.key.password", ""))
    return context
