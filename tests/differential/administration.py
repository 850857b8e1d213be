"""What administrators ask, at every version: who may what, settings, folders, leaders, limits, users, features.

`questions.py` goes deeper into values, at one version; here each version is asked, with a few right and wrong values.
Kafka's controller answers before its broker has heard, so a change is waited for before it is looked at.
"""

from __future__ import annotations

from broker_lite.wire.messages import k32_describe_configs as k32
from broker_lite.wire.messages import k33_alter_configs as k33
from broker_lite.wire.messages import k34_alter_replica_log_dirs as k34
from broker_lite.wire.messages import k35_describe_log_dirs as k35
from broker_lite.wire.messages import k43_elect_leaders as k43
from broker_lite.wire.messages import k44_incremental_alter_configs as k44
from broker_lite.wire.messages import k45_alter_partition_reassignments as k45
from broker_lite.wire.messages import k46_list_partition_reassignments as k46
from broker_lite.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from broker_lite.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker_lite.wire.messages.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.differential.conversations import Conversation, fill, make, topic, until
from tests.differential.wire import Wire

ANY, TOPIC, BROKER, METRICS, GROUP = 1, 2, 4, 16, 32
SET, DELETE, APPEND = 0, 1, 2
LITERAL, PREFIXED = 3, 4
READ, ALLOW = 3, 3


def api_versions(wire: Wire, both: dict[int, range]) -> None:
    for version in both[18]:
        for name, release in (
            (("apache-kafka-java", "4.3.1"), ("", ""), ("-x", "1"), ("x", "1 2")) if version > 2 else (("", ""),)
        ):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=release)
            wire.ask(f"{name!r} {release!r}", request, version, ApiVersionsResponse)


def sasl_on_a_plain_listener(wire: Wire, both: dict[int, range]) -> None:
    for version in both[17]:
        for mechanism in ("PLAIN", "nope", ""):
            wire.ask(mechanism, SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)
    for version in both[36]:
        wire.ask("unasked", SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version, SaslAuthenticateResponse)


def _acl(name: str, **other: int | str) -> AclCreation:
    given: dict[str, int | str] = {
        "resource_type": TOPIC, "resource_pattern_type": LITERAL, "principal": "User:alice", "host": "*",
        "operation": READ, "permission_type": ALLOW, "resource_name": name, **other,
    }  # fmt: skip
    return AclCreation(**given)  # type: ignore[arg-type]


def _of(name: str | None, pattern: int = LITERAL, kind: int = TOPIC, operation: int = ANY) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=ANY,
    )


def acls(wire: Wire, both: dict[int, range]) -> None:
    for version in both[30]:
        good = [
            _acl(f"acl{version}"),
            _acl(f"acl{version}", operation=4),
            _acl(f"ac{version}", resource_pattern_type=PREFIXED),
        ]
        wrong = {
            "without name": _acl(""), "principal": _acl("x", principal="alice"), "no host": _acl("x", host=""),
            "any operation": _acl("x", operation=ANY), "unknown operation": _acl("x", operation=99),
            "any permission": _acl("x", permission_type=ANY), "any type": _acl("x", resource_type=ANY),
            "any pattern": _acl("x", resource_pattern_type=1), "match pattern": _acl("x", resource_pattern_type=2),
            "cluster": _acl("x", resource_type=4), "unknown type": _acl("x", resource_type=99),
        }  # fmt: skip
        wire.ask("good", CreateAclsRequest(creations=good), version, CreateAclsResponse)
        wire.ask("again", CreateAclsRequest(creations=good[:1]), version, CreateAclsResponse)
        wire.ask("nothing", CreateAclsRequest(creations=[]), version, CreateAclsResponse)
        for label, one in wrong.items():
            wire.ask(label, CreateAclsRequest(creations=[one]), version, CreateAclsResponse)
        _settled(wire, f"acl{version}", 2)
        _settled(wire, f"ac{version}", 1, PREFIXED)
        for at in both[29]:
            for pattern in (LITERAL, PREFIXED, 1, 2, 0, 99):
                for kind in (TOPIC, ANY, 0, 99):
                    for name in (f"acl{version}", f"ac{version}", "none"):
                        wire.ask(f"{name} {pattern} {kind}", _of(name, pattern, kind), at, DescribeAclsResponse)
            wire.ask("operation", _of(f"acl{version}", operation=4), at, DescribeAclsResponse)
            wire.ask("no such operation", _of(f"acl{version}", operation=0), at, DescribeAclsResponse)
    for version in both[31]:
        for name, pattern in (
            (f"acl{version}", LITERAL),
            (f"acl{version}", LITERAL),
            (f"ac{version}x", 2),
            ("none", 1),
            ("x", 0),
        ):
            asked = DeleteAclsFilter(
                resource_type_filter=TOPIC, resource_name_filter=name, pattern_type_filter=pattern,
                principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
            )  # fmt: skip
            wire.ask(f"{name} {pattern}", DeleteAclsRequest(filters=[asked]), version, DeleteAclsResponse)
        _settled(wire, f"acl{version}", 0)
        _settled(wire, f"ac{version}", 0, PREFIXED)


