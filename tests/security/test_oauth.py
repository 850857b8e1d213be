"""Tokens: whose are believed, until when, and what an attacker would try."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from broker_lite.security.oauth import OAuthServer, TokenRules, read_keys
from broker_lite.security.sasl import AuthenticationFailed, Step

NOW = 1_700_000_000


def part(value: object) -> bytes:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def unsigned(alg: str = "none", /, **claims: object) -> bytes:
    return part({"alg": alg}) + b"." + part(claims) + b"."


def rules(**more: object) -> TokenRules:
    return TokenRules(lambda: NOW * 1000, **more)  # type: ignore[arg-type]


def test_an_unsigned_token_names_its_user_and_its_end() -> None:
    step = rules().check(unsigned(sub="alice", exp=NOW + 60).decode())
    assert (step.user, step.expires_at_ms) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"sub": "a"}, "expired"),
        ({"sub": "a", "exp": NOW - 31}, "expired"),
        ({"sub": "a", "exp": "soon"}, "not a time"),
        ({"sub": "a", "exp": True}, "not a time"),
        ({"sub": "a", "exp": 1e308}, "not a time"),
        ({"sub": "a", "exp": NOW + 60, "nbf": NOW + 31}, "not valid yet"),
        ({"exp": NOW + 60}, "no claim sub"),
        ({"sub": " ", "exp": NOW + 60}, "no claim sub"),
        ({"sub": ["a"], "exp": NOW + 60}, "no claim sub"),
    ],
)
def test_a_token_that_is_not_believed(claims: dict[str, object], why: str) -> None:
    with pytest.raises(AuthenticationFailed, match=why):
        rules().check(unsigned(**claims).decode())


def test_a_token_is_of_the_right_issuer_and_for_us() -> None:
    ours = rules(issuer="https://us", audience=("kafka",))
    good = {"sub": "a", "exp": NOW + 60, "iss": "https://us", "aud": ["web", "kafka"]}
    assert ours.check(unsigned(**good).decode()).user == "a"
    for wrong in ({"iss": "https://them"}, {"aud": "web"}, {"aud": None}):
        with pytest.raises(AuthenticationFailed):
            ours.check(unsigned(**{**good, **wrong}).decode())


RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
KEYS = json.dumps(
    {
        "keys": [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "one", "use": "sig"},
            {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key())), "kid": "two"},
        ]
    }
)
CLAIMS = {"sub": "alice", "iat": NOW, "exp": NOW + 60}


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA, "RS256", "one"), (CURVE, "ES256", "two"), (RSA, "RS512", None)]
)
def test_a_token_that_a_known_key_signed(key: rsa.RSAPrivateKey, algorithm: str, kid: str | None) -> None:
    token = jwt.encode(CLAIMS, key, algorithm=algorithm, headers={"kid": kid} if kid else None)
    assert rules(keys=read_keys(KEYS)).check(token).user == "alice"


def test_a_token_that_nobody_or_a_stranger_signed_is_refused_where_signatures_count() -> None:
    strict = rules(keys=read_keys(KEYS))
    stranger = rsa.generate_private_key(65537, 2048)
    good = jwt.encode(CLAIMS, RSA, algorithm="RS256", headers={"kid": "one"})
    head, claims, signature = good.split(".")
    for token in (
        unsigned(**CLAIMS).decode(),
        jwt.encode(CLAIMS, stranger, algorithm="RS256"),
        jwt.encode(CLAIMS, RSA, algorithm="RS256", headers={"kid": "two"}),
        jwt.encode(CLAIMS, "0123456789abcdef0123456789abcdef", algorithm="HS256"),
        f"{head}.{part({**CLAIMS, 'sub': 'admin'}).decode()}.{signature}",
        f"{head}.{claims}.",
        "a.b.c",
        "",
    ):
        with pytest.raises(AuthenticationFailed):
            strict.check(token)


def test_a_signed_token_is_refused_where_none_can_be_checked() -> None:
    with pytest.raises(AuthenticationFailed, match="signed"):
        rules().check(jwt.encode(CLAIMS, RSA, algorithm="RS256"))
    with pytest.raises(AuthenticationFailed, match="algorithm"):
        rules().check(unsigned("RS256", **CLAIMS).decode())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', '{"keys": 7}'])
def test_a_file_without_keys_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JWKS"):
        read_keys(text)


def test_the_message_around_the_token() -> None:
    token = unsigned(sub="alice", exp=NOW + 60)
    good = OAuthServer(rules()).respond(b"n,,\x01host=x\x01auth=Bearer " + token + b"\x01\x01")
    assert not isinstance(good, Step)
    assert good().user == "alice"
    for wrong in (
        b"p=x,,\x01auth=Bearer " + token + b"\x01\x01",
        b"n,,\x01auth=Basic " + token + b"\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer " + token + b"\x01",
        b"\xff",
        b"",
    ):
        with pytest.raises(AuthenticationFailed):
            OAuthServer(rules()).respond(wrong)


def test_who_shows_a_token_is_its_user_and_nobody_else() -> None:
    token = unsigned(sub="alice", exp=NOW + 60)
    same = OAuthServer(rules()).respond(b"n,a=alice,\x01auth=Bearer " + token + b"\x01\x01")
    assert not isinstance(same, Step)
    assert same().user == "alice"
    other = OAuthServer(rules()).respond(b"n,a=admin,\x01auth=Bearer " + token + b"\x01\x01")
    assert not isinstance(other, Step)
    with pytest.raises(AuthenticationFailed, match="another user"):
        other()


def test_a_token_that_is_refused_is_told_of_twice() -> None:
    """In JSON at first; when the client has said that it read that, once more as Kafka's error message."""
    server = OAuthServer(rules())
    first = server.respond(b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=NOW - 3600) + b"\x01\x01")
    assert not isinstance(first, Step)
    assert (first().token, first().user) == (b'{"status":"invalid_token"}', None)
    with pytest.raises(AuthenticationFailed, match="expired") as refused:
        server.respond(b"\x01")
    assert refused.value.told == '{"status":"invalid_token"}'
    with pytest.raises(AuthenticationFailed) as refused:
        server.respond(b"n,,\x01auth=Bearer " + unsigned(sub="alice", exp=NOW + 60) + b"\x01\x01")
    assert refused.value.told is None
