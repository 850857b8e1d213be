"""Topics over the wire: create, delete, list, describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_lite.client.client import Client
from broker_lite.client.views import TopicView, refused, view_of
from broker_lite.errors import UnsupportedVersion
from broker_lite.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker_lite.wire.schema import ZERO_UUID

_TOPIC = 2
_SET_ON_THE_TOPIC = 1


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatableTopicResult:
    """Make a topic; what is left out, the broker decides."""
    ask = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=-1 if partitions is None else partitions,
                replication_factor=-1 if replication_factor is None else replication_factor,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ],
        timeout_ms=int(client.timeout * 1000),
        validate_only=validate_only,
    )

    async def attempt() -> CreatableTopicResult:
        connection = await client.to_controller()
        result = (await connection.request(ask, CreateTopicsResponse)).topics[0]
        if result.error_code:
            raise refused(result.error_code, result.error_message or name)
        return result

    return await client.patiently(attempt)


async def delete_topic(client: Client, name: str) -> None:
    ask = DeleteTopicsRequest(timeout_ms=int(client.timeout * 1000))
    connection = await client.to_controller()
    if connection.version_for(DeleteTopicsRequest) >= 6:
        ask.topics = [DeleteTopicState(name=name, topic_id=ZERO_UUID)]
    else:
        ask.topic_names = [name]
    result = (await connection.request(ask, DeleteTopicsResponse)).responses[0]
    if result.error_code:
        raise refused(result.error_code, f"topic {name}: {result.error_message or 'not deleted'}")
    client.forget(name)


async def list_topics(client: Client, names: Sequence[str] | None = None) -> list[TopicView]:
    """All topics, or these; a topic that is missing or not to be seen is refused."""
    answer = await client.metadata(names)
    for topic in answer.topics:
        if topic.error_code:
            raise refused(topic.error_code, f"topic {topic.name}")
    return sorted((view_of(topic) for topic in answer.topics), key=lambda view: view.name)


async def own_configs(client: Client, name: str) -> dict[str, str] | None:
    """What was set on the topic itself; None if the broker does not tell settings."""
    try:
        client.version_for(DescribeConfigsRequest)
    except UnsupportedVersion:
        return None
    ask = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)]
    )
    result = (await client.request(ask, DescribeConfigsResponse)).results[0]
    if result.error_code:
        raise refused(result.error_code, result.error_message or name)
    return {config.name: config.value or "" for config in result.configs if config.config_source == _SET_ON_THE_TOPIC}
