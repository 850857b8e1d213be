"""Names and formats of every file in a data folder, as pure functions over bytes.

Kafka's own, so that its tools read our folders and we read Kafka's.  Nothing here touches a disk or keeps state:
recovery, the dump tool and whoever analyses segments offline share these lines.  A parser raises ValueError with
what was expected and what was found; what to do about it is the caller's business.

    <topic>-<partition>/
        00000000000000000000.log        batches, one after the other; the name is the first offset it may hold
        00000000000000000000.index      offset -> position, 8 bytes an entry
        00000000000000000000.timeindex  timestamp -> offset, 12 bytes an entry
        00000000000000000000.txnindex   aborted transactions, 34 bytes an entry; only where there are any
        00000000000000000042.snapshot   producers as of offset 42
        leader-epoch-checkpoint         which epoch began where
        partition.metadata              the topic's id
    recovery-point-offset-checkpoint    up to where each log is known to be on the platter
    log-start-offset-checkpoint         up to where records were deleted
    replication-offset-checkpoint       high watermarks
    cleaner-offset-checkpoint           up to where each compacted log is clean
    meta.properties                     whose folder this is
    .kafka_cleanshutdown                exists only between a clean stop and the next start
"""

from __future__ import annotations

import json
import re
import struct
from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise
from sys import byteorder
from typing import NamedTuple

from broker_lite.crc import crc32c
from broker_lite.ids import KRAFT_TOPIC, TopicId, TopicPartition, format_topic_id, parse_topic_id

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
INDEXES = (INDEX, TIME_INDEX, TXN_INDEX)
TORN, CORRUPT, DELETED, CLEANED, SWAP = ".torn", ".corrupt", ".deleted", ".cleaned", ".swap"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_UP_TO = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

INDEX_ENTRY = struct.Struct(">II")
TIME_ENTRY = struct.Struct(">qI")
TXN_ENTRY = struct.Struct(">hqqqq")
SNAPSHOT_HEAD = struct.Struct(">hI")
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
MAX_RELATIVE = 2**31 - 1
"""An index stores offsets relative to its segment's base in four signed bytes."""

_SEGMENT = re.compile(r"(\d{20})(\.[a-z]+)")
_LONGEST_NAME = 255
_PARTITION_FOLDER = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9]\d{0,8})")


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """The offset and the suffix of a file that belongs to a segment; None for any other."""
    found = _SEGMENT.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def folder_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def parse_folder_name(name: str) -> TopicPartition | None:
    """None for folders that are no partition: half deleted ones, Kafka's own controller log, anything else."""
    found = _PARTITION_FOLDER.fullmatch(name)
    if not found or found[1] == KRAFT_TOPIC:
        return None
    return TopicPartition(found[1], int(found[2]))


def deleted_folder_name(tp: TopicPartition, topic_id: TopicId) -> str:
    """As Kafka calls a folder that is about to go: it ends in `-delete`, and is no longer than a name may be."""
    end = f"-{tp.partition}.{topic_id.hex()}-delete"
    return tp.topic[: _LONGEST_NAME - len(end)] + end


# --- indexes ------------------------------------------------------------------------------------------------------


def _whole(data: bytes, entry: int, what: str) -> None:
    if len(data) % entry:
        raise ValueError(f"the {what} has {len(data)} bytes, not a multiple of {entry}")


def _rising(values: array[int], what: str) -> None:
    for before, after in pairwise(values):
        if before >= after:
            raise ValueError(f"the {what} does not rise: {before} is followed by {after}")


def parse_index(data: bytes) -> tuple[array[int], array[int]]:
    """Last offsets relative to the base, and positions. Kafka's active files end in zeros, which are no entries."""
    _whole(data, INDEX_ENTRY.size, "offset index")
    both = array("I", data)
    if byteorder == "little":
        both.byteswap()
    offsets, positions = both[0::2], both[1::2]
    while positions and positions[-1] == 0 and offsets[-1] == 0:
        del offsets[-1], positions[-1]
    _rising(offsets, "offset index")
    _rising(positions, "position in the offset index")
    return offsets, positions


def format_index(offsets: array[int], positions: array[int]) -> bytes:
    return b"".join(map(INDEX_ENTRY.pack, offsets, positions))


def parse_time_index(data: bytes) -> tuple[array[int], array[int]]:
    """Timestamps, and last offsets relative to the base."""
    _whole(data, TIME_ENTRY.size, "time index")
    timestamps, offsets = array("q"), array("I")
    for timestamp, offset in TIME_ENTRY.iter_unpack(data):
        if timestamp == 0 and offset == 0 and timestamps:
            break
        timestamps.append(timestamp)
        offsets.append(offset)
    if len(timestamps) == 1 and timestamps[0] == 0 and len(data) > TIME_ENTRY.size:
        return array("q"), array("I")
    _rising(timestamps, "time index")
    _rising(offsets, "offset in the time index")
    return timestamps, offsets


