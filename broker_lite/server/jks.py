"""Java's own key store, which `keytool` made by default until Java 9 and many a test still brings along.

A store is a list of private keys, each with its chain of certificates, and of trusted certificates, with a SHA-1 over
all of it and the password at the end.  A private key is hidden under a stream of SHA-1 digests of its password, so
reading it takes no cryptography but that.  Weak as it is, it is the user's file: a test that brings one along must run.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from hashlib import sha1

_PRIVATE_KEY, _CERTIFICATE = 1, 2
_DIGEST = 20
_SALT_OF_STORES = b"Mighty Aphrodite"
_SEQUENCE, _OCTETS = 0x30, 0x04
_PROTECTED = bytes.fromhex("2b060104012a02110101")
"""The object identifier of the one way in which a key is hidden in such a store."""


class BadStore(ValueError):
    """Why the store cannot be read."""


def own(raw: bytes, password: str | None, key_password: str | None) -> bytes:
    """The first private key with its chain, as PEM; nothing if there is none."""
    for hidden, certificates in _entries(raw, password):
        if hidden is not None:
            key = _uncovered(hidden, _secret(key_password or password or ""))
            return _pem("PRIVATE KEY", key) + b"".join(_pem("CERTIFICATE", one) for one in certificates)
    return b""


def trusted(raw: bytes, password: str | None) -> bytes:
    """Every certificate that stands for somebody, as PEM: those alone, and those of the keys."""
    return b"".join(_pem("CERTIFICATE", certificates[0]) for _, certificates in _entries(raw, password) if certificates)


def _entries(raw: bytes, password: str | None) -> Iterator[tuple[bytes | None, list[bytes]]]:
    """(a hidden private key or None, certificates) of each entry.

    Without a password nobody can tell whether the store was tampered with; as in Java it is read all the same.
    """
    body = raw[:-_DIGEST]
    if password is not None and sha1(_secret(password) + _SALT_OF_STORES + body).digest() != raw[-_DIGEST:]:
        raise BadStore("its password is another, or it is damaged")
    read = _Reading(body)
    read.take(4)  # which says that it is one
    version = read.number()
    if version not in (1, 2):
        raise BadStore(f"it has version {version}")
    for _ in range(read.number()):
        kind = read.number()
        read.take(read.number(2))  # its alias
        read.take(8)  # when it was made
        if kind == _PRIVATE_KEY:
            hidden = read.take(read.number())
            yield hidden, [read.certificate(version) for _ in range(read.number())]
        elif kind == _CERTIFICATE:
            yield None, [read.certificate(version)]
        else:
            raise BadStore(f"it has an entry of kind {kind}")


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise BadStore(f"it ends {count - (len(self._data) - self._at)} bytes too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.take(self.number(2))  # its kind, which is X.509
        return self.take(self.number())

    def tagged(self, tag: int) -> bytes:
        """The content of the next DER element, which must be of this kind."""
        found, length = self.take(2)
        if length & 0x80:
            length = self.number(length & 0x7F)
        if found != tag:
            raise BadStore("its private key is not hidden in the way of such stores")
        return self.take(length)


def _secret(password: str) -> bytes:
    return password.encode("utf-16-be")


def _uncovered(hidden: bytes, secret: bytes) -> bytes:
    inside = _Reading(_Reading(hidden).tagged(_SEQUENCE))
    if _PROTECTED not in inside.tagged(_SEQUENCE):
        raise BadStore("its private key is not hidden in the way of such stores")
    octets = inside.tagged(_OCTETS)
    digest, covered, check = octets[:_DIGEST], octets[_DIGEST:-_DIGEST], octets[-_DIGEST:]
    stream = bytearray()
    while len(stream) < len(covered):
        digest = sha1(secret + digest).digest()
        stream += digest
    plain = bytes(one ^ other for one, other in zip(covered, stream, strict=False))
    if sha1(secret + plain).digest() != check:
        raise BadStore("the password of its private key is another: set ssl.key.password")
    return plain


def _pem(kind: str, der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    name = kind.encode()
    return b"\n".join([b"-----BEGIN %s-----" % name, *lines, b"-----END %s-----" % name, b""])
