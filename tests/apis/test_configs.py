"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: what is set is shown, kept and used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import broker_lite.broker.topics as a_module_that_logs
from broker_lite import logs
from broker_lite.broker.configs import KIND
from broker_lite.broker.journal import Change
from broker_lite.config.client_metrics import CLIENT_METRICS_KEYS
from broker_lite.config.group import GROUP_KEYS
from broker_lite.config.sources import resolve
from broker_lite.config.start import Durability, TopicAtStart
from broker_lite.config.topic import TOPIC_KEYS
from broker_lite.errors import ErrorCode
from broker_lite.wire.messages import k33_alter_configs as k33
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker_lite.wire.messages.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.support.talk import Talk, talking

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Told = tuple[int, str | None]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with talking(tmp_path, topics=[TopicAtStart("t", 2, {"retention.ms": "1000"})]) as talk:
        yield talk


async def describe(
    talk: Talk, kind: int, name: str, *keys: str, version: int = 4, docs: bool = False
) -> DescribeConfigsResult:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[asked])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = docs
    return (await talk.ask(request, version, DescribeConfigsResponse)).results[0]


async def shown(talk: Talk, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (found,) = (await describe(talk, kind, name, key)).configs
    return found


async def change(talk: Talk, kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = False) -> Told:
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)
    (told,) = (await talk.ask(request, 1, IncrementalAlterConfigsResponse)).responses
    return told.error_code, told.error_message


async def replace(talk: Talk, kind: int, name: str, **texts: str | None) -> Told:
    configs = [k33.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in texts.items()]
    resource = k33.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = k33.AlterConfigsRequest(resources=[resource], validate_only=False)
    (told,) = (await talk.ask(request, 2, k33.AlterConfigsResponse)).responses
    return told.error_code, told.error_message


# ---- looking


async def test_a_topic_shows_every_key_with_type_source_and_synonyms(talk: Talk) -> None:
    result = await describe(talk, TOPIC, "t", docs=True)
    found = {config.name: config for config in result.configs}
    assert set(found) == {name for name, key in TOPIC_KEYS.items() if not key.internal}
    own = found["retention.ms"]
    assert (own.value, own.config_source, own.config_type) == ("1000", 1, 5)
    assert [(said.name, said.value, said.source) for said in own.synonyms] == [("retention.ms", "1000", 1)]
    default = found["max.message.bytes"]
    assert (default.value, default.config_source, default.read_only) == ("1048588", 5, False)
    assert [(said.name, said.source) for said in default.synonyms] == [("message.max.bytes", 5)]
    assert found["segment.ms"].synonyms == []
    assert all(config.documentation for config in result.configs)


async def test_an_internal_key_is_shown_where_it_is_set_and_rules(talk: Talk) -> None:
    partition = talk.broker.topics.partition("t", 0)
    assert (await describe(talk, TOPIC, "t", "internal.segment.bytes")).configs == []
    assert await change(talk, TOPIC, "t", ("internal.segment.bytes", SET, "1000")) == (0, None)
    found = await shown(talk, TOPIC, "t", "internal.segment.bytes")
    assert (found.value, found.config_source, found.config_type) == ("1000", 1, 3)
    assert partition.settings.log.segment_bytes == 1000
    assert (await shown(talk, TOPIC, "t", "segment.bytes")).value == "1073741824"
    assert await change(talk, TOPIC, "t", ("internal.segment.bytes", DELETE, None)) == (0, None)
    assert partition.settings.log.segment_bytes == 1073741824


async def test_version_0_tells_defaults_by_a_flag(talk: Talk) -> None:
    found = {config.name: config for config in (await describe(talk, TOPIC, "t", version=0)).configs}
    assert not found["retention.ms"].is_default
    assert found["segment.bytes"].is_default


async def test_a_broker_shows_what_may_be_changed_and_what_may_not(talk: Talk) -> None:
    assert (await shown(talk, BROKER, "1", "node.id")).read_only
    assert not (await shown(talk, BROKER, "1", "message.max.bytes")).read_only


async def test_addresses_that_nobody_advertised_are_shown_as_clients_are_told_them(talk: Talk) -> None:
    found = await shown(talk, BROKER, "1", "advertised.listeners")
    assert (found.value, found.config_source, found.is_default) == ("PLAINTEXT://127.0.0.1:9092", 4, False)
    assert found.read_only


