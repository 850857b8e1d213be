"""From settings to listeners that are protected: which have TLS, which have SASL, and which should have.

What only a listener with SASL needs is imported when there is one: a broker without starts 5 ms sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite.clock import Clock
from broker_lite.config import security as keys
from broker_lite.config.listeners import Listener
from broker_lite.config.sources import Settings
from broker_lite.errors import BrokerError, StartRefused
from broker_lite.logs import get_logger
from broker_lite.server.listener import ListenerAddress
from broker_lite.server.sasl import Refuser, SaslRules
from broker_lite.server.tls import Tls

if TYPE_CHECKING:
    from broker_lite.security.logins import Stored
    from broker_lite.security.oauth import TokenRules

log = get_logger(__name__)


def protected(
    settings: Settings, listeners: Sequence[Listener], *, stored: Stored, refuse: Refuser, clock: Clock
) -> list[ListenerAddress]:
    """The listeners with all that their protocols ask for. StartRefused names what is missing."""
    return [
        ListenerAddress(
            one.name,
            one.host,
            one.port,
            tls=Tls(settings, one.name) if one.has_tls else None,
            sasl=_sasl(settings, one.name, stored, refuse, clock) if one.has_sasl else None,
        )
        for one in listeners
    ]


def has_files(address: ListenerAddress) -> bool:
    """Whether there is something for `read_again`."""
    return address.tls is not None or (address.sasl is not None and address.sasl.mechanisms.signed_tokens is not None)


def read_again(addresses: Sequence[ListenerAddress]) -> None:
    """Certificates and the keys of tokens, for those who come from now on. What cannot be read stays as it was."""
    for one in addresses:
        if one.tls is not None:
            one.tls.reload()
        tokens = None if one.sasl is None else one.sasl.mechanisms.signed_tokens
        if tokens is not None:
            try:
                tokens.read_keys_again()
            except (OSError, ValueError) as error:
                log.error("tokens.not_reloaded", listener=one.name, reason=str(error))
            else:
                log.info("tokens.reloaded", listener=one.name)


def warn_if_open(settings: Settings, listeners: Sequence[Listener]) -> None:
    """One line for each listener on which anybody in the network may do anything. StartRefused if none is wanted."""
    if settings.get(keys.AUTHORIZER_CLASS_NAME):
        return
    for one in listeners:
        certificate = settings.of_listener(one.name, keys.SSL_CLIENT_AUTH) == "required"
        if one.local or one.has_sasl or (one.has_tls and certificate):
            continue
        if settings.get(keys.REFUSE_OPEN):
            raise StartRefused(
                f"--strict: anybody who reaches {one} may read, write and delete everything; "
                "secure it, for instance with --sasl-user NAME:PASSWORD, or listen on 127.0.0.1"
            )
        if not settings.get(keys.OPEN_TO_NETWORK):
            log.warning(
                "listener.open",
                listener=str(one),
                reason="anybody who reaches it may read, write and delete everything",
                secure="--sasl-user NAME:PASSWORD",
                silence=f"--set {keys.OPEN_TO_NETWORK.name}=true",
            )


def users_of(settings: Settings, listener: str) -> dict[str, str]:
    """Users and passwords that the settings name."""
    try:
        users = keys.users_from(settings.get(keys.SASL_USERS))
    except BrokerError as error:
        raise StartRefused(error.message) from None
    jaas = settings.said(f"{keys.PER_LISTENER}{listener.lower()}.plain.sasl.jaas.config")
    return users | keys.users_from_jaas(jaas or "")


def _sasl(settings: Settings, listener: str, stored: Stored, refuse: Refuser, clock: Clock) -> SaslRules:
    from broker_lite.security.logins import OAUTHBEARER, Mechanisms

    enabled = settings.of_listener(listener, keys.SASL_ENABLED_MECHANISMS)
    if not enabled:
        raise StartRefused(f"listener {listener}: {keys.SASL_ENABLED_MECHANISMS.name} names no mechanism")
    tokens = _tokens(settings, listener, clock) if OAUTHBEARER in enabled else None
    return SaslRules(
        mechanisms=Mechanisms(enabled, users_of(settings, listener), stored, tokens),
        refuse=refuse,
        clock=clock,
        max_receive=settings.of_listener(listener, keys.SASL_SERVER_MAX_RECEIVE_SIZE),
        timeout_ms=settings.get(keys.SASL_TIMEOUT_MS),
        reauth_ms=settings.of_listener(listener, keys.CONNECTIONS_MAX_REAUTH_MS),
        failed_delay_ms=settings.get(keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS),
    )


def _tokens(settings: Settings, listener: str, clock: Clock) -> TokenRules:
    from urllib.parse import unquote, urlsplit

    from broker_lite.security.oauth import TokenRules, read_keys

    url, unsecured = settings.of_listener(listener, keys.OAUTHBEARER_JWKS), settings.get(keys.OAUTHBEARER_UNSECURED)
    if (url is None) is not unsecured:
        raise StartRefused(
            f"listener {listener} has OAUTHBEARER: set {keys.OAUTHBEARER_JWKS.name} to a file: URL of the keys that "
            f"sign tokens, or, to believe anybody, {keys.OAUTHBEARER_UNSECURED.name}=true; one of the two"
        )
    rules = TokenRules(
        now_ms=clock.now_ms,
        audience=settings.of_listener(listener, keys.OAUTHBEARER_AUDIENCE),
        issuer=settings.of_listener(listener, keys.OAUTHBEARER_ISSUER),
        subject_claim=settings.of_listener(listener, keys.OAUTHBEARER_SUBJECT),
        skew_seconds=settings.of_listener(listener, keys.OAUTHBEARER_SKEW),
    )
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise StartRefused(f"{keys.OAUTHBEARER_JWKS.name} is {url!r}; only file: URLs are read")
        rules.read = Path(unquote(parts.path)).read_text
        try:
            rules.keys = read_keys(rules.read())
        except OSError as error:
            raise StartRefused(f"{keys.OAUTHBEARER_JWKS.name}: {error.filename}: {error.strerror}") from None
        except ImportError:
            raise StartRefused("signed tokens need another package: pip install 'broker-lite[tls]'") from None
        except ValueError as error:
            raise StartRefused(f"{keys.OAUTHBEARER_JWKS.name}: {error}") from None
    return rules
