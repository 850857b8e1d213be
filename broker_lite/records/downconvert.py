"""What a reader of the old days gets: batches as messages of magic 0 or 1.

    control batches   left out: they are nobody's records
    headers           lost, and in magic 0 timestamps too
    codecs            kept; zstd, which no old reader knows, is UNSUPPORTED_COMPRESSION_TYPE
    offsets           the records' own, so that a reader goes on right after the last one it got

Records before the reader's offset are left out.  Kafka sends those of a compressed batch and lets the reader drop
them; but where compaction has taken a batch's last records away, a reader who asks for one of these would be given
the same older ones for ever.  Here nothing is left, and whoever asked looks for the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.errors import UnsupportedCompressionType
from broker_lite.records.batch import LOG_APPEND_TIME, MAGIC, Batch
from broker_lite.records.compression import Codec
from broker_lite.records.legacy import MAGIC_AT, as_batch, write_message, write_wrapper
from broker_lite.records.record import MAX_INFLATED, records_of


def down_convert(
    entry: bytes | memoryview, *, magic: int, from_offset: int, max_bytes: int = MAX_INFLATED
) -> Iterator[bytes]:
    """Messages, each with its offset and size in front, for one batch (or older message) as it lies in a log."""
    if entry[MAGIC_AT] <= magic:
        yield bytes(entry)
        return
    batch = as_batch(entry, max_bytes=max_bytes) if entry[MAGIC_AT] < MAGIC else Batch.at(entry)
    if batch.is_control:
        return
    if batch.codec == Codec.ZSTD:
        raise UnsupportedCompressionType("the records are compressed with zstd, which needs Fetch v10 or later")
    stamped = batch.is_log_append_time
    records = (
        (record.offset, record.timestamp, record.key, record.value)
        for record in records_of(batch, max_bytes=max_bytes)
        if record.offset >= from_offset
    )
    if batch.codec == Codec.NONE:
        for offset, timestamp, key, value in records:
            yield write_message(
                offset, key, value, magic=magic, timestamp=timestamp, attributes=LOG_APPEND_TIME if stamped else 0
            )
        return
    kept = list(records)
    if kept:
        yield write_wrapper(
            kept, magic=magic, codec=batch.codec, log_append_time=batch.max_timestamp if stamped else None
        )
