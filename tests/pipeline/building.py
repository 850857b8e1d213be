"""Pieces of log with every feature that a log can have, made by strategies or by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from broker_lite.records.batch import LOG_APPEND_TIME, TRANSACTIONAL
from broker_lite.records.build import NewRecord, assemble, build_batch
from broker_lite.records.compression import Codec, deflate
from broker_lite.records.control import build_marker
from broker_lite.records.record import write_record

NOW = 1_714_000_000_000

octets = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=60, max_size=300))
headers = st.lists(st.tuples(st.text(max_size=6), st.one_of(st.none(), st.binary(max_size=5))), max_size=3).map(tuple)
records = st.builds(
    NewRecord, key=octets, value=octets, headers=headers, timestamp=st.integers(NOW - 10**9, NOW + 10**9)
)


@dataclass
class Piece:
    """Some batches, and the offset after them."""

    data: bytearray = field(default_factory=bytearray)
    next_offset: int = 0


@st.composite
def pieces(draw: st.DrawFn, max_batches: int = 12) -> bytes:
    """Batches of all kinds one after the other, with rising offsets and gaps between them."""
    out = bytearray()
    offset = draw(st.integers(0, 1 << 40))
    for _ in range(draw(st.integers(0, max_batches))):
        kind = draw(st.sampled_from(["plain", "plain", "compacted", "empty", "marker", "message", "set"]))
        made, taken = _made(draw, kind, offset)
        out += made
        offset += taken + draw(st.integers(0, 3))
    return bytes(out)


def _made(draw: st.DrawFn, kind: str, offset: int) -> tuple[bytes, int]:
    if kind == "empty":
        return emptied(offset, taken := draw(st.integers(1, 9)), codec=draw(codecs)), taken
    if kind == "marker":
        commit = draw(st.booleans())
        marker = bytearray(build_marker(7, 1, commit=commit, coordinator_epoch=3, timestamp=NOW))
        marker[:8] = offset.to_bytes(8, "big")
        return bytes(marker), 1
    inside = draw(st.lists(records, min_size=1, max_size=40 if kind == "plain" else 5))
    if kind == "compacted":
        gaps = draw(st.lists(st.integers(1, 4), min_size=len(inside), max_size=len(inside)))
        return compacted(offset, inside, gaps, codec=draw(codecs)), sum(gaps)
    if kind in ("message", "set"):
        magic, codec = draw(st.sampled_from([(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]))
        codec = codec if kind == "set" else 0
        return message_set(offset, inside, magic=magic, codec=codec), len(inside)
    transactional = draw(st.booleans())
    batch = build_batch(
        inside,
        timestamp=NOW,
        codec=draw(codecs),
        producer_id=7 if transactional else -1,
        producer_epoch=1 if transactional else -1,
        base_sequence=draw(st.integers(0, 2**31 - 1)) if transactional else -1,
        transactional=transactional,
        base_offset=offset,
        leader_epoch=draw(st.integers(-1, 5)),
        log_append_time=draw(st.booleans()),
    )
    return batch, len(inside)


codecs = st.sampled_from(list(Codec))


def compacted(offset: int, inside: list[NewRecord], gaps: list[int], *, codec: Codec = Codec.NONE) -> bytes:
    """A batch from which compaction took records: each comes `gap` - 1 offsets after the one before."""
    payload, delta = bytearray(), -1
    for record, gap in zip(inside, gaps, strict=True):
        delta += gap
        at = NOW if record.timestamp is None else record.timestamp
        write_record(
            payload,
            timestamp_delta=at - NOW,
            offset_delta=delta,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    return assemble(
        deflate(codec, payload),
        base_offset=offset,
        leader_epoch=0,
        attributes=int(codec),
        last_offset_delta=delta,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=len(inside),
    )


def emptied(offset: int, taken: int, *, codec: Codec = Codec.NONE) -> bytes:
    """What compaction leaves of a batch that was its producer's last: a header."""
    return assemble(
        b"",
        base_offset=offset,
        leader_epoch=0,
        attributes=int(codec) | TRANSACTIONAL | LOG_APPEND_TIME,
        last_offset_delta=taken - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=9,
        producer_epoch=0,
        base_sequence=5,
        count=0,
    )


def message_set(offset: int, inside: list[NewRecord], *, magic: int, codec: int) -> bytes:
    """Messages of magic 0 or 1, as an old producer wrote them and an old broker numbered them."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for index, record in enumerate(inside):
        inner = index if codec and magic == 1 else offset + index
        builder.append(inner, record.timestamp, record.key, record.value)
    made = bytearray(builder.build())
    if codec:
        made[:8] = (offset + len(inside) - 1).to_bytes(8, "big")
    return bytes(made)
