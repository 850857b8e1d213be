"""CreateTopics: make topics, or only say whether they could be made.

Versions
    1    error messages; may only validate
    2    throttle time
    4    -1 means the broker's default number of partitions or replicas
    5    flexible; tells the partitions and configurations that came out
    6    who has made too many partitions is refused
    7    tells the topic id
Not done
    more than one replica: there is one broker
"""

from __future__ import annotations

from collections import Counter

from broker_lite.apis.config_entries import topic_entries
from broker_lite.apis.registry import Context, serves
from broker_lite.apis.watch import mutate
from broker_lite.broker.topics import NewTopic, folded
from broker_lite.config import broker as keys
from broker_lite.config.sources import TopicSettings
from broker_lite.errors import (
    BrokerError,
    ErrorCode,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    refusal,
)
from broker_lite.ids import NO_TOPIC_ID, TopicId, new_topic_id
from broker_lite.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DEFAULT = -1
_FIRST_WITH_CONFIGS = 5
_FIRST_WITH_STRICT_QUOTA = 6
MOST_PARTITIONS_A_REQUEST = 10_000

Shown = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]


@serves(CreateTopicsRequest, versions="0-7")
def create_topics(ctx: Context, req: CreateTopicsRequest) -> CreateTopicsResponse:
    """Each is checked by itself; those that may be made are made together, by one entry in the journal."""
    named = Counter(topic.name for topic in req.topics)
    shown: Shown = {}
    results: dict[str, CreatableTopicResult] = {}
    wanted: dict[str, NewTopic] = {}
    for asked in {topic.name: topic for topic in req.topics}.values():
        try:
            new, settings = _check(ctx, req, asked, wanted, twice=named[asked.name] > 1)
        except BrokerError as error:
            results[asked.name] = _refused(asked.name, error)
        else:
            topic_id = new_topic_id() if req.validate_only else NO_TOPIC_ID  # it gets its own below
            results[new.name] = _result(new.name, topic_id, new.partitions, _shown(ctx, settings, shown))
            wanted[folded(new.name)] = new
    if wanted and not req.validate_only:
        _create(ctx, list(wanted.values()), results)
    return CreateTopicsResponse(topics=list(results.values()))


def _check(
    ctx: Context, req: CreateTopicsRequest, asked: CreatableTopic, wanted: dict[str, NewTopic], *, twice: bool
) -> tuple[NewTopic, TopicSettings]:
    if req.timeout_ms <= 0:
        raise refusal(ErrorCode.REQUEST_TIMED_OUT, "the request's time was over before it began")
    if twice:
        raise InvalidRequest("Duplicate topic name.")
    configs = _configs(asked)
    count = _partition_count(ctx, asked)
    settings = ctx.broker.topics.check_new(asked.name, count, configs)
    twin = wanted.get(folded(asked.name))
    if twin is not None:
        raise InvalidTopic(f"Topic '{asked.name}' collides with existing topic: {twin.name}")
    if not req.validate_only:
        mutate(ctx, count, strict_from=_FIRST_WITH_STRICT_QUOTA)
    return NewTopic(asked.name, count, configs), settings


def _create(ctx: Context, wanted: list[NewTopic], results: dict[str, CreatableTopicResult]) -> None:
    try:
        for topic in ctx.broker.topics.create_all(wanted):
            results[topic.name].topic_id = topic.id
    except BrokerError as error:
        for new in wanted:
            results[new.name] = _refused(new.name, error)


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _configs(asked: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    return configs


def _partition_count(ctx: Context, asked: CreatableTopic) -> int:
    if asked.assignments:
        return _assigned_count(ctx, asked)
    if asked.replication_factor < DEFAULT or asked.replication_factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if asked.num_partitions < DEFAULT or asked.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if asked.replication_factor > 1:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {asked.replication_factor} time(s): The target replication factor of "
            f"{asked.replication_factor} cannot be reached because only 1 broker(s) are registered or some brokers "
            "have all their log directories cordoned."
        )
    if asked.num_partitions > MOST_PARTITIONS_A_REQUEST:
        raise PolicyViolation(
            f"{asked.num_partitions} partitions in one request are more than {MOST_PARTITIONS_A_REQUEST}"
        )
    return ctx.broker.settings.get(keys.NUM_PARTITIONS) if asked.num_partitions == DEFAULT else asked.num_partitions


def _assigned_count(ctx: Context, asked: CreatableTopic) -> int:
    """A manual assignment on one broker can only name that broker, once for each partition."""
    if asked.replication_factor != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if asked.num_partitions != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    for assignment in asked.assignments:
        check_assignment(ctx.broker.node_id, assignment.broker_ids)
    indexes = sorted(assignment.partition_index for assignment in asked.assignments)
    if len(set(indexes)) != len(indexes):
        raise InvalidReplicaAssignment("Found multiple manual partition assignments for one partition")
    if indexes != list(range(len(indexes))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return len(indexes)


def check_assignment(node_id: int, broker_ids: list[int]) -> None:
    if not broker_ids:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    twice = next((broker_id for broker_id, times in Counter(broker_ids).items() if times > 1), None)
    if twice is not None:
        raise InvalidReplicaAssignment(f"The manual partition assignment includes the broker {twice} more than once.")
    for broker_id in broker_ids:
        if broker_id != node_id:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )


def _result(
    name: str, topic_id: TopicId, partitions: int, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=1,
        configs=configs,
    )


def _shown(ctx: Context, settings: TopicSettings, shown: Shown) -> list[CreatableTopicConfigs]:
    """Everything that a topic is configured to; made once for a thousand topics that are configured alike."""
    if ctx.version < _FIRST_WITH_CONFIGS:
        return []
    said = tuple(sorted(settings.overrides.items()))
    if said not in shown:
        shown[said] = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in topic_entries(settings)
        ]
    return shown[said]