def format_time_index(timestamps: array[int], offsets: array[int]) -> bytes:
    return b"".join(map(TIME_ENTRY.pack, timestamps, offsets))


class AbortedTxn(NamedTuple):
    """What a read_committed reader must leave out: this producer's records from first to last."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    last_stable_offset: int
    """Of the partition, once the marker was written: where the search for more may stop."""


def parse_aborted(data: bytes) -> list[AbortedTxn]:
    _whole(data, TXN_ENTRY.size, "transaction index")
    entries: list[AbortedTxn] = []
    for version, *fields in TXN_ENTRY.iter_unpack(data):
        entry = AbortedTxn(*fields)
        if version != 0:
            raise ValueError(f"the transaction index has an entry of version {version}, expected 0")
        if not 0 <= entry.first_offset <= entry.last_offset or entry.producer_id < 0:
            raise ValueError(f"the transaction index has an impossible entry {entry}")
        if entries and entries[-1].last_offset >= entry.last_offset:
            raise ValueError(f"the transaction index does not rise: {entries[-1]} is followed by {entry}")
        entries.append(entry)
    return entries


def format_aborted(entries: Iterable[AbortedTxn]) -> bytes:
    return b"".join(TXN_ENTRY.pack(0, *entry) for entry in entries)


# --- producer snapshots -------------------------------------------------------------------------------------------


class ProducerEntry(NamedTuple):
    """One producer of a snapshot, with its last batch; -1 where there is none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def parse_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < SNAPSHOT_HEAD.size + 4:
        raise ValueError(f"the snapshot has {len(data)} bytes, at least {SNAPSHOT_HEAD.size + 4} are due")
    version, crc = SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        raise ValueError(f"the snapshot has version {version}, expected 1")
    body = data[SNAPSHOT_HEAD.size :]
    if crc32c(body) != crc:
        raise ValueError(f"the snapshot has checksum {crc32c(body)}, expected {crc}")
    count = int.from_bytes(body[:4])
    if len(body) != 4 + count * SNAPSHOT_ENTRY.size:
        raise ValueError(f"the snapshot has {len(body) - 4} bytes for {count} producers")
    return [ProducerEntry(*fields) for fields in SNAPSHOT_ENTRY.iter_unpack(body[4:])]


def format_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [SNAPSHOT_ENTRY.pack(*entry) for entry in entries]
    body = b"".join([len(packed).to_bytes(4), *packed])
    return SNAPSHOT_HEAD.pack(1, crc32c(body)) + body


# --- checkpoints: a version, a count, that many lines -------------------------------------------------------------


def _parse_lines(text: str, what: str, fields: int) -> list[list[str]]:
    lines = text.split("\n")
    if len(lines) < 2 or lines[0] != "0":
        raise ValueError(f"the {what} starts with {lines[0][:20]!r}, expected version 0")
    rows = [line.split() for line in lines[2:] if line]
    if not lines[1].isdigit() or int(lines[1]) != len(rows):
        raise ValueError(f"the {what} has {len(rows)} lines and says {lines[1][:20]!r}")
    if any(len(row) != fields for row in rows):
        raise ValueError(f"the {what} has a line that does not have {fields} fields")
    return rows


def _format_lines(rows: list[str]) -> bytes:
    return "\n".join(["0", str(len(rows)), *rows, ""]).encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    rows = _parse_lines(data.decode(), "offset checkpoint", 3)
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _format_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def parse_epochs(data: bytes) -> list[tuple[int, int]]:
    """(epoch, first offset), both rising; the last may begin where the one before did not."""
    rows = [(int(epoch), int(start)) for epoch, start in _parse_lines(data.decode(), LEADER_EPOCHS, 2)]
    for (epoch, start), (later, later_start) in pairwise(rows):
        if epoch >= later or start >= later_start:
            raise ValueError(f"the {LEADER_EPOCHS} does not rise: {epoch} {start} is followed by {later} {later_start}")
    if any(epoch < 0 or start < 0 for epoch, start in rows):
        raise ValueError(f"the {LEADER_EPOCHS} has a negative number")
    return rows


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _format_lines([f"{epoch} {start}" for epoch, start in entries])


# --- small texts --------------------------------------------------------------------------------------------------


def parse_partition_metadata(data: bytes) -> TopicId:
    fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if ": " in line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError(f"partition.metadata has {sorted(fields)}, expected version 0 and a topic_id")
    return parse_topic_id(fields["topic_id"])


def format_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}\n".encode()


def parse_properties(data: bytes) -> dict[str, str]:
    """A .properties file as brokers write it: no escapes, no continued lines."""
    lines = (line.strip() for line in data.decode().splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def format_properties(values: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch of the run that ended cleanly; -1 if it did not say."""
    facts = json.loads(data or b"{}")
    epoch = facts.get("brokerEpoch", -1) if isinstance(facts, dict) else -1
    return epoch if isinstance(epoch, int) else -1


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
