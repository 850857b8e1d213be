"""Transaction markers: the one record, in a control batch of its own, that ends a transaction in a partition.

key = version int16, type int16 (0 abort, 1 commit); value = version int16, epoch of the coordinator int32.
A marker takes one offset, has no sequence and never reaches an application.
"""

from __future__ import annotations

import struct

from broker_lite.errors import InvalidRecord
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.record import records_of
from broker_lite.shapes import dataclass

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


@dataclass(slots=True, frozen=True)
class Marker:
    commit: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp: int
) -> bytes:
    record = NewRecord(_KEY.pack(0, _COMMIT if commit else _ABORT), _VALUE.pack(0, coordinator_epoch))
    return build_batch(
        [record],
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Batch) -> Marker | None:
    """What a control batch says of its producer's transaction.

    None where it says nothing of one: compaction has emptied it, or it is a control record of another kind.
    Raises InvalidRecord where the batch is not readable.
    """
    record = next(records_of(batch), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecord(f"the control record at offset {batch.base_offset} has no key of {_KEY.size} bytes")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise InvalidRecord(f"the marker at offset {batch.base_offset} has no value of {_VALUE.size} bytes")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(kind == _COMMIT, coordinator_epoch)
