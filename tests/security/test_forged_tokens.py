"""Tokens as an attacker makes them: every part that can be changed is, and only what a known key signed is believed."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64encode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.security.oauth import LONGEST_TOKEN, OAuthServer, TokenRules, read_keys
from broker_lite.security.sasl import AuthenticationFailed, Step
from tests.security.test_oauth import CLAIMS, CURVE, KEYS, NOW, RSA, part, rules, unsigned

STRICT = rules(keys=read_keys(KEYS))
PUBLIC = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
STRANGER = rsa.generate_private_key(65537, 2048)


def signed(head: dict[str, object] | None = None, /, claims: object = None, key: rsa.RSAPrivateKey = RSA) -> str:
    """With any claims, also those that a library would not write."""
    raw = claims if isinstance(claims, bytes) else json.dumps(CLAIMS if claims is None else claims).encode()
    return jwt.PyJWS().encode(raw, key, algorithm="RS256", headers={"kid": "one", **(head or {})})


def refused(token: str, strict: TokenRules = STRICT) -> str:
    with pytest.raises(AuthenticationFailed) as error:
        strict.check(token)
    return str(error.value)


def changed(head: dict[str, object]) -> str:
    """A good signature, of another header."""
    _, claims, signature = signed().split(".")
    return f"{part(head).decode()}.{claims}.{signature}"


def test_what_is_forged_here_passes_as_it_is() -> None:
    assert STRICT.check(signed()).user == "alice"


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", None, ["none"], True, 0, "HS256", "RS256 "])
def test_no_spelling_of_no_algorithm_passes_where_signatures_count(alg: object) -> None:
    claims = part(CLAIMS).decode()
    for signature in ("", signed().rpartition(".")[2]):
        refused(f"{part({'alg': alg, 'kid': 'one'}).decode()}.{claims}.{signature}")


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("secret", [PUBLIC, PUBLIC.strip(), b"", KEYS.encode()], ids=["pem", "strip", "empty", "jwks"])
def test_the_public_key_is_no_secret_that_signs(alg: str, secret: bytes) -> None:
    """Algorithm confusion: libraries have taken the key that everybody has for the one that nobody has."""
    head, claims = part({"alg": alg, "kid": "one"}), part(CLAIMS)
    made = jwt.algorithms.HMACAlgorithm(getattr(jwt.algorithms.HMACAlgorithm, alg.replace("HS", "SHA")))
    signature = urlsafe_b64encode(made.sign(head + b"." + claims, secret)).rstrip(b"=")
    assert "algorithm" in refused(b".".join([head, claims, signature]).decode())


@pytest.mark.parametrize(
    "head",
    [
        {"jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(STRANGER.public_key()))},
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/cert", "x5c": ["AAAA"]},
        {"kid": "../../../../dev/null"},
        {"kid": "two"},
        {"kid": ""},
        {"kid": 7},
    ],
    ids=["jwk", "jku", "x5u", "path", "two", "empty", "number"],
)
def test_a_key_that_the_token_brings_along_is_not_used(head: dict[str, object]) -> None:
    refused(changed({"alg": "RS256", "kid": "one", **head}))
    if isinstance(head.get("kid", ""), str):
        refused(signed(head, key=STRANGER))


@pytest.mark.parametrize("alg", ["RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"])
def test_a_signature_counts_for_its_own_algorithm_only(alg: str) -> None:
    refused(changed({"alg": alg, "kid": "one"}))
    refused(changed({"alg": alg}))


def test_a_header_that_must_be_understood_is_not() -> None:
    """RFC 7515, 4.1.11; with `b64` the payload would be something else."""
    assert "must be understood" in refused(signed({"crit": ["exp"], "exp": 0}))
    refused(changed({"alg": "RS256", "kid": "one", "b64": False, "crit": ["b64"]}))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": None}, "expired"),
        ({"exp": NOW - 31}, "expired"),
        ({"exp": True}, "not a time"),
        ({"exp": "9999999999"}, "not a time"),
        ({"exp": [NOW + 60]}, "not a time"),
        ({"exp": 10**400}, "not a JWT|not a time"),
        ({"exp": -1}, "expired"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"nbf": "soon"}, "not a time"),
        ({"nbf": NOW + 25, "exp": NOW + 20}, "ends before"),
        ({"iat": None}, "issued"),
        ({"iat": True}, "not a time"),
        ({"iat": NOW + 61}, "ends before"),
        ({"sub": None}, "no claim sub"),
        ({"sub": ""}, "no claim sub"),
        ({"sub": " \t\n"}, "no claim sub"),
        ({"sub": {"name": "alice"}}, "no claim sub"),
        ({"aud": "web"}, "somebody else"),
        ({"aud": []}, "somebody else"),
        ({"aud": {"kafka": 1}}, "somebody else"),
    ],
    ids=str,
)
def test_what_a_good_signature_does_not_heal(claims: dict[str, object], why: str) -> None:
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    with pytest.raises(AuthenticationFailed, match=why):
        STRICT.check(signed(claims=said))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1E400", "9" * 5000])
def test_numbers_that_are_none_are_no_times(number: str) -> None:
    claims = f'{{"sub": "alice", "iat": {NOW}, "exp": {number}}}'.encode()
    refused(signed(claims=claims))
    refused((part({"alg": "none"}) + b"." + urlsafe_b64encode(claims).rstrip(b"=") + b".").decode(), rules())


@pytest.mark.parametrize(
    "claims",
    [
        f'{{"sub": "alice", "sub": "admin", "iat": {NOW}, "exp": {NOW + 60}}}',
        f'{{"sub": "alice", "iat": {NOW}, "exp": 1, "exp": {NOW + 60}}}',
        "[" * 20_000 + "]" * 20_000,
        '{"a":' * 8000 + "1" + "}" * 8000,
        "[]",
        "null",
        '"alice"',
        "",
        "{",
        '\\xff\\xfe{"sub": "alice"}',
    ],
    ids=lambda text: text[:30],
)
def test_claims_that_two_readers_could_read_in_two_ways_are_refused(claims: str) -> None:
    assert refused(signed(claims=claims.encode()))


def test_a_header_with_two_algorithms_is_refused() -> None:
    head = urlsafe_b64encode(b'{"alg": "RS256", "alg": "none", "kid": "one"}').rstrip(b"=").decode()
    assert "not a JWT" in refused(f"{head}.{part(CLAIMS).decode()}.")


@pytest.mark.parametrize(
    "shape", ["{0}.{1}", "{0}.{1}.{2}.{2}", ".{1}.{2}", "{0}..{2}", "{0}.{1}.{2}.", ".{0}.{1}.{2}", "{0}.{1}.{2}.."]
)
def test_a_token_has_three_parts(shape: str) -> None:
    refused(shape.format(*signed().split(".")))
    refused(shape.format(*unsigned(**CLAIMS).decode().split(".")), rules())


def test_a_token_is_for_those_it_names() -> None:
    """Also where no audience is expected: one that names somebody is not for everybody, as in Kafka 4.3."""
    ours = rules(keys=STRICT.keys, audience=("kafka", "broker"), issuer="https://us")
    good = {**CLAIMS, "iss": "https://us", "aud": ["web", "kafka"]}
    assert ours.check(signed(claims=good)).user == "alice"
    assert ours.check(signed(claims={**good, "aud": "broker"})).user == "alice"
    for wrong in ({"aud": "kafka "}, {"aud": "KAFKA"}, {"aud": ["web", 7, None]}, {"aud": None}, {"aud": [["kafka"]]}):
        assert "somebody else" in refused(signed(claims={**good, **wrong}), ours)
    for issuer in ("https://us/", "https://US", ["https://us"], None, "", "https://us.evil.example"):
        assert "issuer" in refused(signed(claims={**good, "iss": issuer}), ours)


def test_the_name_of_a_user_is_trimmed_as_kafka_does() -> None:
    assert STRICT.check(signed(claims={**CLAIMS, "sub": " alice\n"})).user == "alice"
    assert STRICT.check(signed(claims={**CLAIMS, "sub": "\u00a0alice"})).user == "\u00a0alice"


def test_another_claim_may_name_the_user() -> None:
    ours = rules(keys=STRICT.keys, subject_claim="azp")
    assert ours.check(signed(claims={**CLAIMS, "azp": "service"})).user == "service"
    assert "no claim azp" in refused(signed(), ours)


def test_a_token_beyond_any_is_not_looked_at() -> None:
    assert "characters" in refused("a" * (LONGEST_TOKEN + 1))


# ------------------------------------------------------------ the file of keys


def jwks(**more: object) -> str:
    key = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())), "kid": "one", **more}
    return json.dumps({"keys": [key]})


@pytest.mark.parametrize("more", [{"use": "enc"}, {"key_ops": ["encrypt"]}, {"kty": "oct", "k": "c2VjcmV0"}], ids=str)
def test_a_key_that_is_for_something_else_signs_nothing(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="none that sign"):
        read_keys(jwks(**more))


def test_a_key_that_names_its_algorithm_is_for_that_one() -> None:
    ours = rules(keys=read_keys(jwks(alg="RS512")))
    assert "none of the keys" in refused(signed(), ours)
    assert ours.check(jwt.encode(CLAIMS, RSA, algorithm="RS512", headers={"kid": "one"})).user == "alice"


def test_an_rsa_key_that_is_too_short_signs_nothing() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    key = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(weak.public_key())), "kid": "weak"}
    with pytest.raises(ValueError, match="1024 bits"):
        read_keys(json.dumps({"keys": [key]}))
    both = read_keys(json.dumps({"keys": [key, *json.loads(KEYS)["keys"]]}))
    assert [one.jwk.key_id for one in both] == ["one", "two"]


def test_keys_of_unknown_kinds_leave_the_others() -> None:
    known = json.loads(KEYS)["keys"]
    both = read_keys(json.dumps({"keys": [{"kty": "new"}, {"kty": "EC", "crv": "P-9"}, *known]}))
    assert rules(keys=both).check(jwt.encode(CLAIMS, CURVE, algorithm="ES256")).user == "alice"


def test_every_kind_of_key_checks_its_own() -> None:
    edwards, large = ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP521R1())
    made = {
        "EdDSA": (edwards, jwt.algorithms.OKPAlgorithm.to_jwk(edwards.public_key())),
        "ES512": (large, jwt.algorithms.ECAlgorithm.to_jwk(large.public_key())),
        "PS384": (RSA, jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())),
    }
    ours = rules(keys=read_keys(json.dumps({"keys": [json.loads(public) for _, public in made.values()]})))
    for algorithm, (private, _) in made.items():
        token = jwt.encode(CLAIMS, private, algorithm=algorithm)  # type: ignore[arg-type]
        assert ours.check(token).user == "alice"
        refused(token[:-8] + ("A" * 8 if token[-8:] != "A" * 8 else "B" * 8), ours)


# ------------------------------------------------------------ whatever comes


def test_every_byte_of_a_token_counts() -> None:
    token = signed()
    alphabet = "ABCXYZabcxyz0189-_."
    chance = random.Random(7)
    last = token.rindex(".") + 1
    for _ in range(300):
        at = chance.randrange(len(token) - 1)  # the last character has bits that mean nothing
        other = chance.choice([one for one in alphabet if one != token[at]])
        if (at + 1 == token.index(".")) or at + 1 == last - 1:
            continue  # as have the last ones of the other parts
        refused(token[:at] + other + token[at + 1 :])


@given(st.binary(max_size=400))
def test_any_bytes_are_a_refusal_and_nothing_else(said: bytes) -> None:
    for one in (rules(), STRICT):
        for message in (said, b"n,,\x01auth=Bearer " + said + b"\x01\x01"):
            try:
                step = OAuthServer(one).respond(message)
            except AuthenticationFailed:
                continue
            assert not isinstance(step, Step)
            assert step().user is None


@given(
    st.dictionaries(
        st.sampled_from(["alg", "kid", "crit", "b64", "typ", "jwk"]),
        st.from_type(type(None))
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=9)
        | st.lists(st.text(max_size=3)),
    )
)
def test_any_header_is_a_refusal_and_nothing_else(head: dict[str, object]) -> None:
    refused(changed(head)) if head != {"alg": "RS256", "kid": "one"} else None
