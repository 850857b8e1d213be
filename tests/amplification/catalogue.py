"""A broker with something of everything, so that whatever a request names is there and has much to say."""

from __future__ import annotations

from broker_lite.security.acls import Operation, Pattern, Permission, Resource
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from broker_lite.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker_lite.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from broker_lite.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from broker_lite.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from broker_lite.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.amplification.requests import GROUP, TOPIC, TXN, USER
from tests.support.talk import Talk

PARTITIONS = 400
PRODUCERS = 100
MEMBERS = 30
RULES = 100


async def fill(talk: Talk) -> None:
    """`TOPIC` with its partitions is there already."""
    await _offsets(talk)
    await _members(talk)
    await _classic_member(talk)
    await _producers(talk)
    await _transaction(talk)
    if talk.broker.acls.on:
        await _rules(talk)
    await _users_and_quotas(talk)


async def _offsets(talk: Talk) -> None:
    lines = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="here")
        for n in range(PARTITIONS)
    ]
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=lines)])
    answer = await talk.ask(request, 9, OffsetCommitResponse)
    assert not any(line.error_code for line in answer.topics[0].partitions)


async def _members(talk: Talk) -> None:
    for number in range(MEMBERS):
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"{GROUP}-new",
            member_id=f"member-{number}",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        answer = await talk.ask(request, 1, ConsumerGroupHeartbeatResponse)
        assert not answer.error_code, answer


async def _classic_member(talk: Talk) -> None:
    """One member with much to say: a description is much longer than the group's name."""
    group, protocol = f"{GROUP}-classic", JoinGroupRequestProtocol(name="range", metadata=bytes(20_000))
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )
    joined = await talk.ask(join, 0, JoinGroupResponse)
    assert not joined.error_code, joined
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(20_000))],
    )
    synced = await talk.ask(sync, 0, SyncGroupResponse)
    assert not synced.error_code, synced


async def _producers(talk: Talk) -> None:
    for _ in range(PRODUCERS):
        new = await talk.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4, InitProducerIdResponse
        )
        await talk.produce(TOPIC, b"v", producer=(new.producer_id, new.producer_epoch, 0))


async def _transaction(talk: Talk) -> None:
    new = await talk.ask(
        InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000), 4, InitProducerIdResponse
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=new.producer_id,
        v3_and_below_producer_epoch=new.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(PARTITIONS)))],
    )
    await talk.ask(request, 3, AddPartitionsToTxnResponse)


async def _rules(talk: Talk) -> None:
    rules = [
        AclCreation(
            resource_type=Resource.TOPIC,
            resource_name=f"t{number}",
            resource_pattern_type=Pattern.LITERAL,
            principal=f"User:u{number}",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
        for number in range(RULES)
    ]
    await talk.ask(CreateAclsRequest(creations=rules), 3, CreateAclsResponse)


async def _users_and_quotas(talk: Talk) -> None:
    users = [
        ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32)
        for name in (USER, *(f"u{number}" for number in range(20)))
    ]
    await talk.ask(
        AlterUserScramCredentialsRequest(deletions=[], upsertions=users), 0, AlterUserScramCredentialsResponse
    )
    entries = [
        EntryData(
            entity=[EntityData(entity_type="client-id", entity_name=f"c{number}")],
            ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)],
        )
        for number in range(20)
    ]
    await talk.ask(AlterClientQuotasRequest(entries=entries, validate_only=False), 1, AlterClientQuotasResponse)
