"""What the admin clients of two Python libraries hear from a broker, call by call, as text that can be compared."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import cast

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import TopicPartition as Place
from kafka import admin as kafka_python
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

Call = tuple[str, Callable[[], object]]
LONG_AGO = 1_700_000_000_000
_ONCE = re.compile(r"\b(create|delete|remove|produce|incremental)")
_PATIENCE = 20.0
_REFUSED = (KafkaException, KafkaError, ValueError)
_ANY = cast("str", None)
"""What the filter takes and its types do not say."""


def heard(bootstrap: str, expected: Mapping[str, str] | None = None) -> dict[str, str]:
    """Call -> what came back, without what differs between any two brokers.

    Apache Kafka tells of a change a moment after it was made, so what may be asked again is, for a while, until it is
    what somebody else heard.
    """
    found: dict[str, str] = {}
    for name, call in (*_confluent(bootstrap), *_kafka_python(bootstrap)):
        assert name not in found, name
        deadline = time.monotonic() + _PATIENCE
        found[name] = _told(call, bootstrap)
        while expected and not _ONCE.search(name) and found[name] != expected[name] and time.monotonic() < deadline:
            found[name] = _told(call, bootstrap)
    return found


def _told(call: Callable[[], object], bootstrap: str) -> str:
    text = json.dumps(_plain(_outcome(call)), sort_keys=True, default=str)
    text = text.replace(bootstrap.split(":")[1], "PORT")
    return re.sub(r"topic_id['\"]?[=:] ?(UUID\(.*?\)|'.*?'|\".*?\"|None|null)", "ID", text)


def _outcome(call: Callable[[], object]) -> object:
    try:
        came = call()
        if not isinstance(came, dict):
            return _result(came)
        return {str(key): _result(value) for key, value in came.items()}
    except _REFUSED as error:
        return f"{type(error).__name__}: {error}"


def _result(value: object) -> object:
    """What a future came to."""
    wait = getattr(value, "result", None)
    if wait is None:
        return value
    try:
        return wait(20)
    except _REFUSED as error:
        return f"{type(error).__name__}: {error}"


def _plain(value: object) -> object:
    """Objects as dictionaries, and lists in an order that does not depend on the broker."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items() if str(key) != "broker.lite.strict"}
    if isinstance(value, list | tuple | set):
        return sorted((_plain(one) for one in value), key=str)
    if value is None or isinstance(value, int | float | str | bytes):
        return str(value) if isinstance(value, bytes) else value
    facts = None if isinstance(value, Enum) else getattr(value, "__dict__", None)
    return _plain({key: one for key, one in facts.items() if str(key) != "topic_id"}) if facts else str(value)


def _confluent(bootstrap: str) -> Iterator[Call]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    first, second, gone = "confluent-1", "confluent-2", "nowhere"
    made = [
        NewTopic(first, 3, 1, config={"retention.ms": "5"}),
        NewTopic(second, 2, replica_assignment=[[1], [1]]),
        NewTopic("many", 1, 3),
        NewTopic("odd", 1, 1, config={"no.such.key": "1"}),
    ]
    yield "create_topics", lambda: admin.create_topics(made)
    yield "create_topics again", lambda: admin.create_topics(made[:1])
    yield "create_topics to look", lambda: admin.create_topics([NewTopic("dry", 1, 1)], validate_only=True)
    more = [NewPartitions(first, 5), NewPartitions(second, 1), NewPartitions(gone, 9)]
    yield "create_partitions", lambda: admin.create_partitions(more)
    names = TopicCollection([first, gone])
    yield "describe_topics", lambda: admin.describe_topics(names, include_authorized_operations=True)
    yield "describe_cluster", lambda: admin.describe_cluster(include_authorized_operations=True)
    yield "describe_configs", lambda: admin.describe_configs([ConfigResource("topic", first)])
    add = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    wrong = ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET)
    changes = [
        ConfigResource("topic", first, incremental_configs=[add]),
        ConfigResource("topic", second, incremental_configs=[wrong]),
    ]
    yield "incremental_alter_configs", lambda: admin.incremental_alter_configs(changes)
    yield "describe_configs later", lambda: admin.describe_configs([ConfigResource("topic", first)])
    rule = AclBinding(
        ResourceType.TOPIC, first, ResourcePatternType.LITERAL, "User:x", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    every = AclBindingFilter(
        ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY
    )
    yield "create_acls", lambda: admin.create_acls([rule])
    yield "describe_acls", lambda: admin.describe_acls(every)
    yield "delete_acls", lambda: admin.delete_acls([every])
    yield "produce", lambda: _produce(bootstrap, first)
    places = {
        TopicPartition(first, 0): OffsetSpec.latest(),
        TopicPartition(first, 1): OffsetSpec.earliest(),
        TopicPartition(first, 2): OffsetSpec.max_timestamp(),
    }
    yield "list_offsets", lambda: admin.list_offsets(places)
    at = {TopicPartition(first, 0): OffsetSpec.for_timestamp(LONG_AGO + 4)}
    yield "list_offsets by time", lambda: admin.list_offsets(at)
    cut = [TopicPartition(first, 0, 4), TopicPartition(first, 1, 5)]
    yield "delete_records", lambda: admin.delete_records(cut)
    group = "confluent-group"
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(first, 0, 5), TopicPartition(first, 1, 0)])
    yield "alter_consumer_group_offsets", lambda: admin.alter_consumer_group_offsets([moved])
    asked = [ConsumerGroupTopicPartitions(group)]
    yield "list_consumer_group_offsets", lambda: admin.list_consumer_group_offsets(asked)
    yield (
        "list_consumer_groups",
        lambda: admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}, types={ConsumerGroupType.CLASSIC}),
    )
    yield "describe_consumer_groups", lambda: admin.describe_consumer_groups([group, "never"])
    yield "delete_consumer_groups", lambda: admin.delete_consumer_groups([group, "never"])
    sha = ScramMechanism.SCRAM_SHA_256
    users = [
        UserScramCredentialUpsertion("al", ScramCredentialInfo(sha, 8192), b"secret", b"salt"),
        UserScramCredentialUpsertion("bo", ScramCredentialInfo(sha, 12), b"secret", b"salt"),
        UserScramCredentialDeletion("cy", sha),
    ]
    yield "alter_user_scram_credentials", lambda: admin.alter_user_scram_credentials(users)
    yield "describe_user_scram_credentials", lambda: admin.describe_user_scram_credentials(["al", "bo"])
    here = [TopicPartition(first, 0), TopicPartition(gone, 0)]
    yield "elect_leaders", lambda: admin.elect_leaders(ElectionType.PREFERRED, here)
    yield "delete_topics", lambda: admin.delete_topics([first, second, gone])


