"""SCRAM: the examples of the RFCs, and everything that somebody could try instead of a password."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from broker_lite.security.sasl import AuthenticationFailed
from broker_lite.security.scram import (
    ScramCredential,
    ScramMechanism,
    ScramServer,
    new_credential,
    password_fits,
)

SHA_256, SHA_512 = ScramMechanism
PENCIL = new_credential(SHA_256, "pencil", iterations=4096, salt=b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
"""The example of RFC 7677."""
OURS = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def server(mechanism: ScramMechanism = SHA_256, /, **users: ScramCredential) -> ScramServer:
    return ScramServer(mechanism, users.get, b"pepper", nonce=OURS)


def final(
    first_bare: str, server_first: str, password: str, mechanism: ScramMechanism = SHA_256, /, **other: str
) -> str:
    """The client's last message, made with the arithmetic of the RFC; `other` replaces its parts."""
    told = dict(part.split("=", 1) for part in server_first.split(","))
    name = mechanism.hash_name
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(told["s"]), int(told["i"]))
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c={other.get('c', 'biws')},r={other.get('r', told['r'])}"
    whole = f"{first_bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), whole, name)
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
    return f"{without_proof},p={other.get('p', proof)}"


def log_in(server: ScramServer, user: str, password: str, mechanism: ScramMechanism = SHA_256, /, **other: str) -> str:
    bare = f"n={user},r=fyko"
    said = server.respond(f"n,,{bare}".encode()).token.decode()
    step = server.respond(final(bare, said, password, mechanism, **other).encode())
    assert step.user is not None
    return step.user


def test_the_example_of_rfc_7677() -> None:
    talk = server(user=PENCIL)
    first = talk.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.token == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert first.user is None
    last = talk.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last.token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.user == "user"


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_the_right_password_gets_in_and_a_wrong_one_does_not(mechanism: ScramMechanism) -> None:
    users = {"alice": new_credential(mechanism, "sécret")}
    assert log_in(server(mechanism, **users), "alice", "sécret", mechanism) == "alice"
    with pytest.raises(AuthenticationFailed, match="wrong user name or password"):
        log_in(server(mechanism, **users), "alice", "secret", mechanism)


def test_a_user_that_does_not_exist_is_asked_and_refused_like_any_other() -> None:
    with pytest.raises(AuthenticationFailed, match="wrong user name or password"):
        log_in(server(), "nobody", "x")
    salts = {server().respond(b"n,,n=nobody,r=abc").token for _ in range(2)}
    assert len(salts) == 1, "a salt that changes tells that there is no such user"


def test_a_comma_and_an_equals_sign_in_a_name_are_escaped() -> None:
    assert log_in(server(**{"a,b=c": PENCIL}), "a=2Cb=3Dc", "pencil") == "a,b=c"


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("p=tls-unique,,n=user,r=abc", "channel binding"),
        ("n,a=admin,n=user,r=abc", "another user"),
        ("n,,m=x,n=user,r=abc", "mandatory"),
        ("n,,n=us=er,r=abc", "name cannot be read"),
        ("n,,n=user", "cannot be read"),
        ("n,,n=,r=abc", "cannot be read"),
        ("n,,n=user,r=", "cannot be read"),
        ("n,,r=abc,n=user", "cannot be read"),
        ("", "cannot be read"),
        ("\xff", "cannot be read"),
    ],
)
def test_a_first_message_that_is_refused(first: str, why: str) -> None:
    with pytest.raises(AuthenticationFailed, match=why):
        server(user=PENCIL).respond(first.encode())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"r": "fyko"}, "our nonce"),
        ({"r": f"other{OURS}"}, "our nonce"),
        ({"c": b64encode(b"y,,").decode()}, "header"),
        ({"c": "=bad"}, "base64"),
        ({"p": b64encode(b"short").decode()}, "proof of 5 bytes"),
        ({"p": b64encode(bytes(32)).decode()}, "wrong user name or password"),
        ({"p": "AAAA,p=AAAA"}, "cannot be read"),
    ],
)
def test_a_final_message_that_is_refused(other: dict[str, str], why: str) -> None:
    with pytest.raises(AuthenticationFailed, match=why):
        log_in(server(user=PENCIL), "user", "pencil", **other)


def test_no_nonce_is_longer_than_any_client_makes_it() -> None:
    with pytest.raises(AuthenticationFailed, match="nonce of 1025 characters"):
        server(user=PENCIL).respond(b"n,,n=user,r=" + b"r" * 1025)
    assert server(user=PENCIL).respond(b"n,,n=user,r=" + b"r" * 1024).token


