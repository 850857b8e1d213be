"""What a client of the old days may append: a message set, which becomes one batch.

The checks are those of `check.py` in the old words, in Kafka's order: each message's size, then its checksum, and a
wrapper comes alone; then, message by message, the checksum inside the wrapper, keys where the topic is compacted,
timestamps within the topic's bounds.  Only then is anything made of it: offsets 0, 1, 2 … whatever the producer
wrote there, the producer's codec or the topic's, no timestamp (-1) for messages that have none.  A set becomes one
batch because that is how Kafka does it, and with it comes its limit: the whole set has to fit `max.message.bytes`.

About 10 µs a message.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.errors import ErrorCode, InvalidRecord, MessageTooLarge
from broker_lite.records.batch import LOG_APPEND_TIME, NO_TIMESTAMP, Batch
from broker_lite.records.build import assemble
from broker_lite.records.check import (
    INVALID_TIMESTAMPS,
    UNBOUNDED_MS,
    AppendRules,
    BadRecords,
    Checked,
    check_client_batch,
)
from broker_lite.records.compression import Codec, deflate
from broker_lite.records.legacy import Message, inner_messages, is_message_set, messages_of
from broker_lite.records.record import write_record

_FIRST_VERSION_WITH_BATCHES = 3


def check_any(records: memoryview | None, *, api_version: int, rules: AppendRules, now_ms: int) -> Checked | None:
    """What a Produce request of any version brought. Batches are taken in old versions too, as Kafka did."""
    if api_version < _FIRST_VERSION_WITH_BATCHES and is_message_set(records):
        return check_message_set(records, rules=rules, now_ms=now_ms)
    return check_client_batch(records, api_version=api_version, rules=rules, now_ms=now_ms)


def check_message_set(records: memoryview | None, *, rules: AppendRules, now_ms: int) -> Checked | None:
    """The batch to append for a set of Produce 0 to 2; None for an empty one, which Kafka accepts."""
    codec = _check_entries(records, rules) if records is not None else None
    if records is None or codec is None:
        return None
    payload = bytearray()
    base_timestamp, max_timestamp, count = NO_TIMESTAMP, NO_TIMESTAMP, 0
    refused = _Refused(rules, now_ms)
    for message, stamped in _inside(records, rules):
        if not count:
            base_timestamp = message.timestamp
        refused.look_at(message, stamped=stamped)
        write_record(
            payload,
            timestamp_delta=message.timestamp - base_timestamp,
            offset_delta=count,
            key=None if message.key is None else bytes(message.key),
            value=None if message.value is None else bytes(message.value),
        )
        if len(payload) > rules.max_inflated_bytes:
            raise MessageTooLarge(f"the messages take more than {rules.max_inflated_bytes} bytes in one batch")
        max_timestamp = max(max_timestamp, message.timestamp)
        count += 1
    refused.raise_if_any(count)
    target = codec if rules.compression is None else rules.compression
    batch = assemble(
        deflate(target, payload, rules.compression_level),
        base_offset=0,
        leader_epoch=-1,
        attributes=target | (LOG_APPEND_TIME if rules.log_append_time else 0),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=now_ms if rules.log_append_time else max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )
    if len(batch) > rules.max_message_bytes:
        raise MessageTooLarge(
            f"the messages make a batch of {len(batch)} bytes, the topic allows {rules.max_message_bytes}"
        )
    return Checked(Batch(memoryview(batch)), now_ms if rules.log_append_time else NO_TIMESTAMP)


def _check_entries(records: memoryview, rules: AppendRules) -> int | None:
    """The codec of the set; None if there is nothing in it."""
    codec: int | None = None
    for entries, message in enumerate(messages_of(records), start=1):
        if len(message.buf) > rules.max_message_bytes:
            raise MessageTooLarge(
                f"the message has {len(message.buf)} bytes, the topic allows {rules.max_message_bytes}"
            )
        codec = message.codec or codec or Codec.NONE
        if codec and entries > 1:
            raise InvalidRecord("a compressed message comes alone, there are more")
    return codec


def _inside(records: memoryview, rules: AppendRules) -> Iterator[tuple[Message, bool]]:
    """Every message, and whether a broker should have stamped it."""
    for entry in messages_of(records):
        stamped = entry.is_log_append_time
        if entry.codec == Codec.NONE:
            yield entry, stamped
        else:
            for message in inner_messages(entry, max_bytes=rules.max_inflated_bytes):
                yield message, stamped


class _Refused:
    """Counts the messages that the topic does not take. No version that carries them can name them."""

    def __init__(self, rules: AppendRules, now_ms: int) -> None:
        self._rules = rules
        self._low = now_ms - rules.before_max_ms
        self._high = min(now_ms + rules.after_max_ms, UNBOUNDED_MS)
        self._count = 0
        self._code = ErrorCode.INVALID_RECORD

    def look_at(self, message: Message, *, stamped: bool) -> None:
        rules, timestamp = self._rules, message.timestamp
        if rules.compacted and message.key is None:
            self._count += 1
        elif not rules.log_append_time and (
            stamped or (timestamp != NO_TIMESTAMP and not self._low <= timestamp <= self._high)
        ):
            self._code = ErrorCode.INVALID_TIMESTAMP
            self._count += 1

    def raise_if_any(self, of: int) -> None:
        if self._count:
            if self._code is ErrorCode.INVALID_TIMESTAMP:
                raise BadRecords(self._code, INVALID_TIMESTAMPS, [])
            raise BadRecords(self._code, f"{self._count} of {of} messages were refused for a missing key", [])
