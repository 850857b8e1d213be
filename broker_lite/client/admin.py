"""Configuration, quotas, users, folders, the cluster and transactions over the wire, of any Kafka."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from broker_lite.client.client import Client
from broker_lite.client.views import refused
from broker_lite.shapes import dataclass
from broker_lite.wire.messages import k48_describe_client_quotas as k48
from broker_lite.wire.messages import k49_alter_client_quotas as k49
from broker_lite.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from broker_lite.wire.messages.k35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker_lite.wire.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from broker_lite.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker_lite.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse

RESOURCES = {"topic": 2, "broker": 4, "logger": 8, "client-metrics": 16, "group": 32}
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_OF_A_BROKER = frozenset({"broker", "logger"})

SET, DELETE, APPEND, SUBTRACT = range(4)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    key: str
    operation: int
    value: str | None = None


async def describe_configs(client: Client, kind: str, name: str) -> list[DescribeConfigsResourceResult]:
    """Every key of a resource, in the order of their names."""
    asked = DescribeConfigsResource(resource_type=RESOURCES[kind], resource_name=name, configuration_keys=None)
    ask = DescribeConfigsRequest(resources=[asked])
    if client.version_for(DescribeConfigsRequest) >= 1:
        ask.include_synonyms = True
    if client.version_for(DescribeConfigsRequest) >= 3:
        ask.include_documentation = True
    if kind in _OF_A_BROKER and name:
        result = (await (await client.to_node(int(name))).request(ask, DescribeConfigsResponse)).results[0]
    else:
        result = (await client.request(ask, DescribeConfigsResponse)).results[0]
    if result.error_code:
        raise refused(result.error_code, result.error_message or f"{kind} {name}")
    return sorted(result.configs, key=lambda config: config.name)


async def alter_configs(
    client: Client, kind: str, name: str, changes: Iterable[ConfigChange], *, validate_only: bool = False
) -> None:
    resource = AlterConfigsResource(
        resource_type=RESOURCES[kind],
        resource_name=name,
        configs=[
            AlterableConfig(name=change.key, config_operation=change.operation, value=change.value)
            for change in changes
        ],
    )
    ask = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    node = int(name) if kind in _OF_A_BROKER and name else None
    connection = await client.to_controller() if node is None else await client.to_node(node)
    result = (await connection.request(ask, IncrementalAlterConfigsResponse)).responses[0]
    if result.error_code:
        raise refused(result.error_code, result.error_message or f"{kind} {name}")


Entity = Mapping[str, str | None]


async def describe_quotas(client: Client, entity: Entity) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """All limits, or those of exactly this entity; a name of None is the default of its kind."""
    parts = [
        k48.ComponentData(entity_type=kind, match_type=1 if name is None else 0, match=name)
        for kind, name in entity.items()
    ]
    ask = k48.DescribeClientQuotasRequest(components=parts, strict=bool(parts))
    answer = await client.request(ask, k48.DescribeClientQuotasResponse)
    if answer.error_code:
        raise refused(answer.error_code, answer.error_message or "quotas")
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or []
    ]


async def alter_quotas(client: Client, entity: Entity, limits: Mapping[str, float | None]) -> None:
    """Set these limits; None removes one."""
    entry = k49.EntryData(
        entity=[k49.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[k49.OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in limits.items()],
    )
    connection = await client.to_controller()
    ask = k49.AlterClientQuotasRequest(entries=[entry], validate_only=False)
    result = (await connection.request(ask, k49.AlterClientQuotasResponse)).entries[0]
    if result.error_code:
        raise refused(result.error_code, result.error_message or "quota")


async def describe_users(client: Client, names: Iterable[str] = ()) -> dict[str, dict[str, int]]:
    """User -> mechanism -> iterations."""
    wanted = [UserName(name=name) for name in names]
    answer = await client.request(
        DescribeUserScramCredentialsRequest(users=wanted or None), DescribeUserScramCredentialsResponse
    )
    if answer.error_code:
        raise refused(answer.error_code, answer.error_message or "users")
    words = {number: word for word, number in MECHANISMS.items()}
    found: dict[str, dict[str, int]] = {}
    for user in answer.results:
        if user.error_code:
            raise refused(user.error_code, user.error_message or user.user)
        found[user.user] = {words.get(one.mechanism, "?"): one.iterations for one in user.credential_infos}
    return found


async def set_password(client: Client, name: str, mechanism: str, password: str, *, iterations: int = 4096) -> None:
    """The password itself stays here: what travels is its salted hash."""
    import hashlib

    salt = secrets.token_bytes(24)
    salted = hashlib.pbkdf2_hmac(f"sha{mechanism[-3:]}", password.encode(), salt, iterations)
    wish = ScramCredentialUpsertion(
        name=name, mechanism=MECHANISMS[mechanism], iterations=iterations, salt=salt, salted_password=salted
    )
    await _alter_user(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[wish]))


async def delete_user(client: Client, name: str, mechanism: str) -> None:
    wish = ScramCredentialDeletion(name=name, mechanism=MECHANISMS[mechanism])
    await _alter_user(client, AlterUserScramCredentialsRequest(deletions=[wish], upsertions=[]))


async def _alter_user(client: Client, ask: AlterUserScramCredentialsRequest) -> None:
    connection = await client.to_controller()
    for result in (await connection.request(ask, AlterUserScramCredentialsResponse)).results:
        if result.error_code:
            raise refused(result.error_code, result.error_message or result.user)


async def describe_log_dirs(client: Client) -> dict[int, list[DescribeLogDirsResult]]:
    """Broker -> its folders."""
    await client.metadata([])
    found: dict[int, list[DescribeLogDirsResult]] = {}
    for node in sorted(client.addresses):
        connection = await client.to_node(node)
        answer = await connection.request(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        if answer.error_code:
            raise refused(answer.error_code, f"broker {node}")
        found[node] = answer.results
    return found


async def describe_cluster(client: Client) -> DescribeClusterResponse:
    answer = await client.request(
        DescribeClusterRequest(include_cluster_authorized_operations=False), DescribeClusterResponse
    )
    if answer.error_code:
        raise refused(answer.error_code, answer.error_message or "cluster")
    return answer