@pytest.mark.parametrize("field", ["n", "a"])
def test_no_name_is_longer_than_any_user_has_it(field: str) -> None:
    long = "é" * 1025
    said = f"n,,n={long},r=abc" if field == "n" else f"n,a={long},n=user,r=abc"
    with pytest.raises(AuthenticationFailed, match="name cannot be read"):
        server(user=PENCIL).respond(said.encode())


def test_a_recorded_log_in_cannot_be_played_again() -> None:
    """The other side of every exchange makes a number of its own."""
    users = {"user": PENCIL}
    one = ScramServer(SHA_256, users.get, b"pepper")
    bare = "n=user,r=fyko"
    said = one.respond(f"n,,{bare}".encode()).token.decode()
    proof = final(bare, said, "pencil").encode()
    assert one.respond(proof).user == "user"
    again = ScramServer(SHA_256, users.get, b"pepper")
    again.respond(f"n,,{bare}".encode())
    with pytest.raises(AuthenticationFailed, match="our nonce"):
        again.respond(proof)


def test_a_password_that_changes_during_an_exchange_counts_from_the_next_on() -> None:
    """As with Kafka: who is asked about a salt proves with that salt."""
    users = {"user": PENCIL}
    talk = ScramServer(SHA_256, users.get, b"pepper", nonce=OURS)
    said = talk.respond(b"n,,n=user,r=fyko").token.decode()
    users["user"] = new_credential(SHA_256, "pen")
    assert talk.respond(final("n=user,r=fyko", said, "pencil").encode()).user == "user"
    with pytest.raises(AuthenticationFailed, match="wrong user name or password"):
        log_in(ScramServer(SHA_256, users.get, b"pepper"), "user", "pencil")


@pytest.mark.parametrize("proof", [b"", b"c=biws,r=fyko,p=AAAA"])
def test_a_proof_that_comes_first_is_no_log_in(proof: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        server(user=PENCIL).respond(proof)


def test_who_may_act_as_himself_says_so_in_both_messages() -> None:
    talk = server(user=PENCIL)
    said = talk.respond(b"n,a=user,n=user,r=fyko").token.decode()
    with pytest.raises(AuthenticationFailed, match="header"):
        talk.respond(final("n=user,r=fyko", said, "pencil").encode())
    talk = server(user=PENCIL)
    said = talk.respond(b"n,a=user,n=user,r=fyko").token.decode()
    header = b64encode(b"n,a=user,").decode()
    assert talk.respond(final("n=user,r=fyko", said, "pencil", c=header).encode()).user == "user"


def test_a_name_is_compared_as_it_is() -> None:
    """Neither case nor form: names that look alike are other users."""
    users = {"user": PENCIL}
    for other in ("User", "user ", "u\u0455er", "user\u200b", "\uff55ser"):
        with pytest.raises(AuthenticationFailed, match="wrong user name or password"):
            log_in(ScramServer(SHA_256, users.get, b"pepper"), other, "pencil")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="UTF-8"):
        server().respond(b"n,,n=\xff,r=a")


def test_a_client_that_could_bind_channels_but_sees_that_we_do_not_is_welcome() -> None:
    talk = server(user=PENCIL)
    said = talk.respond(b"y,,n=user,r=fyko").token.decode()
    header = b64encode(b"y,,").decode()
    assert talk.respond(final("n=user,r=fyko", said, "pencil", c=header).encode()).user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_signature_is_the_hmac_of_all_that_was_said(mechanism: ScramMechanism) -> None:
    kept = new_credential(mechanism, "pencil")
    talk = server(mechanism, user=kept)
    bare = "n=user,r=fyko"
    said = talk.respond(f"n,,{bare}".encode()).token.decode()
    last = final(bare, said, "pencil", mechanism)
    whole = f"{bare},{said},{last.rpartition(',p=')[0]}".encode()
    assert talk.respond(last.encode()).token == b"v=" + b64encode(
        hmac.digest(kept.server_key, whole, mechanism.hash_name)
    )


def test_a_password_in_the_clear_is_checked_against_what_was_kept() -> None:
    kept = new_credential(SHA_512, "secret")
    assert password_fits(SHA_512, "secret", kept)
    assert not password_fits(SHA_512, "Secret", kept)
    assert b"secret" not in kept.salt + kept.stored_key + kept.server_key
    assert "salt" not in repr(kept)
