"""The keys of security: TLS, SASL and ACLs.  Names, types and bounds are Kafka's, defaults too where they make sense.

A key of TLS or SASL may be set for one listener alone: `listener.name.internal.ssl.client.auth` is
`ssl.client.auth` of the listener INTERNAL (`Settings.of_listener`).  Users for PLAIN may stand where Kafka has them,
in `listener.name.NAME.plain.sasl.jaas.config`.
"""

from __future__ import annotations

import re

from broker_lite.config.key import INT_MAX, Key, Kind, keys_in
from broker_lite.errors import InvalidConfig

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PER_LISTENER = "listener.name."
AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)

# TLS.

SSL_KEYSTORE_LOCATION: Key[str | None] = Key(
    "ssl.keystore.location", Kind.STRING, None,
    "The broker's certificate chain and its private key: a PEM, PKCS#12 or JKS file.",
)  # fmt: skip
SSL_KEYSTORE_PASSWORD: Key[str | None] = Key(
    "ssl.keystore.password", Kind.PASSWORD, None, "The password of a PKCS#12 or JKS file."
)
SSL_KEY_PASSWORD: Key[str | None] = Key(
    "ssl.key.password", Kind.PASSWORD, None, "The password of the private key, if it has one of its own."
)
SSL_KEYSTORE_KEY: Key[str | None] = Key(
    "ssl.keystore.key", Kind.PASSWORD, None, "The private key itself, as PEM, instead of a file."
)
SSL_KEYSTORE_CERTIFICATE_CHAIN: Key[str | None] = Key(
    "ssl.keystore.certificate.chain", Kind.PASSWORD, None, "The certificate chain itself, as PEM, instead of a file."
)
SSL_KEYSTORE_TYPE = Key(
    "ssl.keystore.type", Kind.STRING, "JKS", "The kind of the file with the certificate.",
    ignored="the file says itself whether it is PEM, PKCS#12 or JKS",
)  # fmt: skip
SSL_TRUSTSTORE_LOCATION: Key[str | None] = Key(
    "ssl.truststore.location", Kind.STRING, None, "Whose certificates of clients are trusted: PEM, PKCS#12 or JKS."
)
SSL_TRUSTSTORE_PASSWORD: Key[str | None] = Key(
    "ssl.truststore.password", Kind.PASSWORD, None, "The password of a PKCS#12 or JKS file."
)
SSL_TRUSTSTORE_CERTIFICATES: Key[str | None] = Key(
    "ssl.truststore.certificates", Kind.PASSWORD, None, "The trusted certificates themselves, as PEM."
)
SSL_TRUSTSTORE_TYPE = Key(
    "ssl.truststore.type", Kind.STRING, "JKS", "The kind of the file with trusted certificates.",
    ignored=SSL_KEYSTORE_TYPE.ignored,
)  # fmt: skip
SSL_CLIENT_AUTH = Key(
    "ssl.client.auth", Kind.STRING, "none", "Whether clients show a certificate.",
    choices=("none", "requested", "required"),
)  # fmt: skip
SSL_PRINCIPAL_MAPPING_RULES = Key(
    "ssl.principal.mapping.rules", Kind.STRING, "DEFAULT",
    "How the subject of a client's certificate becomes a user name: RULE:pattern/replacement/[L|U], DEFAULT, "
    "the first that matches counts.",
)  # fmt: skip
SSL_ENABLED_PROTOCOLS = Key(
    "ssl.enabled.protocols", Kind.LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are spoken.",
    choices=("TLSv1.2", "TLSv1.3"),
)  # fmt: skip
TLS_HANDSHAKE_TIMEOUT_MS = Key(
    "broker.lite.tls.handshake.timeout.ms", Kind.INT, 10000, "How long a TLS handshake may take.", low=1
)

# SASL.

