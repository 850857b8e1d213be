"""Which rights every API needs: with exactly those a request passes, with all others and not one of them it does not.

`NEEDS` is written down from Kafka's own code, beside our rows and not made of them.  An API that is not in it fails.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_lite.apis.routes import Served
from broker_lite.errors import Malformed
from broker_lite.security.acls import Operation, Permission, Resource
from tests.security.hiding import HIDDEN, TABLE, Filling, binding, each_api, hiding, kept, topic_id
from tests.security.test_permissions import REFUSALS, codes
from tests.support.talk import Talk

READ, WRITE, CREATE, DELETE, ALTER = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
)
DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
CLUSTER_ACTION = Operation.CLUSTER_ACTION
TOPIC, GROUP, TXN, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID, Resource.CLUSTER

Right = tuple[Operation, Resource]
NEEDS: dict[str, list[Right]] = {
    "Produce": [(WRITE, TXN), (WRITE, TOPIC)],
    "Fetch": [(READ, TOPIC)],
    "ListOffsets": [(DESCRIBE, TOPIC)],
    "Metadata": [(DESCRIBE, TOPIC)],
    "OffsetCommit": [(READ, GROUP), (READ, TOPIC)],
    "OffsetFetch": [(DESCRIBE, GROUP), (DESCRIBE, TOPIC)],
    "FindCoordinator": [(DESCRIBE, GROUP)],
    "JoinGroup": [(READ, GROUP)],
    "Heartbeat": [(READ, GROUP)],
    "LeaveGroup": [(READ, GROUP)],
    "SyncGroup": [(READ, GROUP)],
    "DescribeGroups": [(DESCRIBE, GROUP)],
    "ListGroups": [(DESCRIBE, GROUP)],
    "SaslHandshake": [],
    "ApiVersions": [],
    "CreateTopics": [(CREATE, TOPIC)],
    "DeleteTopics": [(DELETE, TOPIC)],
    "DeleteRecords": [(DELETE, TOPIC)],
    "InitProducerId": [(WRITE, TXN)],
    "OffsetForLeaderEpoch": [(DESCRIBE, TOPIC)],
    "AddPartitionsToTxn": [(WRITE, TXN), (WRITE, TOPIC)],
    "AddOffsetsToTxn": [(WRITE, TXN), (READ, GROUP)],
    "EndTxn": [(WRITE, TXN)],
    "WriteTxnMarkers": [(CLUSTER_ACTION, CLUSTER)],
    "TxnOffsetCommit": [(WRITE, TXN), (READ, GROUP), (READ, TOPIC)],
    "DescribeAcls": [(DESCRIBE, CLUSTER)],
    "CreateAcls": [(ALTER, CLUSTER)],
    "DeleteAcls": [(ALTER, CLUSTER)],
    "DescribeConfigs": [(DESCRIBE_CONFIGS, TOPIC)],
    "AlterConfigs": [(ALTER_CONFIGS, TOPIC)],
    "AlterReplicaLogDirs": [(ALTER, CLUSTER)],
    "DescribeLogDirs": [(DESCRIBE, CLUSTER)],
    "SaslAuthenticate": [],
    "CreatePartitions": [(ALTER, TOPIC)],
    "DeleteGroups": [(DELETE, GROUP)],
    "ElectLeaders": [(ALTER, CLUSTER)],
    "IncrementalAlterConfigs": [(ALTER_CONFIGS, TOPIC)],
    "AlterPartitionReassignments": [(ALTER, CLUSTER)],
    "ListPartitionReassignments": [(DESCRIBE, CLUSTER)],
    "OffsetDelete": [(DELETE, GROUP), (READ, TOPIC)],
    "DescribeClientQuotas": [(DESCRIBE_CONFIGS, CLUSTER)],
    "AlterClientQuotas": [(ALTER_CONFIGS, CLUSTER)],
    "DescribeUserScramCredentials": [(DESCRIBE, CLUSTER)],
    "AlterUserScramCredentials": [(ALTER, CLUSTER)],
    "DescribeQuorum": [(DESCRIBE, CLUSTER)],
    "UpdateFeatures": [(ALTER, CLUSTER)],
    "DescribeCluster": [],
    "DescribeProducers": [(READ, TOPIC)],
    "DescribeTransactions": [(DESCRIBE, TXN)],
    "ListTransactions": [(DESCRIBE, TXN)],
    "ConsumerGroupHeartbeat": [(READ, GROUP), (DESCRIBE, TOPIC)],
    "ConsumerGroupDescribe": [(DESCRIBE, GROUP)],
    "GetTelemetrySubscriptions": [],
    "PushTelemetry": [],
    "ListConfigResources": [(DESCRIBE_CONFIGS, CLUSTER)],
    "DescribeTopicPartitions": [(DESCRIBE, TOPIC)],
}
"""What Kafka asks the authorizer for, of a request that is filled with one name."""
INSTEAD: dict[str, Right] = {
    "ListGroups": (DESCRIBE, CLUSTER),
    "CreateTopics": (CREATE, CLUSTER),
    "DeleteTopics": (DELETE, CLUSTER),
    "OffsetForLeaderEpoch": (CLUSTER_ACTION, CLUSTER),
    "WriteTxnMarkers": (ALTER, CLUSTER),
}
"""Another right that does as well."""
LISTS = ("ListGroups", "ListTransactions")
"""APIs that refuse nothing: they leave out."""


def needs_of(api: Served, version: int) -> list[Right]:
    if api.name == "AddPartitionsToTxn" and version >= 4:  # between brokers
        return [(CLUSTER_ACTION, CLUSTER)]
    if api.name == "Produce" and version < 3:  # before there were transactions
        return [(WRITE, TOPIC)]
    return NEEDS[api.name]


def allow(talk: Talk, *rights: Right, permission: Permission = Permission.ALLOW) -> None:
    talk.broker.acls.add(
        [
            binding("kafka-cluster" if resource is CLUSTER else HIDDEN, operation, resource, permission=permission)
            for operation, resource in rights
        ]
    )


async def passes(talk: Talk, api: Served, version: int) -> bool:
    lists = api.name not in LISTS
    request = Filling(HIDDEN, topic_id=topic_id(talk), lists=lists).request(api, version)
    try:
        answer: object = await asyncio.wait_for(talk.ask(request, version, api.response), 0.2)
    except (Malformed, TimeoutError):
        return True  # the handler was asked, and has its own opinion
    if not lists:
        return repr(HIDDEN) in str(answer)
    return not REFUSALS & set(codes(answer))


def test_every_api_is_in_the_table() -> None:
    assert [api.name for api in TABLE] == list(NEEDS)


@each_api
async def test_exactly_the_rights_that_kafka_wants_are_enough(tmp_path: Path, api: Served) -> None:
    for version in {api.versions[0], api.versions[-1]}:
        async with hiding(tmp_path / str(version)) as talk:
            allow(talk, *needs_of(api, version))
            assert await passes(talk, api, version), f"{api.name} v{version}"


@each_api
async def test_everything_but_one_of_the_rights_is_not_enough(tmp_path: Path, api: Served) -> None:
    """A denial counts, whatever is allowed beside it."""
    for version in {api.versions[0], api.versions[-1]}:
        for missing in needs_of(api, version):
            async with hiding(tmp_path / f"{version}-{missing[0].name}-{missing[1].name}") as talk:
                talk.broker.acls.add(
                    [binding("*", Operation.ALL, one) for one in (TOPIC, GROUP, TXN)]
                    + [binding("kafka-cluster", Operation.ALL, CLUSTER)]
                )
                also = [INSTEAD[api.name]] if api.name in INSTEAD else []
                allow(talk, missing, *also, permission=Permission.DENY)
                before = kept(talk)
                assert not await passes(talk, api, version), f"{api.name} v{version} without {missing}"
                assert kept(talk) == before


@pytest.mark.parametrize("name", INSTEAD)
async def test_another_right_does_as_well(tmp_path: Path, name: str) -> None:
    (api,) = (one for one in TABLE if one.name == name)
    for version in {api.versions[0], api.versions[-1]}:
        async with hiding(tmp_path / str(version)) as talk:
            allow(talk, INSTEAD[name])
            assert await passes(talk, api, version), f"{name} v{version}"
