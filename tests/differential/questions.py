"""What both brokers are asked, in this order: each question changes what the next ones find.

A question that is answered otherwise on purpose has a name; `docs/differences.md` explains it under that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_lite.wire.messages import k33_alter_configs as k33
from broker_lite.wire.messages import k44_incremental_alter_configs as k44
from broker_lite.wire.messages import k48_describe_client_quotas as k48
from broker_lite.wire.messages import k49_alter_client_quotas as k49
from broker_lite.wire.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker_lite.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker_lite.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker_lite.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker_lite.wire.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from broker_lite.wire.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker_lite.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from broker_lite.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker_lite.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from broker_lite.wire.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from broker_lite.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker_lite.wire.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from broker_lite.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from broker_lite.wire.schema import ZERO_UUID

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


class Question(NamedTuple):
    request: object
    name: str = ""
    version: int | None = None


def questions() -> Iterator[Question]:
    yield from _topics()
    yield from _configs()
    yield from _cluster()
    yield from _quotas()
    yield from _users()


def _create(name: str, count: int = 1, copies: int = 1, only: bool = False, **configs: str | None) -> object:
    wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=count, replication_factor=copies, assignments=[], configs=wanted)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=only)


def _create_all(*wanted: tuple[str, int, dict[int, list[int]]]) -> object:
    """Name, number of partitions or -1, and where they shall be."""
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=-1 if places else 1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=nodes) for index, nodes in places.items()
            ],
            configs=[],
        )
        for name, count, places in wanted
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=False)


def _grow_all(*wanted: tuple[str, int]) -> object:
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wanted]
    return CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=False)


def _grow(name: str, count: int) -> object:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)


def _delete(*names: str) -> object:
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names], timeout_ms=5000
    )


def _topics() -> Iterator[Question]:
    yield Question(_create("t", 2, retention_ms="1000"))
    yield Question(_create("t", 2))
    yield Question(_create("a.b"))
    yield Question(_create("a.b"))
    yield Question(_create("none", 0))
    yield Question(_create("none", 1, 0))
    yield Question(_create("none", 1, 2))
    yield Question(_create("none", 1, 1, nope="1"))
    yield Question(_create("none", 1, 1, retention_ms="x"))
    yield Question(_create("none", 1, 1, retention_ms=None))
    yield Question(_create("", 1), name="texts about topic names")
    yield Question(_create("bad name", 1), name="texts about topic names")
    yield Question(_create("__cluster_metadata"))
    yield Question(_create_all(("m1", 2, {}), ("m2", 0, {}), ("m3", -1, {2: [1]}), ("m4", -1, {0: [1], 1: [1]})))
    yield Question(_create_all(("m5", 1, {}), ("m6", 1, {}), ("m5", 2, {})))
    yield Question(_create_all(("m7", -1, {0: []}), ("m8", -1, {0: [7]}), ("m9", -1, {0: [1, 1]}), ("m1", 1, {})))
    yield Question(_grow_all(("m1", 4), ("m2", 4), ("m4", 1), ("m6", 3), ("m6", 4)))
    yield Question(_delete("m1", "none", "m4", "m4"))
    yield Question(_delete("m1", "m6"))
    yield Question(_grow("t", 2))
    yield Question(_grow("t", 1))
    yield Question(_grow("none", 5))
    yield Question(_grow("t", 3))
    yield Question(_delete("none"))
    yield Question(_delete("a.b"))
    for index, offset in ((0, 0), (0, -1), (0, 5), (9, 0), (0, -2)):
        part = DeleteRecordsPartition(partition_index=index, offset=offset)
        yield Question(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=5000))


def _change(kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = False) -> object:
    configs = [k44.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = k44.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return k44.IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)


def _change_all(*changes: tuple[str, str, str]) -> object:
    """Of topics, each as a resource of its own."""
    resources = [
        k44.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[k44.AlterableConfig(name=key, config_operation=SET, value=value)],
        )
        for name, key, value in changes
    ]
    return k44.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def _replace(kind: int, name: str, **texts: str | None) -> object:
    configs = [k33.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in texts.items()]
    resource = k33.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return k33.AlterConfigsRequest(resources=[resource], validate_only=False)


def _describe(kind: int, name: str, *keys: str) -> object:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[asked], include_synonyms=True)


def _configs() -> Iterator[Question]:
    for change in (
        ("retention.ms", SET, "5"), ("retention.ms", SET, "x"), ("retention.ms", SET, None),
        ("retention.ms", DELETE, None), ("retention.ms", APPEND, "1"), ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "compact"), ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", APPEND, "bogus"), ("cleanup.policy", DELETE, None), ("nope", SET, "1"),
        ("nope", DELETE, None), ("nope", APPEND, "1"), ("min.insync.replicas", SET, "0"),
        ("max.message.bytes", SET, "-1"), ("compression.type", SET, "zstd"), ("segment.ms", SET, "0"),
    ):  # fmt: skip
        yield Question(_change(TOPIC, "t", change))
    yield Question(_change(TOPIC, "t", ("retention.ms", 9, "1")), name="an unknown operation on a key")
    yield Question(_change(TOPIC, "t", ("segment.bytes", SET, "14")), name="the smallest segment.bytes")
    yield Question(_change(TOPIC, "t", ("segment.bytes", DELETE, None)))
    yield Question(_change(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")))
    for change in (("retention.ms", SET, "5"), ("retention.ms", SET, "x"), ("retention.ms", APPEND, "5")):
        yield Question(_change(TOPIC, "none", change))
    yield Question(_change_all(("t", "retention.ms", "7000"), ("none", "retention.ms", "1"), ("t2", "nope", "1")))
    yield Question(_change_all(("t", "retention.ms", "7000"), ("t", "segment.ms", "9000")))
    yield Question(_change(TOPIC, "", ("retention.ms", SET, "5")))
    for change in (
        ("message.max.bytes", SET, "2000000"), ("message.max.bytes", SET, "x"), ("node.id", SET, "5"),
        ("num.partitions", SET, "5"), ("nope", SET, "5"), ("nope", DELETE, None), ("log.retention.ms", SET, "1000"),
        ("producer.id.expiration.ms", SET, "x"), ("advertised.listeners", SET, "PLAINTEXT://:1"),
        ("broker.id", SET, "5"), ("max.connections", SET, "x"), ("max.connections", SET, "-1"),
        ("max.connections", SET, "9000"), ("max.connections.per.ip", SET, "8000"),
        ("max.connections.per.ip.overrides", SET, "127.0.0.9:3"), ("max.connections", DELETE, None),
        ("max.connections.per.ip", DELETE, None), ("max.connections.per.ip.overrides", DELETE, None),
        ("log.cleaner.threads", SET, "2"), ("log.cleaner.threads", DELETE, None), ("background.threads", SET, "x"),
    ):  # fmt: skip
        yield Question(_change(BROKER, "1", change))
    yield Question(_change(BROKER, "", ("message.max.bytes", SET, "3000000")))
    yield Question(_describe(TOPIC, "t"))
    yield Question(_describe(TOPIC, "t", "max.message.bytes", "retention.ms", "cleanup.policy", "none"))
    yield Question(_describe(BROKER, "1", "message.max.bytes", "log.retention.ms", "node.id"), name="node.id is given")
    yield Question(_change(BROKER, "7", ("message.max.bytes", SET, "1")))
    yield Question(_change(BROKER, "x", ("message.max.bytes", SET, "1")))
    yield Question(_replace(BROKER, "1", message_max_bytes="2222222"))
    yield Question(_replace(BROKER, "1"))
    for name, key, how, value in (
        ("1", "root", APPEND, "DEBUG"), ("1", "root", DELETE, None), ("1", "no.such", SET, "DEBUG"),
        ("1", "root", SET, "LOUD"), ("1", "root", SET, "INFO"), ("7", "root", SET, "INFO"), ("", "root", SET, "INFO"),
    ):  # fmt: skip
        yield Question(_change(LOGGER, name, (key, how, value)))
    for name, key, value in (
        ("g", "consumer.session.timeout.ms", "50000"), ("g", "consumer.session.timeout.ms", "1"),
        ("g", "consumer.session.timeout.ms", "99999"), ("g", "consumer.heartbeat.interval.ms", "1"),
        ("g", "nope", "1"), ("", "consumer.session.timeout.ms", "50000"),
    ):  # fmt: skip
        yield Question(_change(GROUP, name, (key, SET, value)))
    yield Question(_describe(GROUP, "g", "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"))
    for name, key, value in (
        ("m", "interval.ms", "1000"), ("m", "interval.ms", "5"), ("m", "match", "bogus=1"),
        ("m", "match", "client_id=["), ("m", "nope", "1"), ("", "interval.ms", "1000"),
    ):  # fmt: skip
        yield Question(_change(METRICS, name, (key, SET, value)))
    yield Question(_describe(METRICS, "m"))
    yield Question(_change(3, "x", ("a", SET, "1")))
    yield Question(_replace(LOGGER, "1", root="INFO"))
    yield Question(_replace(TOPIC, "t", retention_ms=None))
    for kind, name in (
        (TOPIC, "none"),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, ""),
        (GROUP, ""),
        (METRICS, ""),
        (9, "x"),
    ):
        yield Question(_describe(kind, name), name="the text about a missing topic" if name == "none" else "")
    for kinds in ([], [GROUP, METRICS], [BROKER, LOGGER], [99]):
        yield Question(ListConfigResourcesRequest(resource_types=kinds))


def _cluster() -> Iterator[Question]:
    for election, topic, index in ((0, "t", 0), (1, "t", 0), (0, "none", 0), (0, "t", 99), (5, "t", 0)):
        wanted = [TopicPartitions(topic=topic, partitions=[index])]
        yield Question(ElectLeadersRequest(election_type=election, topic_partitions=wanted))
    for topic, index, copies in (
        ("t", 0, [1]), ("t", 0, [2]), ("t", 0, [1, 1]), ("t", 0, []), ("t", 0, None), ("t", 99, [1]), ("none", 0, [1]),
    ):  # fmt: skip
        part = ReassignablePartition(partition_index=index, replicas=copies)
        yield Question(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[part])]))
    yield Question(ListPartitionReassignmentsRequest())
    yield Question(DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[0])]))
    for name, level, how in (
        ("nope", 1, 1), ("transaction.version", 1, 1), ("transaction.version", 1, 2), ("transaction.version", 2, 1),
        ("transaction.version", 9, 1), ("group.version", -1, 2), ("group.version", 1, 9), ("metadata.version", 5, 1),
        ("metadata.version", 20, 2), ("metadata.version", 20, 3),
    ):  # fmt: skip
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how)
        yield Question(UpdateFeaturesRequest(feature_updates=[update]), version=1)


def _quota(entity: dict[str, str | None], key: str, limit: float, remove: bool = False) -> object:
    entry = k49.EntryData(
        entity=[k49.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[k49.OpData(key=key, value=limit, remove=remove)],
    )
    return k49.AlterClientQuotasRequest(entries=[entry], validate_only=False)


def _quotas() -> Iterator[Question]:
    bytes_in, connections = "producer_byte_rate", "connection_creation_rate"
    for entity, key, limit in (
        ({"user": "bob"}, bytes_in, 1000.0), ({"user": None}, bytes_in, 1000.0), ({"client-id": "c"}, bytes_in, 5.5),
        ({"user": "bob", "client-id": "c"}, "request_percentage", 10.5), ({"ip": "1.2.3.4"}, connections, 10.0),
        ({"user": "bob"}, "nope", 1.0), ({"user": "bob"}, bytes_in, 0.0), ({"user": "bob"}, bytes_in, -1.0),
        ({"user": "bob"}, bytes_in, 1e30), ({"user": "bob"}, connections, 1.0), ({"ip": "1.2.3.4"}, bytes_in, 1.0),
        ({"ip": "1.2.3.4", "user": "x"}, connections, 1.0), ({"bogus": "x"}, bytes_in, 1.0), ({}, bytes_in, 1.0),
        ({"user": ""}, bytes_in, 1.0),
    ):  # fmt: skip
        yield Question(_quota(dict(entity), key, limit))
    for parts, strict in (
        ([], False), ([("user", 0, "bob")], False), ([("user", 0, "bob")], True), ([("user", 1, None)], False),
        ([("user", 2, None)], True), ([("user", 2, None), ("client-id", 2, None)], False), ([("ip", 2, None)], False),
        ([("bogus", 2, None)], False), ([("user", 9, None)], False), ([("user", 0, None)], False),
        ([("user", 1, "x")], False), ([("user", 0, "a"), ("user", 0, "b")], False), ([("", 2, None)], False),
        ([("ip", 2, None), ("user", 2, None)], False),
    ):  # fmt: skip
        wanted = [k48.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in parts]
        yield Question(k48.DescribeClientQuotasRequest(components=wanted, strict=strict))


def _users() -> Iterator[Question]:
    def add(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
        )

    def alter(*wishes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Question:
        return Question(
            AlterUserScramCredentialsRequest(
                deletions=[wish for wish in wishes if isinstance(wish, ScramCredentialDeletion)],
                upsertions=[wish for wish in wishes if isinstance(wish, ScramCredentialUpsertion)],
            )
        )

    yield alter(add("alice"))
    yield alter(add("alice", 2, 8192))
    for wish in (add("b", 9), add("b", 1, 100), add("b", 1, 99999), add("")):
        yield alter(wish)
    yield alter(add("b"), add("b"))
    yield alter(ScramCredentialDeletion(name="nobody", mechanism=1))
    yield alter(ScramCredentialDeletion(name="alice", mechanism=9))
    yield alter(ScramCredentialDeletion(name="alice", mechanism=1), add("alice"))
    for names in ([], ["alice"], ["nobody"], ["alice", "alice"]):
        yield Question(DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names]))
    yield alter(ScramCredentialDeletion(name="alice", mechanism=1))