@pytest.mark.parametrize(
    ("name", "value", "source", "read_only"),
    [
        ("broker.id", "1", 4, True),
        ("default.replication.factor", "1", 5, True),
        ("num.io.threads", "8", 5, False),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 5, False),
        ("replica.selector.class", None, 5, True),
        ("sasl.kerberos.min.time.before.relogin", "60000", 5, False),
    ],
)
async def test_a_key_of_kafka_that_has_no_effect_here_is_found_all_the_same(
    talk: Talk, name: str, value: str | None, source: int, read_only: bool
) -> None:
    found = await shown(talk, BROKER, "1", name)
    assert (found.value, found.config_source, found.read_only) == (value, source, read_only)
    assert not found.is_sensitive


async def test_a_key_without_effect_is_shown_as_it_was_set_while_running(talk: Talk) -> None:
    assert await change(talk, BROKER, "1", ("num.io.threads", SET, "16")) == (0, None)
    found = await shown(talk, BROKER, "1", "num.io.threads")
    assert (found.value, found.config_source) == ("16", 2)
    assert [(said.value, said.source) for said in found.synonyms] == [("16", 2), ("8", 5)]
    code, message = await change(talk, BROKER, "1", ("num.io.threads", SET, "many"))
    assert (code, message) == (42, "Invalid value many for configuration num.io.threads: Not a number of type INT")


async def test_how_often_kafka_logs_in_elsewhere_may_be_changed(talk: Talk) -> None:
    key = "sasl.kerberos.min.time.before.relogin"
    assert await replace(talk, BROKER, "1", **{key.replace(".", "_"): "58000"}) == (0, None)
    assert (await shown(talk, BROKER, "1", key)).value == "58000"


def test_a_key_without_effect_is_kept_as_the_file_says_unless_it_cannot_be_read() -> None:
    settings, _ = resolve({"num.io.threads": "4", "num.network.threads": "few"}, {}, {})
    assert (settings.said("num.io.threads"), settings.said("num.network.threads")) == ("4", None)


async def test_addresses_that_were_advertised_are_shown_as_they_were_set(tmp_path: Path) -> None:
    settings = {"advertised.listeners": "PLAINTEXT://broker.test:9092"}
    async with talking(tmp_path, settings=settings) as talk:
        found = await shown(talk, BROKER, "1", "advertised.listeners")
        assert (found.value, found.config_source) == ("PLAINTEXT://broker.test:9092", 4)


async def test_only_the_keys_that_are_asked_for_come_back(talk: Talk) -> None:
    result = await describe(talk, TOPIC, "t", "retention.ms", "nobody.knows")
    assert [config.name for config in result.configs] == ["retention.ms"]


async def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    async with talking(tmp_path, settings={"ssl.keystore.password": "hush"}) as talk:
        found = await shown(talk, BROKER, "1", "ssl.keystore.password")
        assert (found.value, found.is_sensitive) == (None, True)
        assert {said.value for said in found.synonyms} == {None}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_is_refused(talk: Talk, kind: int, name: str, code: ErrorCode) -> None:
    result = await describe(talk, kind, name)
    assert (result.error_code, result.configs) == (code, [])


async def test_groups_and_client_metrics_have_kafkas_keys(talk: Talk) -> None:
    assert {config.name for config in (await describe(talk, GROUP, "g")).configs} == set(GROUP_KEYS)
    assert {config.name for config in (await describe(talk, METRICS, "m")).configs} == set(CLIENT_METRICS_KEYS)


# ---- changing a topic


async def test_a_topics_change_reaches_its_partitions(talk: Talk) -> None:
    assert await change(talk, TOPIC, "t", ("max.message.bytes", SET, "500")) == (0, None)
    assert talk.broker.topics.partition("t", 1).settings.rules.max_message_bytes == 500
    refused = await talk.produce("t", b"x" * 600)
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await change(talk, TOPIC, "t", ("max.message.bytes", DELETE, None)) == (0, None)
    assert (await talk.produce("t", b"x" * 600)).error_code == 0


