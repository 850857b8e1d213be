"""A broker with something to hide, and requests of every API that name it.

A topic, a group, a transaction, a user and more bear one name, `HIDDEN`.  Nobody has `ABSENT`, which is as long; alice
may have `MINE`.  Requests are filled from their declarations, so that a new API is asked as soon as it is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker_lite.apis import registry
from broker_lite.apis.routes import Served
from broker_lite.config.start import TopicAtStart
from broker_lite.errors import Malformed
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.security.acls import Binding, Filter, Operation, Pattern, Permission, Resource
from broker_lite.security.scram import ScramMechanism
from broker_lite.wire.layout import Array, Scalar, Slot, Struct, layout
from broker_lite.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker_lite.wire.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker_lite.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from broker_lite.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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
from tests.security.test_permissions import AUTHORIZER
from tests.support.talk import NOW, Talk, talking

HIDDEN, ABSENT, MINE = "hidden-7f3a", "absent-7f3a", "mine-7f3a"
NO_ID = bytes(16)
SPOKEN: dict[str, object] = {
    "acks": 1, "resource_type": 2, "key_type": 0, "replica_id": -1, "endpoint_type": 1, "session_epoch": -1,
    "partition_max_bytes": 1000, "max_bytes": 1000, "mechanism": 1, "iterations": 4096, "response_partition_limit": 1,
    "timestamp": -1, "duration_filter": -1, "generation_id_or_member_epoch": -1, "transaction_timeout_ms": 1000,
}  # fmt: skip
"""Numbers and texts that mean something; the others are 0 and the name."""

registry.load()
TABLE = registry.REGISTRY.table()
each_api = pytest.mark.parametrize("api", TABLE, ids=lambda api: api.name)


# ------------------------------------------------------------ requests that name what is hidden


class Filling:
    """How a request is filled: `names` in every list, `alone` outside of lists, an id where there is room for one."""

    def __init__(
        self, *names: str, alone: str | None = None, topic_id: bytes = NO_ID, lists: bool = True, key_type: int = 0
    ) -> None:
        self._names = names
        self._alone = names[0] if alone is None else alone
        self._topic_id = topic_id
        self._lists = lists
        self._key_type = key_type

    def request(self, api: Served, version: int) -> object:
        return self._struct(layout(api.request, version), self._alone)

    def _struct(self, form: Struct, name: str) -> object:
        by_id = self._topic_id != NO_ID and any(_is(slot, "uuid") for slot in form.slots if slot.present)
        return form.cls(
            **{slot.name: self._slot(slot, name, by_id) for slot in form.slots if slot.present and slot.tag is None}
        )

    def _slot(self, slot: Slot, name: str, by_id: bool) -> object:
        if slot.name == "key_type":
            return self._key_type
        if isinstance(slot.type, Array):
            if not self._lists:
                return None if slot.nullable else []
            if isinstance(slot.type.element, Scalar) and slot.type.element.name != "string":
                return [self._single(slot.type.element, name)]
            return [self._single(slot.type.element, one) for one in self._names]
        if slot.nullable and isinstance(slot.type, Struct):
            return None
        if by_id and _is(slot, "string"):
            return None if slot.nullable else ""
        if slot.name == "client_instance_id":
            return b"\7" * 16
        return (
            self._single(slot.type, name)
            if _is(slot, "string")
            else SPOKEN.get(slot.name, self._single(slot.type, name))
        )

    def _single(self, kind: Scalar | Struct, name: str) -> object:
        if isinstance(kind, Struct):
            return self._struct(kind, name)
        if kind.name == "records":
            return memoryview(build_batch([NewRecord(b"k", b"v")], timestamp=NOW))
        return {"string": name, "bytes": b"", "uuid": self._topic_id, "bool": False, "float64": 0.0}.get(kind.name, 0)


def _is(slot: Slot, kind: str) -> bool:
    return isinstance(slot.type, Scalar) and slot.type.name == kind


async def heard(talk: Talk, api: Served, version: int, filling: Filling) -> bytes:
    """The bytes of the answer; which of several ends it took if there is none."""
    try:
        frame = talk.frame(filling.request(api, version), version)
        answer = await asyncio.wait_for(talk.ask_raw(frame), 0.2)
    except Malformed:
        return b"closed"
    except TimeoutError:
        return b"waits"
    return b"silence" if answer is None else answer


# ------------------------------------------------------------ a broker with something to hide


@asynccontextmanager
async def hiding(folder: Path, *, more: dict[str, str] | None = None) -> AsyncIterator[Talk]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root", "telemetry.enable": "true"}
    topics = [TopicAtStart(name, 2) for name in (HIDDEN, MINE, f"{HIDDEN}-2")]
    async with talking(folder, settings=settings | (more or {}), topics=topics) as talk:
        talk.facts.principal = "User:root"
        await fill(talk)
        talk.facts.principal = "User:alice"
        yield talk


async def fill(talk: Talk) -> None:
    """Everything that can bear a name bears the hidden one."""
    assert (await talk.produce(HIDDEN, HIDDEN.encode())).error_code == 0
    for group in (HIDDEN, MINE):
        topics = [OffsetCommitRequestTopic(name=name, partitions=[committed(name)]) for name in (HIDDEN, MINE)]
        await talk.ask(OffsetCommitRequest(group_id=group, topics=topics), 8, OffsetCommitResponse)
    asked = InitProducerIdRequest(transactional_id=HIDDEN, transaction_timeout_ms=1000)
    producer = await talk.ask(asked, 4, InitProducerIdResponse)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=HIDDEN,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=HIDDEN, partitions=[0])],
    )
    await talk.ask(added, 3, AddPartitionsToTxnResponse)
    written = await talk.produce(
        HIDDEN, b"v", producer=(producer.producer_id, producer.producer_epoch, 0), transactional_id=HIDDEN
    )
    assert written.error_code == 0
    beat = ConsumerGroupHeartbeatRequest(
        group_id=f"{HIDDEN}-live",
        member_id=HIDDEN,
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[HIDDEN],
        topic_partitions=[],
    )
    assert (await talk.ask(beat, 1, ConsumerGroupHeartbeatResponse)).error_code == 0
    talk.broker.acls.add([binding(HIDDEN, Operation.READ, Resource.TOPIC, "User:other")])
    changes = [(2, HIDDEN, "retention.ms", "86400001"), (32, HIDDEN, "consumer.session.timeout.ms", "50000")]
    changes.append((16, HIDDEN, "interval.ms", "100000"))
    resources = [
        AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in changes
    ]
    altered = await talk.ask(
        IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1, IncrementalAlterConfigsResponse
    )
    assert [one.error_code for one in altered.responses] == [0, 0, 0], altered
    user = ScramCredentialUpsertion(
        name=HIDDEN, mechanism=1, iterations=4096, salt=b"salt" * 4, salted_password=bytes(32)
    )
    made = AlterUserScramCredentialsRequest(deletions=[], upsertions=[user])
    assert (await talk.ask(made, 0, AlterUserScramCredentialsResponse)).results[0].error_code == 0
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name=HIDDEN)],
        ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)],
    )
    quota = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    assert (await talk.ask(quota, 1, AlterClientQuotasResponse)).entries[0].error_code == 0


def committed(metadata: str) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=0, committed_offset=41, committed_leader_epoch=0, committed_metadata=metadata
    )


def binding(
    name: str,
    operation: Operation,
    resource: Resource,
    principal: str = "User:alice",
    pattern: Pattern = Pattern.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> Binding:
    return Binding(resource, name, pattern, principal, "*", operation, permission)


def own(talk: Talk) -> None:
    """Alice may do everything with what is hers."""
    talk.broker.acls.add(
        [
            binding("mine", Operation.ALL, resource, pattern=Pattern.PREFIXED)
            for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)
        ]
    )


def kept(talk: Talk) -> list[str]:
    """Everything that there is of what is hidden, in words."""
    broker = talk.broker
    topic = broker.topics.get(HIDDEN)
    assert topic is not None
    assert broker.topics.get(ABSENT) is None
    logs = [broker.topics.partition(HIDDEN, index).offsets for index in range(topic.partition_count)]
    return [
        repr((topic.id, topic.configs, broker.topics.get(f"{HIDDEN}-2"))),
        repr([(one.start, one.stable, one.high, one.end) for one in logs]),
        repr(broker.groups.of(HIDDEN).offsets.of(HIDDEN)),
        repr(sorted(group.id for group in broker.groups if group.id != MINE)),
        repr(sorted(map(repr, broker.acls.matching(Filter())))),
        repr(broker.users.scram(ScramMechanism.SHA_256, HIDDEN)),
        repr(broker.transactions.coordinator.get(HIDDEN)),
    ]


def topic_id(talk: Talk, name: str = HIDDEN) -> bytes:
    topic = talk.broker.topics.get(name)
    assert topic is not None
    return topic.id
