"""DescribeConfigs: every key of a resource with its value, its source and its synonyms.

Versions
    0    is_default where later versions tell the source
    1    synonyms
    3    types and documentation
    4    flexible
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker_lite import logs
from broker_lite.apis.config_entries import (
    LOGGER_SOURCE,
    STATIC_SOURCE,
    Entry,
    Said,
    broker_entries,
    default_broker_entries,
    topic_entries,
)
from broker_lite.apis.config_resources import MALFORMED, Resource, check_node
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.slices import Steps
from broker_lite.broker.configs import EVERY_BROKER
from broker_lite.config.broker import ADVERTISED_LISTENERS
from broker_lite.config.key import Scope
from broker_lite.config.listeners import format_address
from broker_lite.config.sources import TopicSettings
from broker_lite.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition
from broker_lite.ids import check_topic_name
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_DEFAULT_SOURCE = 5
_BROKER_ID = "broker.id"
_DOCUMENTATION = 2
"""Units of a response that a key's documentation takes, more or less."""


@serves(DescribeConfigsRequest, versions="0-4")
def describe_configs(ctx: Context, req: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """Each resource as often as it is named, as Kafka does; but what is configured alike is looked up once."""
    known: _Known = {}
    results: list[DescribeConfigsResult] = []
    each = 1 + req.include_synonyms + _DOCUMENTATION * req.include_documentation
    for resource in req.resources:
        result = _describe(ctx, req, resource, known)
        yield 1 + each * len(result.configs)
        results.append(result)
    return DescribeConfigsResponse(results=results)


_Known = dict[tuple[object, ...], list[DescribeConfigsResourceResult]]
"""What is told of a resource, by what it is configured to, or by its kind and name."""


def _describe(
    ctx: Context, req: DescribeConfigsRequest, asked: DescribeConfigsResource, known: _Known
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[]
    )
    try:
        result.configs = _all(ctx, req, asked.resource_type, asked.resource_name, known)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.message
    if asked.configuration_keys:
        wanted = set(asked.configuration_keys)
        result.configs = [one for one in result.configs if one.name in wanted]
    return result


def _all(
    ctx: Context, req: DescribeConfigsRequest, kind: int, name: str, known: _Known
) -> list[DescribeConfigsResourceResult]:
    """What is alike is one object: with ten thousand topics and a few ways to configure them that is all the
    difference."""
    settings = _settings(ctx, kind, name)
    key = (kind, name) if settings is None else (settings.scope, *sorted(settings.overrides.items()))
    shown = known.get(key)
    if shown is None:
        entries = _entries(ctx, kind, name) if settings is None else topic_entries(settings)
        shown = known[key] = [_shown(req, entry) for entry in entries]
    return shown


def _settings(ctx: Context, kind: int, name: str) -> TopicSettings | None:
    """Of a topic, or of what is configured like one."""
    configs = ctx.broker.configs
    if kind == Resource.TOPIC:
        check_topic_name(name)
        topic = ctx.broker.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        return topic.settings
    if kind == Resource.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return configs.group(name)
    if kind == Resource.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return configs.client_metrics(name)
    return None


def _entries(ctx: Context, kind: int, name: str) -> Iterable[Entry]:
    configs = ctx.broker.configs
    if kind == Resource.BROKER:
        if name == EVERY_BROKER:
            return default_broker_entries(configs.get(Scope.BROKER, EVERY_BROKER))
        check_node(ctx, name, "Unexpected broker id, expected {} or empty string, but received {}", "Broker")
        both = configs.get(Scope.BROKER, EVERY_BROKER) | configs.get(Scope.BROKER, name)
        return [_as_told(ctx, entry) for entry in broker_entries(ctx.broker.settings, both)]
    if kind == Resource.BROKER_LOGGER:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        check_node(ctx, name, "Unexpected broker id, expected {} but received {}", "Broker")
        return [Entry(one, level_name(level), LOGGER_SOURCE) for one, level in logs.loggers().items()]
    raise InvalidRequest(MALFORMED)


def _as_told(ctx: Context, entry: Entry) -> Entry:
    """What a node of Apache Kafka has in its settings, and ours knows by itself: its number, and its addresses."""
    if entry.source != _DEFAULT_SOURCE or entry.name not in (ADVERTISED_LISTENERS.name, _BROKER_ID):
        return entry
    if entry.name == _BROKER_ID:
        value = str(ctx.broker.node_id)
    else:
        mine, node = ctx.connection.listener, ctx.advertised()
        told = {listener.name: str(listener) for listener in ctx.broker.options.listeners}
        told[mine] = f"{mine}://{format_address(node.host, node.port)}"
        value = ",".join(told.values())
    said = [Said(entry.name, value, STATIC_SOURCE)]
    return Entry(entry.name, value, STATIC_SOURCE, read_only=True, kind=entry.kind, doc=entry.doc, synonyms=said)


def level_name(level: int) -> str:
    """As log4j calls it."""
    return {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}.get(level, logging.getLevelName(level))


def _shown(req: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source == _DEFAULT_SOURCE,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=said.name, value=said.value, source=said.source) for said in entry.synonyms
        ]
        if req.include_synonyms
        else [],
        config_type=entry.kind,
        documentation=entry.doc if req.include_documentation else None,
    )
