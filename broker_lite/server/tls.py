"""TLS: certificates from PEM, PKCS#12 or JKS files, who the client is, and what went wrong in words.

`Tls` belongs to one listener.  `reload` reads its files again; a certificate that cannot be read leaves the old one in
place.  The file itself says what it is: `-----BEGIN` is PEM, a DER sequence is PKCS#12 (as Java's keytool makes it,
whatever the name), Java's own JKS has a number of its own (see jks.py).

PKCS#12 needs `cryptography` (`pip install broker-lite[tls]`).  OpenSSL wants a private key as a file, so one that came
out of another file or a setting passes through a file in memory that nobody else can open.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_lite.config import security as keys
from broker_lite.config.key import Key
from broker_lite.config.sources import Settings
from broker_lite.errors import StartRefused
from broker_lite.logs import get_logger
from broker_lite.security.principals import ANONYMOUS, MappingRules, principal
from broker_lite.server.farewell import Handshake
from broker_lite.shapes import dataclass

log = get_logger(__name__)

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_MISTAKES = {
    "HTTP_REQUEST": "an HTTP client is talking to a TLS listener: use a Kafka client with security.protocol=SSL",
    "WRONG_VERSION_NUMBER": "a client without TLS is talking to a TLS listener: use security.protocol=SSL or SASL_SSL",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate and ssl.client.auth is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not signed by anybody in ssl.truststore.location",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust our certificate: give it the CA's",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not trust our certificate: give it the CA's",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not trust our certificate: give it the CA's",
    "UNSUPPORTED_PROTOCOL": "the client speaks no version of TLS that ssl.enabled.protocols allows",
    "NO_SHARED_CIPHER": "the client and we have no cipher in common",
}


@dataclass(slots=True)
class Stores:
    """Where the certificates of one listener are, as its settings say."""

    keystore: str | None
    keystore_password: str | None
    key_password: str | None
    key_text: str | None
    chain_text: str | None
    truststore: str | None
    truststore_password: str | None
    trusted_text: str | None


class Tls:
    def __init__(self, settings: Settings, listener: str) -> None:
        """StartRefused if the certificates cannot be used."""

        def of(key: Key[str | None]) -> str | None:
            return settings.of_listener(listener, key)

        self._listener = listener
        self._stores = Stores(
            of(keys.SSL_KEYSTORE_LOCATION),
            of(keys.SSL_KEYSTORE_PASSWORD),
            of(keys.SSL_KEY_PASSWORD),
            of(keys.SSL_KEYSTORE_KEY),
            of(keys.SSL_KEYSTORE_CERTIFICATE_CHAIN),
            of(keys.SSL_TRUSTSTORE_LOCATION),
            of(keys.SSL_TRUSTSTORE_PASSWORD),
            of(keys.SSL_TRUSTSTORE_CERTIFICATES),
        )
        self._client_auth = settings.of_listener(listener, keys.SSL_CLIENT_AUTH)
        self._protocols = settings.of_listener(listener, keys.SSL_ENABLED_PROTOCOLS)
        self.handshake_seconds = settings.get(keys.TLS_HANDSHAKE_TIMEOUT_MS) / 1000
        try:
            self._rules = MappingRules(settings.of_listener(listener, keys.SSL_PRINCIPAL_MAPPING_RULES))
        except ValueError as error:
            raise StartRefused(f"{keys.SSL_PRINCIPAL_MAPPING_RULES.name}: {error}") from None
        self.context = self._load()

    def reload(self) -> None:
        """Read the files again, for connections from now on."""
        try:
            self.context = self._load()
        except StartRefused as error:
            log.error("tls.not_reloaded", listener=self._listener, reason=str(error))
        else:
            log.info("tls.reloaded", listener=self._listener)

    def principal_of(self, shown: object) -> str:
        """Who a client is by the certificate it showed, if any."""
        assert isinstance(shown, (ssl.SSLObject, ssl.SSLSocket))
        certificate = shown.getpeercert()
        if not certificate or "subject" not in certificate:
            return ANONYMOUS
        subject = [
            [(str(name), str(value)) for name, value in part]  # type: ignore[str-unpack]
            for part in certificate["subject"]
        ]
        return principal(self._rules.user(subject))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = Handshake
        context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in self._protocols else ssl.TLSVersion.TLSv1_3
        context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in self._protocols else ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.verify_mode = _CLIENT_AUTH[self._client_auth]
        try:
            self._load_own(context)
            self._load_trusted(context)
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                why = error.reason or f"a file is damaged, or {keys.SSL_KEY_PASSWORD.name} is another"
                raise StartRefused(f"listener {self._listener}: the certificates do not fit: {why}") from None
            raise StartRefused(f"listener {self._listener}: {error.filename}: {error.strerror}") from None
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        stores = self._stores
        password = stores.key_password or stores.keystore_password or ""
        if stores.key_text and stores.chain_text:
            pem = f"{stores.key_text}\n{stores.chain_text}".encode()
        elif stores.keystore is not None:
            pem = _read(stores.keystore, stores.keystore_password, stores.key_password, own=True)
        else:
            raise StartRefused(
                f"listener {self._listener} speaks TLS and has no certificate: set {keys.SSL_KEYSTORE_LOCATION.name}, "
                "or make one with `broker-lite certs DIR` and start with --tls DIR"
            )
        if b"PRIVATE KEY-----" not in pem:
            where = stores.keystore or keys.SSL_KEYSTORE_KEY.name
            raise StartRefused(f"listener {self._listener}: {where} holds no private key")
        with _as_file(pem) as path:
            context.load_cert_chain(path, password=lambda: password)

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        stores = self._stores
        if stores.trusted_text:
            pem = stores.trusted_text.encode()
        elif stores.truststore is not None:
            pem = _read(stores.truststore, stores.truststore_password, own=False)
        elif self._client_auth == "none":
            return
        else:
            raise StartRefused(
                f"listener {self._listener}: {keys.SSL_CLIENT_AUTH.name} is {self._client_auth}, but "
                f"{keys.SSL_TRUSTSTORE_LOCATION.name} does not say whom to trust"
            )
        context.load_verify_locations(cadata=pem.decode("ascii", "replace"))


def mistake(error: OSError) -> str:
    """Why a handshake failed, for somebody who has to find the cause."""
    if not isinstance(error, ssl.SSLError):
        late = isinstance(error, (TimeoutError, ConnectionAbortedError))
        return "no TLS handshake in time" if late else "the client hung up during the TLS handshake"
    reason = getattr(error, "reason", None)  # OpenSSL's; ours have none
    return _MISTAKES.get(reason or "") or f"no TLS handshake: {reason or error.strerror}"


def _read(location: str, password: str | None, key_password: str | None = None, *, own: bool) -> bytes:
    """The file as PEM, whatever it is: a key with its chain, or whom to trust."""
    raw = Path(location).read_bytes()
    if b"-----BEGIN" in raw[:10_000]:
        return raw
    if raw.startswith(_JKS):
        from broker_lite.server import jks

        try:
            return jks.own(raw, password, key_password) if own else jks.trusted(raw, password)
        except jks.BadStore as error:
            raise StartRefused(f"{location} is a JKS file that cannot be read: {error}") from None
    if raw.startswith(_JCEKS):
        raise StartRefused(
            f"{location} is a JCEKS file; convert it: keytool -importkeystore -srckeystore {location} "
            "-srcstoretype jceks -destkeystore new.p12 -deststoretype pkcs12"
        )
    return _from_pkcs12(location, raw, password)


def _from_pkcs12(location: str, raw: bytes, password: str | None) -> bytes:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise StartRefused(
            f"{location} is a PKCS#12 file, which needs another package: pip install 'broker-lite[tls]'"
        ) from None
    try:
        store = pkcs12.load_pkcs12(raw, password.encode() if password is not None else None)
    except ValueError:
        raise StartRefused(f"{location} is not a PKCS#12 file, or its password is another") from None
    certificates = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    parts = [one.public_bytes(Encoding.PEM) for one in certificates]
    if store.key is not None:
        parts.insert(0, store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return b"".join(parts)


@contextmanager
def _as_file(pem: bytes) -> Iterator[str]:
    """The bytes under a name, for as long as OpenSSL reads them."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("pem")
        try:
            os.write(file, pem)
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
    else:
        with tempfile.NamedTemporaryFile() as kept:  # readable by us alone
            kept.write(pem)
            kept.flush()
            yield kept.name