def _produce(bootstrap: str, topic: str) -> int:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(9):
        producer.produce(topic, b"x", partition=0, timestamp=LONG_AGO + number)
    return producer.flush(20)


def _kafka_python(bootstrap: str) -> Iterator[Call]:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    latest, largest = kafka_python.OffsetSpec.LATEST, kafka_python.OffsetSpec.MAX_TIMESTAMP
    topics = {"python-1": {"num_partitions": 3, "replication_factor": 1}, "python-2": {"assignments": {0: [1], 1: [1]}}}
    bad = {"python-1": {}, "many": {"replication_factor": 4}, "odd": {"configs": {"no.such.key": "1"}}, "python-3": {}}
    first = Place("python-1", 0)
    yield "kp create_topics", lambda: admin.create_topics(topics)
    yield "kp create_topics wrong", lambda: admin.create_topics(bad, raise_errors=False)
    yield "kp describe_topics", lambda: admin.describe_topics(["python-1", "nowhere"])
    yield "kp a page", lambda: admin.describe_topic_partitions(["python-1", "python-2"], response_partition_limit=2)
    cursor = {"topic_name": "python-1", "partition_index": 2}
    yield "kp the next page", lambda: admin.describe_topic_partitions(["python-1", "python-2"], cursor=cursor)
    yield "kp create_partitions", lambda: admin.create_partitions({"python-1": 5})
    changed = kafka_python.ConfigResource(kafka_python.ConfigResourceType.TOPIC, "python-1", {"retention.ms": "7"})
    yield "kp alter_configs", lambda: admin.alter_configs([changed])
    yield "kp reset_configs", lambda: admin.reset_configs([changed])
    yield "kp produce", lambda: _produce(bootstrap, "python-1")
    yield "kp list_partition_offsets", lambda: admin.list_partition_offsets({first: latest})
    yield "kp list_partition_offsets by time", lambda: admin.list_partition_offsets({first: LONG_AGO + 4})
    yield "kp list_partition_offsets largest", lambda: admin.list_partition_offsets({first: largest})
    kept = {first: OffsetAndMetadata(4, "meta", -1), Place("nowhere", 0): OffsetAndMetadata(4, "", -1)}
    yield "kp alter_group_offsets", lambda: admin.alter_group_offsets("python-group", kept)
    yield "kp list_group_offsets", lambda: admin.list_group_offsets({"python-group": None, "never": None})
    yield "kp reset_group_offsets", lambda: admin.reset_group_offsets("python-group", {first: latest})
    yield "kp describe_groups", lambda: admin.describe_groups(["python-group", "never"])
    yield "kp delete_group_offsets", lambda: admin.delete_group_offsets("python-group", [first, Place("nowhere", 0)])
    nobody = [kafka_python.MemberToRemove(member_id="x")]
    yield "kp remove_group_members", lambda: admin.remove_group_members("python-group", nobody)
    yield "kp delete_groups", lambda: admin.delete_groups(["python-group", "never"])
    yield "kp elect_leaders", lambda: admin.elect_leaders(0, {"python-1": [0], "nowhere": [0]}, raise_errors=False)
    moves = {first: [1], Place("python-1", 1): [7], Place("python-1", 2): None, Place("nowhere", 2): [1]}
    yield "kp alter_partition_reassignments", lambda: admin.alter_partition_reassignments(moves)
    yield "kp list_partition_reassignments", lambda: admin.list_partition_reassignments()
    yield "kp update_features", lambda: admin.update_features({"transaction.version": 9}, validate_only=True)
    yield "kp describe_transactions", lambda: admin.describe_transactions(["never"])
    yield "kp find_hanging_transactions", lambda: admin.find_hanging_transactions([1])
    yield "kp delete_records", lambda: admin.delete_records({first: 30})
    yield "kp delete_topics", lambda: admin.delete_topics(["python-1", "python-2", "python-3"])