def _settled(wire: Wire, name: str, count: int, pattern: int = LITERAL) -> None:
    until(
        lambda: wire.ask("acls", _of(name, pattern), 3, DescribeAclsResponse, note=False),
        lambda answer: sum(len(resource.acls) for resource in answer.resources) == count,
    )


def _look(kind: int, name: str, *keys: str, synonyms: bool = False) -> k32.DescribeConfigsRequest:
    asked = k32.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return k32.DescribeConfigsRequest(resources=[asked], include_synonyms=synonyms)


def _set_now(wire: Wire, name: str, value: str) -> None:
    until(
        lambda: wire.ask("set", _look(TOPIC, name, "retention.ms"), 4, k32.DescribeConfigsResponse, note=False),
        lambda answer: [config.value for config in answer.results[0].configs] == [value],
    )


def _broker_has(wire: Wire, key: str) -> None:
    until(
        lambda: wire.ask("set", _look(BROKER, "1", key), 4, k32.DescribeConfigsResponse, note=False),
        lambda answer: len(answer.results[0].configs) == 1,
    )


def configs(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("conf"))
    resources = ((TOPIC, "conf"), (TOPIC, "none"), (TOPIC, ""), (BROKER, "1"), (BROKER, "7"), (BROKER, "x"), (99, "x"))
    for version in both[33]:
        for kind, name in resources:
            for key, value in (
                ("retention.ms", f"7{version}000"),
                ("retention.ms", "x"),
                ("nope", "1"),
                ("retention.ms", None),
            ):
                config = k33.AlterableConfig(name=key, value=value)
                resource = k33.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
                for only in (True, False):
                    request = k33.AlterConfigsRequest(resources=[resource], validate_only=only)
                    wire.ask(f"{kind} {name!r} {key}={value} {only}", request, version, k33.AlterConfigsResponse)
        _set_now(wire, "conf", f"7{version}000")
        _broker_has(wire, "nope")
        _describe(wire, both)
    for version in both[44]:
        for kind, name in resources:
            for key, how, value in (
                ("retention.ms", SET, f"8{version}000"), ("retention.ms", SET, "x"), ("retention.ms", APPEND, "1"),
                ("cleanup.policy", APPEND, "compact"), ("nope", SET, "1"), ("retention.ms", SET, None),
            ):  # fmt: skip
                change = k44.AlterableConfig(name=key, config_operation=how, value=value)
                target = k44.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
                for only in (True, False):
                    asked = k44.IncrementalAlterConfigsRequest(resources=[target], validate_only=only)
                    label = f"{kind} {name!r} {key} {how} {value} {only}"
                    wire.ask(label, asked, version, k44.IncrementalAlterConfigsResponse)
        _set_now(wire, "conf", f"8{version}000")
        _broker_has(wire, "nope")
        _describe(wire, both)


