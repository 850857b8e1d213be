"""What may be changed while the broker runs, resource by resource: each check raises what Kafka raises, or returns.

topic            the keys of `topic.py`, against the broker's settings as they are now
broker           Kafka's dynamic keys.  A key of Kafka that has no effect here is kept and shown, as is a name that
                 nobody knows: Kafka's plugins have such.  `""` is the default of all brokers
group            the keys of `group.py`, within the bounds that the broker sets
client metrics   the keys of `client_metrics.py`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from broker_lite.config import elsewhere
from broker_lite.config import group as group_keys
from broker_lite.config.broker import BROKER_KEYS
from broker_lite.config.client_metrics import CLIENT_METRICS_KEYS, INTERVAL_MS, MATCH, SELECTORS
from broker_lite.config.group import GROUP_KEYS
from broker_lite.config.kept import kept_keys
from broker_lite.config.key import Key, Kind, Scope, invalid
from broker_lite.config.sources import Settings, TopicSettings, topic_config
from broker_lite.config.topic import TOPIC_KEYS
from broker_lite.errors import BrokerError, InvalidConfig, InvalidRequest

_SESSIONS = (
    (group_keys.CONSUMER_SESSION_TIMEOUT_MS, group_keys.CONSUMER_HEARTBEAT_INTERVAL_MS),
    (group_keys.SHARE_SESSION_TIMEOUT_MS, group_keys.SHARE_HEARTBEAT_INTERVAL_MS),
    (group_keys.STREAMS_SESSION_TIMEOUT_MS, group_keys.STREAMS_HEARTBEAT_INTERVAL_MS),
)
_START = re.compile(
    r"earliest|latest|by_duration:\+?[Pp](?=[0-9Tt])(?:[0-9]+[Dd])?"
    r"(?:[Tt](?=[0-9])(?:[0-9]+[Hh])?(?:[0-9]+[Mm])?(?:[0-9]+(?:[.,][0-9]{0,9})?[Ss])?)?"
)
KEYS: dict[Scope, dict[str, Key[object]]] = {
    Scope.TOPIC: TOPIC_KEYS,
    Scope.BROKER: BROKER_KEYS,
    Scope.GROUP: GROUP_KEYS,
    Scope.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}


def check(scope: Scope, texts: Mapping[str, str], settings: Settings, *, changed: set[str]) -> None:
    """Would a resource be right with exactly `texts`? `changed` are those that somebody wants to set now."""
    if scope is Scope.TOPIC:
        topic_config(texts, settings)
    elif scope is Scope.BROKER:
        _check_broker(texts, changed)
    elif scope is Scope.GROUP:
        _check_group(texts, settings)
    else:
        _check_client_metrics(texts)


def known_broker_keys(texts: Mapping[str, str]) -> dict[str, str]:
    """Those that we have a declaration for, were it only to show them."""
    return {name: text for name, text in texts.items() if name in BROKER_KEYS or name in kept_keys()}


def broker_keys_in_force(texts: Mapping[str, str]) -> dict[str, str]:
    """Of those, the ones whose value can be read: what an older version took and this one does not has no effect."""
    return {name: text for name, text in known_broker_keys(texts).items() if _is_readable(name, text)}


def _is_readable(name: str, text: str) -> bool:
    try:
        (BROKER_KEYS.get(name) or kept_keys()[name]).parse(text)
    except InvalidConfig:
        return False
    return True


def _check_broker(texts: Mapping[str, str], changed: set[str]) -> None:
    fixed = [name for name in texts if name in changed and not _is_dynamic(name)]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, text in known_broker_keys(texts).items():
        try:
            (BROKER_KEYS.get(name) or kept_keys()[name]).parse(text)
        except InvalidConfig as error:
            raise InvalidRequest(error.message) from None


def _is_dynamic(name: str) -> bool:
    key = BROKER_KEYS.get(name) or kept_keys().get(name)
    if key is not None:
        return key.dynamic
    return elsewhere.why_elsewhere(name) is None or name in elsewhere.DYNAMIC


def _check_group(texts: Mapping[str, str], settings: Settings) -> None:
    for name, text in texts.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        key.parse(text)
        if key.kind is Kind.INT:
            _check_bounds(key, cast("int", key.parse(text)), settings)
    _check_start(texts.get(group_keys.SHARE_AUTO_OFFSET_RESET.name))
    made = TopicSettings(dict(texts), settings, Scope.GROUP)
    for session, heartbeat in _SESSIONS:
        if made.get(session) <= made.get(heartbeat):
            raise InvalidConfig(f"{session.name} must be greater than {heartbeat.name}")


def _check_bounds(key: Key[object], value: int, settings: Settings) -> None:
    """The broker's `group.share.min.session.timeout.ms` bounds a group's `share.session.timeout.ms`, and so on."""
    kind, _, about = key.name.partition(".")
    least, most = (f"group.{kind}.{word}.{about.removeprefix('num.')}" for word in ("min", "max"))
    if (bound := _number(settings, least)) is not None and value < bound:
        raise InvalidConfig(f"{key.name} must be greater than or equal to {least}")
    if (bound := _number(settings, most)) is not None and value > bound:
        raise InvalidConfig(f"{key.name} must be less than or equal to {most}")


def _number(settings: Settings, name: str) -> int | None:
    """The strongest word on a key that may not be there."""
    said = settings.words([name])
    return int(said[0].value) if said and said[0].value is not None else None


def _check_start(text: str | None) -> None:
    """Where a share group begins; a duration is what Java's `Duration.parse` takes, and not below zero."""
    if text is not None and not _START.fullmatch(text):
        name = group_keys.SHARE_AUTO_OFFSET_RESET.name
        why = f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or"
        raise invalid(name, text, f"{why} of the format 'by_duration:<PnDTnHnMn.nS>'.")


def _check_client_metrics(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        if key is INTERVAL_MS:
            _check_interval(text)
        elif key is MATCH:
            patterns(text)


def _check_interval(text: str) -> None:
    try:
        INTERVAL_MS.parse(text)
    except BrokerError:
        raise InvalidRequest(
            f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        ) from None


def patterns(text: str) -> dict[str, re.Pattern[str]]:
    """Selector -> pattern of a `match`, or InvalidConfig."""
    found: dict[str, re.Pattern[str]] = {}
    for entry in MATCH.parse(text):
        name, equals, pattern = entry.partition("=")
        if not equals or name.strip() not in SELECTORS:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}")
        try:
            found[name.strip()] = re.compile(pattern.strip())
        except (re.error, OverflowError, RecursionError):  # wrong, too large, too deep
            raise InvalidConfig(f"Illegal client matching pattern: {entry}") from None
    return found
