"""What is written to `__consumer_offsets`: Kafka's own keys and values, so that Kafka's tools read ours and we theirs.

A key is `int16 kind` and then the key's fields; a value is `int16 version` and then the value's fields.  The kind says
which value belongs to it.  Kinds we do not keep (share and streams groups) are stepped over when they are read.
"""

from __future__ import annotations

import struct as binary
from typing import Final, NamedTuple

from broker_lite.coordinator.decision import Record
from broker_lite.errors import Malformed
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.primitives import read_unsigned_varint, unsigned_varint
from broker_lite.wire.schema import (
    ZERO_UUID,
    Bytes,
    Int8,
    Int32,
    Int64,
    String,
    Uuid,
    field,
    fields_of,
    message,
    since,
    spec_of,
    struct,
)


@message(key=None, versions="0")
class OffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@message(key=None, versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = since(4, tag=0, default=ZERO_UUID, ignorable=True)


@message(key=None, versions="0")
class GroupMetadataKey:
    group: String


@struct
class MemberMetadata:
    member_id: String
    group_instance_id: String | None = since(3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@message(key=None, versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata]


@message(key=None, versions="0")
class ConsumerGroupMetadataKey:
    group_id: String


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)


@message(key=None, versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: String


@struct
class PartitionMetadata:
    partition: Int32
    racks: list[String]


@struct
class TopicMetadata:
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Written by Kafka 4.0; since 4.1 the hash in ConsumerGroupMetadataValue has its place."""

    topics: list[TopicMetadata]


@message(key=None, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    name: String
    metadata: Bytes


@message(key=None, versions="0", flexible="0+")
class ClassicMemberMetadata:
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, default=None)


@message(key=None, versions="0", flexible="0+")
class _MemberBody:
    """The same without its tagged field, see `_write_member`."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None


@message(key=None, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0, ignorable=True)


@message(key=None, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TopicPartition:
    topic_id: Uuid
    partitions: list[Int32]


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition]


@message(key=None, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default=None)


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


@message(key=None, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@message(key=None, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[String]
    version: Int64
    timestamp: Int64


class Kind(NamedTuple):
    """The number before a key, the classes of key and value, and the version a value is written in."""

    number: int
    key: type
    value: type
    version: int


KINDS: Final = (
    Kind(1, OffsetCommitKey, OffsetCommitValue, 3),
    Kind(2, GroupMetadataKey, GroupMetadataValue, 3),
    Kind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    Kind(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    Kind(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    Kind(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    Kind(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    Kind(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    Kind(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
)
_BY_NUMBER: Final = {kind.number: kind for kind in KINDS} | {0: KINDS[0]}  # 0: offsets as Kafka wrote them before 0.9
_BY_KEY: Final = {kind.key: kind for kind in KINDS}
_SHORT: Final = binary.Struct(">h")


def record(key: object, value: object, *, version: int | None = None) -> Record:
    version = _BY_KEY[type(key)].version if version is None else version
    return Record(key_bytes(key), value_bytes(value, version), (key, value))


def tombstone(key: object) -> Record:
    return Record(key_bytes(key), None, (key, None))


def key_bytes(key: object) -> bytes:
    return _SHORT.pack(_BY_KEY[type(key)].number) + encode_bytes(key, 0)


def value_bytes(value: object, version: int) -> bytes:
    if isinstance(value, ConsumerGroupMemberMetadataValue):
        return _SHORT.pack(version) + _write_member(value)
    return _SHORT.pack(version) + encode_bytes(value, version)


def read(key: bytes, value: bytes | None) -> tuple[object, object | None] | None:
    """Key and value of a line of `__consumer_offsets`; None if it is of a kind that we do not keep."""
    if len(key) < 2 or (value is not None and len(value) < 2):
        raise Malformed(f"a record of {len(key)} bytes key has no kind or no version")
    kind = _BY_NUMBER.get(_SHORT.unpack_from(key)[0])
    if kind is None:
        return None
    parsed: object
    parsed, _ = decode(kind.key, 0, memoryview(key), 2)
    if value is None:
        return parsed, None
    (version,) = _SHORT.unpack_from(value)
    if version not in spec_of(kind.value).versions:
        raise Malformed(f"{kind.value.__name__} has no version {version}")
    if kind.value is ConsumerGroupMemberMetadataValue:
        return parsed, _read_member(value)
    body: object
    body, _ = decode(kind.value, version, memoryview(value), 2)
    return parsed, body


def _write_member(value: ConsumerGroupMemberMetadataValue) -> bytes:
    """The one place where Kafka has a tagged struct that may be null: a byte before it says whether it is there."""
    classic = value.classic_member_metadata
    tagged = b"\0" if classic is None else b"\1" + encode_bytes(classic, 0)
    return encode_bytes(_body_of(value), 0)[:-1] + b"\1\0" + unsigned_varint(len(tagged)) + tagged


def _read_member(value: bytes) -> ConsumerGroupMemberMetadataValue:
    body, _ = decode(_MemberBody, 0, memoryview(value), 2)
    names = fields_of(_MemberBody)
    found = ConsumerGroupMemberMetadataValue(**{name: getattr(body, name) for name in names})
    at = 2 + len(encode_bytes(body, 0)) - 1  # what is written in one way only has a known length
    if value[at : at + 2] == b"\1\0":
        _, at = read_unsigned_varint(value, at + 2)
        if value[at : at + 1] == b"\1":
            found.classic_member_metadata, _ = decode(ClassicMemberMetadata, 0, memoryview(value), at + 1)
    return found


def _body_of(value: ConsumerGroupMemberMetadataValue) -> _MemberBody:
    return _MemberBody(**{name: getattr(value, name) for name in fields_of(_MemberBody)})