def _describe(wire: Wire, both: dict[int, range]) -> None:
    for version in both[32]:
        for synonyms in (False, True):
            wanted = ("retention.ms", "cleanup.policy", "max.message.bytes", "nope")
            wire.ask(
                f"some {synonyms}",
                _look(TOPIC, "conf", *wanted, synonyms=synonyms),
                version,
                k32.DescribeConfigsResponse,
            )
            broker = _look(BROKER, "1", "log.retention.hours", "message.max.bytes", "nope", synonyms=synonyms)
            wire.ask(f"broker {synonyms}", broker, version, k32.DescribeConfigsResponse)
        for kind, name in (
            (TOPIC, "none"),
            (TOPIC, ""),
            (BROKER, "7"),
            (BROKER, "x"),
            (GROUP, ""),
            (METRICS, ""),
            (99, "x"),
        ):
            wire.ask(f"{kind} {name!r}", _look(kind, name), version, k32.DescribeConfigsResponse)
    for version in both[74]:
        for kinds in ([GROUP, METRICS], [BROKER], [99]) if version else ([],):
            request = ListConfigResourcesRequest(resource_types=kinds)
            wire.ask(f"{kinds}", request, version, ListConfigResourcesResponse)


def folders(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("dirs", 2))
    fill(wire, "dirs")
    for version in both[35]:
        for label, wanted in {
            "one": ("dirs", [0]),
            "far": ("dirs", [9]),
            "none": ("none", [0]),
        }.items():
            topics = [k35.DescribableLogDirTopic(topic=wanted[0], partitions=wanted[1])]
            wire.ask(label, k35.DescribeLogDirsRequest(topics=topics), version, k35.DescribeLogDirsResponse)
        wire.ask("nothing", k35.DescribeLogDirsRequest(topics=[]), version, k35.DescribeLogDirsResponse)
    for version in both[34]:
        for name, index in (("dirs", 0), ("dirs", 9), ("none", 0)):
            target = k34.AlterReplicaLogDirTopic(name=name, partitions=[index])
            for path in ("/no/such/folder", "relative", ""):
                moved = k34.AlterReplicaLogDirsRequest(dirs=[k34.AlterReplicaLogDir(path=path, topics=[target])])
                wire.ask(f"{name}-{index} {path}", moved, version, k34.AlterReplicaLogDirsResponse)


def leaders(wire: Wire, both: dict[int, range]) -> None:
    make(wire, topic("led", 2))
    for version in both[43]:
        for kind in (0, 1, 5) if version else (0,):
            for name, indexes in (("led", [0]), ("led", [0, 1]), ("led", [9]), ("none", [0]), ("", [0])):
                wanted = [k43.TopicPartitions(topic=name, partitions=indexes)]
                request = k43.ElectLeadersRequest(topic_partitions=wanted, timeout_ms=5000)
                request.election_type = kind
                wire.ask(f"{kind} {name!r} {indexes}", request, version, k43.ElectLeadersResponse)
    for version in both[45]:
        for name, index in (("led", 0), ("led", 9), ("none", 0)):
            for replicas in ([1], [2], [1, 1], [1, 2], [-1], [], None):
                part = k45.ReassignablePartition(partition_index=index, replicas=replicas)
                moving = [k45.ReassignableTopic(name=name, partitions=[part])]
                asked = k45.AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=moving)
                wire.ask(f"{name}-{index} {replicas}", asked, version, k45.AlterPartitionReassignmentsResponse)
    for version in both[46]:
        for topics in (None, [], [("led", [0, 1])], [("none", [0])], [("led", [9])]):
            named = None if topics is None else [
                k46.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in topics
            ]  # fmt: skip
            listed = k46.ListPartitionReassignmentsRequest(timeout_ms=5000, topics=named)
            wire.ask(f"{topics}", listed, version, k46.ListPartitionReassignmentsResponse)


ADMINISTRATION: list[Conversation] = [api_versions, sasl_on_a_plain_listener, acls, configs, folders, leaders]
