"""Java's key stores."""

from __future__ import annotations

import ssl
from hashlib import sha1

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from broker_lite.server.jks import BadStore, own, trusted
from tests.server.stores import KEY_PASSWORD, KEY_STORE, STORE_PASSWORD, TRUST_STORE


def sealed(body: bytes) -> bytes:
    return body + sha1(STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def test_the_key_that_keytool_wrote_belongs_to_its_certificate() -> None:
    pem = own(KEY_STORE, STORE_PASSWORD, KEY_PASSWORD)
    key = load_pem_private_key(pem, None)
    (certificate,) = x509.load_pem_x509_certificates(pem)
    assert key.public_key() == certificate.public_key()


def test_a_store_of_certificates_has_whom_to_trust_and_no_key() -> None:
    (certificate,) = x509.load_pem_x509_certificates(own(KEY_STORE, STORE_PASSWORD, KEY_PASSWORD))
    assert x509.load_pem_x509_certificates(trusted(TRUST_STORE, STORE_PASSWORD)) == [certificate]
    assert own(TRUST_STORE, STORE_PASSWORD, None) == b""


def test_whose_key_is_in_the_store_is_trusted_and_nobody_needs_its_password() -> None:
    assert trusted(KEY_STORE, STORE_PASSWORD) == trusted(TRUST_STORE, STORE_PASSWORD)


def test_without_a_password_it_is_read_as_java_does() -> None:
    assert trusted(TRUST_STORE, None) == trusted(TRUST_STORE, STORE_PASSWORD)
    assert own(KEY_STORE, None, KEY_PASSWORD) == own(KEY_STORE, STORE_PASSWORD, KEY_PASSWORD)


@pytest.mark.parametrize(
    ("raw", "password", "key_password", "why"),
    [
        (KEY_STORE, "wrong", KEY_PASSWORD, "its password is another"),
        (KEY_STORE, STORE_PASSWORD, "wrong", "set ssl.key.password"),
        (KEY_STORE, STORE_PASSWORD, None, "set ssl.key.password"),
        (KEY_STORE[:-21] + b"x" + KEY_STORE[-20:], STORE_PASSWORD, KEY_PASSWORD, "or it is damaged"),
        (sealed(KEY_STORE[:60]), STORE_PASSWORD, KEY_PASSWORD, "bytes too early"),
        (sealed(KEY_STORE[:7] + b"\x03" + KEY_STORE[8:-20]), STORE_PASSWORD, KEY_PASSWORD, "version 3"),
        (sealed(KEY_STORE[:15] + b"\x05" + KEY_STORE[16:-20]), STORE_PASSWORD, KEY_PASSWORD, "an entry of kind 5"),
        (
            sealed(KEY_STORE[:-20].replace(b"\x2a\x02\x11", b"\x2a\x02\x12")),
            STORE_PASSWORD,
            KEY_PASSWORD,
            "way of such",
        ),
        (b"\xfe\xed\xfe\xed", None, None, "too early"),
    ],
)
def test_what_cannot_be_read_is_told(raw: bytes, password: str | None, key_password: str | None, why: str) -> None:
    with pytest.raises(BadStore, match=why):
        own(raw, password, key_password)


@pytest.mark.parametrize("at", range(0, len(KEY_STORE) - 20, 7))
def test_no_byte_that_is_another_does_more_than_be_refused(at: int) -> None:
    changed = bytearray(KEY_STORE)
    changed[at] ^= 0xFF
    try:
        pem = own(bytes(changed), None, KEY_PASSWORD)
    except BadStore:
        return
    assert pem.startswith(b"-----BEGIN PRIVATE KEY") or not pem


def test_openssl_takes_what_comes_out() -> None:
    context = ssl.create_default_context(cadata=trusted(TRUST_STORE, None).decode())
    assert context.cert_store_stats()["x509"] == 1
