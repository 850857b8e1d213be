"""The resources that have configuration, as requests name them, and changing one of them.

A change is a function from what is set now to what shall be set; everything around it is the same for replacing all
(AlterConfigs) and for setting, deleting, appending and subtracting (IncrementalAlterConfigs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from broker_lite.apis.registry import Context
from broker_lite.config import resources
from broker_lite.config.broker import MIN_INSYNC_REPLICAS
from broker_lite.config.key import Scope
from broker_lite.errors import InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from broker_lite.ids import check_topic_name

Texts = dict[str, str]
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


class Resource(IntEnum):
    """Kafka's ConfigResource types, as they travel."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_SCOPES = {
    Resource.TOPIC: Scope.TOPIC,
    Resource.BROKER: Scope.BROKER,
    Resource.CLIENT_METRICS: Scope.CLIENT_METRICS,
    Resource.GROUP: Scope.GROUP,
}


def scope_of(kind: int) -> Scope:
    """InvalidRequest if there is no such resource, or none that keeps configuration."""
    try:
        return _SCOPES[Resource(kind)]
    except (ValueError, KeyError):
        raise InvalidRequest(f"Unknown resource type {kind}") from None


def change(ctx: Context, kind: int, name: str, change_from: Callable[[Texts], Texts], *, validate_only: bool) -> None:
    """Change what is set for one resource, or only say whether it could be."""
    scope = scope_of(kind)
    now = _now(ctx, scope, name)
    wanted = change_from(dict(now))
    changed = {key for key, text in wanted.items() if now.get(key) != text}
    if scope is Scope.BROKER:
        _check_min_isr(name, wanted)
    resources.check(scope, wanted, ctx.broker.settings, changed=changed)
    if scope is Scope.TOPIC and ctx.broker.topics.get(name) is None:  # Kafka looks at the wishes first
        raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    if validate_only or wanted == now:
        return
    if scope is Scope.TOPIC:
        topic = ctx.broker.topics.get(name)
        assert topic is not None, name
        ctx.broker.topics.configure(topic, wanted)
    else:
        ctx.broker.configs.set(scope, name, wanted)


def _check_min_isr(name: str, wanted: Texts) -> None:
    """One number for all brokers, always: eligible leaders are counted by it (KIP-966)."""
    key = MIN_INSYNC_REPLICAS.name
    if name and key in wanted:
        raise InvalidConfig(f"Broker-level {key} cannot be altered while ELR is enabled.")
    if not name and key not in wanted:
        raise InvalidConfig(f"Cluster-level {key} cannot be removed while ELR is enabled.")


def _now(ctx: Context, scope: Scope, name: str) -> Mapping[str, str]:
    if scope is Scope.TOPIC:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        check_topic_name(name)
        topic = ctx.broker.topics.get(name)
        return {} if topic is None else topic.configs
    if scope is Scope.BROKER:
        if name:
            check_node(ctx, name, "Unexpected broker id, expected {}, but received {}")
    elif not name:
        raise InvalidRequest(
            "Default group resources are not allowed." if scope is Scope.GROUP else "Subscription name can't be empty"
        )
    return ctx.broker.configs.get(scope, name)


def check_node(ctx: Context, name: str, other: str, word: str = "Node") -> None:
    """InvalidRequest unless `name` is this broker's id."""
    try:
        node = int(name)
    except ValueError:
        raise InvalidRequest(f"{word} id must be an integer, but it is: {name}") from None
    if node != ctx.broker.node_id:
        raise InvalidRequest(other.format(ctx.broker.node_id, node))


def no_nulls_or_twins(names: list[str], missing: list[str]) -> None:
    """What is wrong with a resource's list before anybody looks at the keys."""
    if missing:
        raise InvalidRequest(f"Null value not supported for : {','.join(missing)}")
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
