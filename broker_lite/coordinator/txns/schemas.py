"""What is written to `__transaction_state`: Kafka's own key and value, so that Kafka's tools read ours and we theirs.

A key is `int16 0` and the transactional id; a value is `int16 version` and the fields.  Version 1 has tagged fields,
which the second generation of the protocol needs.  Version 0 is read from older folders, and written while the feature
`transaction.version` is off, for readers that know nothing newer: brokers before 3.8, and Flink.
"""

from __future__ import annotations

import struct as binary

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.errors import Malformed
from broker_lite.ids import TopicPartition
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.schema import Int8, Int16, Int32, Int64, String, message, since, struct

_VERSION = binary.Struct(">h")
_KEY_KIND = 0
TAGGED = 1
"""The newest version of a value, and the level of `transaction.version` from which it is written."""


@message(key=None, versions="0")
class TransactionLogKey:
    transactional_id: String


@struct
class PartitionsSchema:
    topic: String
    partition_ids: list[Int32]


@message(key=None, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Int64 = since(1, tag=0, default=-1, ignorable=True)
    next_producer_id: Int64 = since(1, tag=1, default=-1, ignorable=True)
    producer_epoch: Int16
    next_producer_epoch: Int16 = since(1, tag=3, default=-1, ignorable=True)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = since(1, tag=2, default=0, ignorable=True)


def write(transaction: Transaction, level: int = TAGGED) -> Record:
    """`level` is that of `transaction.version`. What version 0 cannot say, a restart forgets."""
    version = min(level, TAGGED)
    value = _VERSION.pack(version) + encode_bytes(_value(transaction), version)
    return Record(_key(transaction.id), value, spoken=(transaction.id, transaction))


def tombstone(transactional_id: str) -> Record:
    return Record(_key(transactional_id), None)


def read(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """The id and what is now true of it (None: forgotten); None for a key of another kind."""
    kind = _version_of(key)
    if kind != _KEY_KIND:
        return None
    name, _ = decode(TransactionLogKey, _KEY_KIND, memoryview(key), _VERSION.size)
    if value is None:
        return name.transactional_id, None
    version = _version_of(value)
    if version not in (0, 1):
        raise Malformed(f"a transaction record of version {version}; 0 and 1 are known")
    fields, _ = decode(TransactionLogValue, version, memoryview(value), _VERSION.size)
    return name.transactional_id, _transaction(name.transactional_id, fields)


def _version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise Malformed(f"a transaction record of {len(data)} bytes has no version")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _key(transactional_id: str) -> bytes:
    return _VERSION.pack(_KEY_KIND) + encode_bytes(TransactionLogKey(transactional_id=transactional_id), _KEY_KIND)


def _value(transaction: Transaction) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        # Kafka writes no list at all for an id that has not begun a transaction.
        transaction_partitions=None
        if transaction.state is State.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )


def _transaction(transactional_id: str, fields: TransactionLogValue) -> Transaction:
    try:
        state = State(fields.transaction_status)
    except ValueError:
        raise Malformed(f"{transactional_id} is in a state {fields.transaction_status}, which there is not") from None
    return Transaction(
        id=transactional_id,
        producer_id=fields.producer_id,
        epoch=fields.producer_epoch,
        timeout_ms=fields.transaction_timeout_ms,
        updated_ms=fields.transaction_last_update_timestamp_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(entry.topic, partition)
            for entry in fields.transaction_partitions or ()
            for partition in entry.partition_ids
        ),
        started_ms=fields.transaction_start_timestamp_ms,
        previous_producer_id=fields.previous_producer_id,
        next_producer_id=fields.next_producer_id,
        version=fields.client_transaction_version,
    )
