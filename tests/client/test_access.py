"""Client properties, and what is wrong with them in words."""

from __future__ import annotations

import json
import ssl
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest

from broker_lite.cli import certs
from broker_lite.client.access import access, access_from
from broker_lite.errors import BrokerError, StartRefused

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password="se;cret";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def test_nothing_said_is_nothing_asked_for() -> None:
    assert (access({}).tls, access({}).login) == (None, None)


def test_a_login_is_kafkas_line_or_librdkafkas_words() -> None:
    for said in ({"sasl.jaas.config": JAAS}, {"sasl.username": 'al"ice', "sasl.password": "se;cret"}):
        login = access(SASL | said).login
        assert login is not None
        assert (login.mechanism, login.user, login.password) == ("PLAIN", 'al"ice', "se;cret")
        assert "cret" not in repr(login)


def test_a_token_is_made_for_tests_or_read_from_a_file(tmp_path: Path) -> None:
    tokens = SASL | {"sasl.mechanism": "OAUTHBEARER"}
    line = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
    made = access(tokens | {"sasl.jaas.config": line}).login
    assert made is not None
    claims = made.password.split(".")[1]
    assert json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"] == "alice"
    (tmp_path / "token").write_text("a.b.c\n")
    read = access(tokens | {"sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"}).login
    assert read is not None
    assert read.password == "a.b.c"


def test_a_token_that_is_not_taken_is_refused_in_the_servers_words() -> None:
    line = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
    login = access(SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": line}).login
    assert login is not None
    exchange = login.begin()
    assert next(exchange).startswith(b"n,,\x01auth=Bearer ")
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(BrokerError, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is TLS"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI"),
        (SASL, "no user name and password"),
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "no token"),
        (
            SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://login.test/"},
            "file:///",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "reads PEM"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/ca.pem"}, "No such file"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, said: dict[str, str], why: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
    with pytest.raises(StartRefused, match=why):
        access_from(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"--command-config .*/none: No such file"):
        access_from(str(tmp_path / "none"))


def test_certificates_are_files_or_text(tmp_path: Path) -> None:
    certs.make(tmp_path, ["localhost"])
    ours = tmp_path / "client-cert.pem", tmp_path / "client-key.pem"
    ways = [
        {"ssl.keystore.location": str(tmp_path / "client.pem")},
        {"ssl.certificate.location": str(ours[0]), "ssl.key.location": str(ours[1])},
        {"ssl.keystore.certificate.chain": ours[0].read_text(), "ssl.keystore.key": ours[1].read_text()},
    ]
    for way in ways:
        made = access({"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "ca.pem")} | way)
        assert made.tls is not None
        assert made.tls.verify_mode is ssl.CERT_REQUIRED
        assert made.tls.check_hostname