async def test_lists_grow_and_shrink(talk: Talk) -> None:
    async def policy() -> str | None:
        return (await shown(talk, TOPIC, "t", "cleanup.policy")).value

    await change(talk, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert await policy() == "delete,compact"
    await change(talk, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert await policy() == "delete,compact"
    await change(talk, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert await policy() == "compact"


async def test_replacing_forgets_what_is_not_named(talk: Talk) -> None:
    assert await replace(talk, TOPIC, "t", segment_ms="77") == (0, None)
    assert (await shown(talk, TOPIC, "t", "segment.ms")).value == "77"
    assert (await shown(talk, TOPIC, "t", "retention.ms")).config_source == 5


async def test_validate_only_changes_nothing(talk: Talk) -> None:
    assert await change(talk, TOPIC, "t", ("retention.ms", SET, "5"), only=True) == (0, None)
    assert (await shown(talk, TOPIC, "t", "retention.ms")).value == "1000"


@pytest.mark.parametrize(
    ("kind", "name", "key", "how", "value", "code", "text"),
    [
        (TOPIC, "t", "retention.ms", SET, "x", 40, "Invalid value x for configuration retention.ms: Not a number"),
        (TOPIC, "t", "retention.ms", SET, None, 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", "retention.ms", APPEND, "1", 40, "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "t", "retention.ms", 9, "1", 42, "Unknown operation 9"),
        (TOPIC, "t", "cleanup.policy", APPEND, "bogus", 40, "String must be one of: compact, delete"),
        (TOPIC, "t", "nope", SET, "1", 40, "Unknown topic config name: nope"),
        (TOPIC, "t", "nope", DELETE, None, 0, ""),
        (TOPIC, "missing", "retention.ms", SET, "1", 3, "The topic 'missing' does not exist."),
        (TOPIC, "missing", "retention.ms", APPEND, "1", 40, "its type is not LIST."),
        (TOPIC, "", "retention.ms", SET, "1", 42, "Default topic resources are not allowed."),
        (BROKER, "1", "message.max.bytes", SET, "x", 42, "Not a number of type INT"),
        (BROKER, "1", "message.max.bytes", SET, "9" * 5000, 42, "Not a number of type INT"),
        (BROKER, "1", "max.connections.per.ip.overrides", SET, "a:" + "9" * 5000, 42, "expected HOST:NUMBER"),
        (BROKER, "1", "node.id", SET, "5", 42, "Cannot update these configs dynamically: [node.id]"),
        (BROKER, "1", "broker.id", SET, "5", 42, "Cannot update these configs dynamically: [broker.id]"),
        (BROKER, "", "num.partitions", SET, "5", 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "7", "message.max.bytes", SET, "5", 42, "Unexpected broker id, expected 1, but received 7"),
        (BROKER, "x", "message.max.bytes", SET, "5", 42, "Node id must be an integer, but it is: x"),
        (LOGGER, "1", "root", SET, "LOUD", 40, "Cannot set the log level of root to LOUD"),
        (LOGGER, "1", "no.such", SET, "INFO", 40, "Logger no.such does not exist!"),
        (LOGGER, "1", "root", APPEND, "INFO", 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "1", "root", DELETE, None, 42, "Removing the log level of the root logger is not allowed"),
        (LOGGER, "7", "root", SET, "INFO", 42, "Unexpected node id. Expected 1, but received 7"),
        (
            GROUP,
            "g",
            "consumer.session.timeout.ms",
            SET,
            "1",
            40,
            "greater than or equal to group.consumer.min.session",
        ),
        (
            GROUP,
            "g",
            "consumer.session.timeout.ms",
            SET,
            "99999",
            40,
            "less than or equal to group.consumer.max.session",
        ),
        (GROUP, "g", "share.session.timeout.ms", SET, "4", 40, "or equal to group.share.min.session.timeout.ms"),
        (GROUP, "g", "share.delivery.count.limit", SET, "11", 40, "equal to group.share.max.delivery.count.limit"),
        (GROUP, "g", "streams.heartbeat.interval.ms", SET, "1", 40, "to group.streams.min.heartbeat.interval.ms"),
        (GROUP, "g", "streams.num.standby.replicas", SET, "3", 40, "equal to group.streams.max.standby.replicas"),
        (GROUP, "g", "share.auto.offset.reset", SET, "never", 40, "The value must be either 'earliest', 'latest' or"),
        (
            GROUP,
            "g",
            "share.auto.offset.reset",
            SET,
            "by_duration:-PT1H",
            40,
            "the format 'by_duration:<PnDTnHnMn.nS>'",
        ),
        (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:P1DT", 40, "Invalid value `by_duration:P1DT` for"),
        (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:pt1.5s", 0, ""),
        (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:P2D", 0, ""),
        (GROUP, "g", "nope", SET, "1", 40, "Unknown group config name: nope"),
        (GROUP, "", "consumer.session.timeout.ms", SET, "1", 42, "Default group resources are not allowed."),
        (METRICS, "m", "interval.ms", SET, "5", 42, "interval must be between 100 and 3600000"),
        (METRICS, "m", "match", SET, "bogus=1", 40, "Illegal client matching pattern: bogus=1"),
        (METRICS, "m", "match", SET, "client_id=[", 40, "Illegal client matching pattern: client_id=["),
        (METRICS, "m", "match", SET, "client_id=a{9999999999}", 40, "Illegal client matching pattern"),
        (METRICS, "m", "match", SET, "client_id=" + "(" * 10_000, 40, "Illegal client matching pattern"),
        (METRICS, "m", "nope", SET, "1", 42, "Unknown client metrics configuration: nope"),
        (METRICS, "", "interval.ms", SET, "1000", 42, "Subscription name can't be empty"),
        (3, "x", "a", SET, "1", 42, "Unknown resource type 3"),
    ],
)
async def test_a_wrong_change_is_refused_in_kafkas_words(
    talk: Talk, kind: int, name: str, key: str, how: int, value: str | None, code: int, text: str
) -> None:
    told, why = await change(talk, kind, name, (key, how, value))
    assert told == code
    assert text in (why or "")


async def test_one_key_twice_and_one_resource_twice_are_refused(talk: Talk) -> None:
    told = await change(talk, TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert told == (42, "Error due to duplicate config keys")
    twice = [AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])] * 2
    request = IncrementalAlterConfigsRequest(resources=twice, validate_only=False)
    response = await talk.ask(request, 1, IncrementalAlterConfigsResponse)
    assert {one.error_message for one in response.responses} == {"Each resource must appear at most once."}


async def test_a_wrong_resource_does_not_hold_up_a_good_one(talk: Talk) -> None:
    good = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[AlterableConfig(name="retention.ms", config_operation=SET, value="9")],
    )
    bad = AlterConfigsResource(resource_type=TOPIC, resource_name="missing", configs=[])
    request = IncrementalAlterConfigsRequest(resources=[bad, good], validate_only=False)
    response = await talk.ask(request, 0, IncrementalAlterConfigsResponse)

    def codes(told: list[AlterConfigsResourceResponse]) -> list[int]:
        return [one.error_code for one in told]

    assert codes(response.responses) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert (await shown(talk, TOPIC, "t", "retention.ms")).value == "9"


# ---- changing a broker, a group, a logger


async def test_a_brokers_change_is_live_for_topics_that_say_nothing_themselves(talk: Talk) -> None:
    assert await change(talk, BROKER, "", ("message.max.bytes", SET, "700")) == (0, None)
    assert await change(talk, BROKER, "1", ("message.max.bytes", SET, "600")) == (0, None)
    found = await shown(talk, TOPIC, "t", "max.message.bytes")
    assert (found.value, found.config_source) == ("600", 2)
    assert [(said.name, said.value, said.source) for said in found.synonyms] == [
        ("message.max.bytes", "600", 2),
        ("message.max.bytes", "700", 3),
        ("message.max.bytes", "1048588", 5),
    ]
    assert (await talk.produce("t", b"x" * 700)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert [(one.name, one.value) for one in (await describe(talk, BROKER, "")).configs] == [
        ("message.max.bytes", "700"),
        ("min.insync.replicas", "1"),
    ]


async def test_everything_that_was_set_survives_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS, topics=[TopicAtStart("t")]) as talk:
        await change(talk, BROKER, "1", ("message.max.bytes", SET, "600"))
        await change(talk, TOPIC, "t", ("retention.ms", SET, "5"))
        await change(talk, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        await change(talk, GROUP, "h", ("consumer.session.timeout.ms", SET, "50000"))
        await change(talk, GROUP, "h", ("consumer.session.timeout.ms", DELETE, None))
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert (await shown(talk, BROKER, "1", "message.max.bytes")).value == "600"
        assert talk.broker.topics.partition("t", 0).settings.rules.max_message_bytes == 600
        assert (await shown(talk, TOPIC, "t", "retention.ms")).value == "5"
        assert (await shown(talk, GROUP, "g", "consumer.session.timeout.ms")).config_source == 8
        assert (await shown(talk, GROUP, "h", "consumer.session.timeout.ms")).config_source == 5


async def test_a_value_of_a_broker_that_cannot_be_read_any_more_does_not_prevent_a_start(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        await change(talk, BROKER, "1", ("message.max.bytes", SET, "600"))
        taken_once = {"message.max.bytes": "600", "log.retention.ms": "a week"}
        talk.broker._write([Change(KIND, "broker/1", {"configs": {**taken_once}})])
    async with talking(tmp_path, durability=Durability.OS) as talk:
        assert (await shown(talk, BROKER, "1", "message.max.bytes")).value == "600"
        assert (await shown(talk, BROKER, "1", "log.retention.ms")).value != "a week"


async def test_how_many_copies_a_write_needs_is_set_for_all_brokers_from_the_beginning(talk: Talk) -> None:
    key = "min.insync.replicas"
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        found = await shown(talk, kind, name, key)
        assert (found.value, found.config_source, found.is_default) == ("1", 3, False)
        assert [(said.value, said.source) for said in found.synonyms] == [("1", 3), ("1", 5)]
    assert [(one.name, one.value) for one in (await describe(talk, BROKER, "")).configs] == [(key, "1")]
    assert await change(talk, BROKER, "1", (key, SET, "2")) == (
        40,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert await change(talk, BROKER, "", (key, DELETE, None)) == (
        40,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert await change(talk, BROKER, "", (key, SET, "2")) == (0, None)
    assert (await shown(talk, TOPIC, "t", key)).value == "2"


async def test_a_key_that_nobody_knows_is_kept_and_not_shown_openly(talk: Talk) -> None:
    assert await change(talk, BROKER, "1", ("somebodys.plugin.key", SET, "9")) == (0, None)
    found = await shown(talk, BROKER, "1", "somebodys.plugin.key")
    assert (found.value, found.is_sensitive, found.read_only, found.config_source) == (None, True, True, 2)


async def test_log_levels_change_at_once(talk: Talk) -> None:
    name = a_module_that_logs.__name__
    before = (await shown(talk, LOGGER, "1", name)).value
    assert await change(talk, LOGGER, "1", (name, SET, "ERROR")) == (0, None)
    assert not a_module_that_logs.log.is_enabled_for(logs.LEVELS["warning"])
    found = await shown(talk, LOGGER, "1", name)
    assert (found.value, found.config_source) == ("ERROR", 6)
    assert await change(talk, LOGGER, "1", (name, DELETE, None)) == (0, None)
    assert (await shown(talk, LOGGER, "1", name)).value == before


# ---- listing


async def test_resources_are_listed_by_kind(talk: Talk) -> None:
    await change(talk, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    await change(talk, METRICS, "m", ("interval.ms", SET, "1000"))

    async def names(*kinds: int, version: int = 1) -> set[tuple[int, str]]:
        request = ListConfigResourcesRequest(resource_types=list(kinds))
        response = await talk.ask(request, version, ListConfigResourcesResponse)
        return {(one.resource_type, one.resource_name) for one in response.config_resources}

    assert await names() == {(GROUP, "g"), (METRICS, "m"), (LOGGER, "1"), (BROKER, "1"), (TOPIC, "t")}
    assert await names(GROUP, TOPIC) == {(GROUP, "g"), (TOPIC, "t")}
    assert await names(version=0) == {(METRICS, "m")}
    refused = await talk.ask(ListConfigResourcesRequest(resource_types=[99]), 1, ListConfigResourcesResponse)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