SASL_ENABLED_MECHANISMS = Key(
    "sasl.enabled.mechanisms", Kind.LIST, ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "The mechanisms that clients may choose from. Kafka's default is GSSAPI, which this broker does not speak.",
    choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
)  # fmt: skip
SASL_USERS: Key[str | None] = Key(
    "broker.lite.sasl.users", Kind.PASSWORD, None,
    "Users who may log in with PLAIN or SCRAM, as NAME:PASSWORD,NAME:PASSWORD.",
)  # fmt: skip
SASL_SERVER_MAX_RECEIVE_SIZE = Key(
    "sasl.server.max.receive.size", Kind.INT, 524288, "The largest request before a client has logged in.", low=1
)
SASL_TIMEOUT_MS = Key("broker.lite.sasl.timeout.ms", Kind.INT, 10000, "How long a client may take to log in.", low=1)
CONNECTIONS_MAX_REAUTH_MS = Key(
    "connections.max.reauth.ms", Kind.LONG, 0,
    "How long a log-in is good for; then the client logs in again or is cut off. 0 is for ever.", low=0,
)  # fmt: skip
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = Key(
    "connection.failed.authentication.delay.ms", Kind.INT, 100, "How long a refused log-in waits for its answer.",
    low=0, high=INT_MAX,
)  # fmt: skip
OAUTHBEARER_UNSECURED = Key(
    "broker.lite.sasl.oauthbearer.unsecured", Kind.BOOLEAN, False,
    "Believe tokens that nobody signed (OAUTHBEARER). For tests only: anybody can be anyone.",
)  # fmt: skip
OAUTHBEARER_JWKS: Key[str | None] = Key(
    "sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
    "The keys that sign tokens (OAUTHBEARER), as a file: URL of a JWKS file. Nothing is fetched from the network.",
)  # fmt: skip
OAUTHBEARER_AUDIENCE: Key[tuple[str, ...]] = Key(
    "sasl.oauthbearer.expected.audience",
    Kind.LIST,
    (),
    "A token must be meant for one of these. Without, a signed token that names an audience is refused.",
)
OAUTHBEARER_ISSUER: Key[str | None] = Key(
    "sasl.oauthbearer.expected.issuer", Kind.STRING, None, "A token must come from here."
)
OAUTHBEARER_SUBJECT = Key(
    "sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", "The claim of a token that is the user's name."
)
OAUTHBEARER_SKEW = Key(
    "sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30, "How far the clocks of the others may be off.", low=0
)

# ACLs, and the network.

AUTHORIZER_CLASS_NAME = Key(
    "authorizer.class.name", Kind.STRING, "",
    "Name Kafka's StandardAuthorizer to have ACLs; empty is everything for everybody.", choices=("", *AUTHORIZERS),
)  # fmt: skip
SUPER_USERS = Key(
    "super.users", Kind.STRING, "", "Who may do everything, whatever the ACLs say, as User:admin;User:CN=ops."
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = Key(
    "allow.everyone.if.no.acl.found", Kind.BOOLEAN, False, "Whether a resource without any ACL is open to everybody."
)
MAX_CONNECTION_CREATION_RATE = Key(
    "max.connection.creation.rate", Kind.INT, INT_MAX,
    "Connections accepted in a second; further ones wait. Also by listener: listener.name.NAME.….", low=0, dynamic=True,
)  # fmt: skip
REFUSE_OPEN = Key(
    "broker.lite.refuse.open.to.network", Kind.BOOLEAN, False,
    "Refuse to start with a listener on the network that asks nobody who he is; `serve --strict` says it too.",
)  # fmt: skip
OPEN_TO_NETWORK = Key(
    "broker.lite.open.to.network", Kind.BOOLEAN, False,
    "Say true if a listener without authentication on the network is meant; it silences the warning.",
)  # fmt: skip

SECURITY_KEYS: dict[str, Key[object]] = keys_in(dict(globals()))
_OF_ONE_LISTENER = ("ssl.", "sasl.", "connections.max.reauth", "max.connection.creation.rate")
_JAAS = re.compile(r"(?:plain|scram-sha-256|scram-sha-512|oauthbearer)\.sasl\.jaas\.config")
_JAAS_OPTION = re.compile(r'([A-Za-z_][A-Za-z0-9_.@-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_JAAS_TEXT: Key[str | None] = Key(
    "sasl.jaas.config", Kind.PASSWORD, None, "Where Kafka has the users of PLAIN: listener.name.NAME.plain.…"
)


def listener_key(name: str) -> Key[object] | None:
    """The key that `listener.name.NAME.…` sets for one listener; None if it is not such a name."""
    if not name.startswith(PER_LISTENER):
        return None
    _, dot, rest = name.removeprefix(PER_LISTENER).partition(".")
    if not dot:
        return None
    if _JAAS.fullmatch(rest):
        return _JAAS_TEXT
    key = SECURITY_KEYS.get(rest)
    return key if key is not None and rest.startswith(_OF_ONE_LISTENER) else None


def users_from(text: str | None) -> dict[str, str]:
    """`NAME:PASSWORD,NAME:PASSWORD`; the password may have colons, the name not."""
    users: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, colon, password = part.strip().partition(":")
        if not colon or not name or not password:
            raise InvalidConfig(f"a user in {SASL_USERS.name} or --sasl-user is not NAME:PASSWORD")
        users[name] = password
    return users


def users_from_jaas(text: str) -> dict[str, str]:
    """The `user_NAME="password"` options of Kafka's PlainLoginModule."""
    if "PlainLoginModule" not in text:
        return {}
    found = {name: quoted or bare for name, quoted, bare in _JAAS_OPTION.findall(text)}
    return {
        name.removeprefix("user_"): re.sub(r"\\(.)", r"\1", password)
        for name, password in found.items()
        if name.startswith("user_")
    }
