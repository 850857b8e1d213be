"""The keys of a topic: all that Kafka 4.3 lists, with its types, bounds and defaults.

Two differences, both on purpose: `segment.bytes` may be as small as 14 (Kafka before 4.0 allowed it, and tests want
rolls), and `broker.lite.strict` is ours.
"""

from __future__ import annotations

import re

from broker_lite.config.key import LONG_MAX, Key, Kind, Scope, Synonym, keys_in

DAY_MS = 24 * 3600 * 1000
_T = Scope.TOPIC
_ONE_COPY = "there is one broker, so each partition has one copy"
_NO_TIERS = "there is no tiered storage"
_THE_MODE_DECIDES = "the durability mode decides when files are synced"


def _log(name: str, factor: int = 1) -> Synonym:
    return Synonym(f"log.{name}", factor)


# What a producer may send.

MAX_MESSAGE_BYTES = Key(
    "max.message.bytes", Kind.INT, 1048588, "The largest record batch, as it arrives, that is taken.",
    scope=_T, low=0, dynamic=True, synonyms=(Synonym("message.max.bytes"),),
)  # fmt: skip
MESSAGE_TIMESTAMP_TYPE = Key(
    "message.timestamp.type", Kind.STRING, "CreateTime", "Whose time records carry: the producer's or the broker's.",
    scope=_T, choices=("CreateTime", "LogAppendTime"), dynamic=True, synonyms=(_log("message.timestamp.type"),),
)  # fmt: skip
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Key(
    "message.timestamp.before.max.ms", Kind.LONG, LONG_MAX, "How old a record's own timestamp may be.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("message.timestamp.before.max.ms"),),
)  # fmt: skip
MESSAGE_TIMESTAMP_AFTER_MAX_MS = Key(
    "message.timestamp.after.max.ms", Kind.LONG, 3600000, "How far in the future a record's own timestamp may be.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("message.timestamp.after.max.ms"),),
)  # fmt: skip
COMPRESSION_TYPE = Key(
    "compression.type", Kind.STRING, "producer", "How batches are stored; `producer` keeps what the producer chose.",
    scope=_T, choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), dynamic=True,
    synonyms=(Synonym("compression.type"),),
)  # fmt: skip
COMPRESSION_GZIP_LEVEL = Key(
    "compression.gzip.level", Kind.INT, -1, "The level when `compression.type` is gzip; -1 is the library's default.",
    scope=_T, low=1, high=9, besides=-1, dynamic=True, synonyms=(Synonym("compression.gzip.level"),),
)  # fmt: skip
COMPRESSION_LZ4_LEVEL = Key(
    "compression.lz4.level", Kind.INT, 9, "The level when `compression.type` is lz4; 9 is its fast way, as in Kafka.",
    scope=_T, low=1, high=17, dynamic=True, synonyms=(Synonym("compression.lz4.level"),),
)  # fmt: skip
COMPRESSION_ZSTD_LEVEL = Key(
    "compression.zstd.level", Kind.INT, 3, "The level when `compression.type` is zstd.",
    scope=_T, low=-131072, high=22, dynamic=True, synonyms=(Synonym("compression.zstd.level"),),
)  # fmt: skip
STRICT = Key(
    "broker.lite.strict", Kind.BOOLEAN, False,
    "Look into every record of every batch, as a client's developer wants it, not only where the topic needs it.",
    scope=_T, dynamic=True, synonyms=(Synonym("broker.lite.strict"),),
)  # fmt: skip

# How the log lies on disk.

SEGMENT_BYTES = Key(
    "segment.bytes", Kind.INT, 1073741824, "The size at which a new segment file is begun.",
    scope=_T, low=14, dynamic=True, synonyms=(_log("segment.bytes"),),
)  # fmt: skip
INTERNAL_SEGMENT_BYTES: Key[int | None] = Key(
    "internal.segment.bytes", Kind.INT, None, "As `segment.bytes`, and stronger: Kafka's own name for tests that roll.",
    scope=_T, dynamic=True, internal=True,
)  # fmt: skip
SEGMENT_MS = Key(
    "segment.ms", Kind.LONG, 7 * DAY_MS, "The age at which a new segment file is begun.",
    scope=_T, low=1, dynamic=True, synonyms=(_log("roll.ms"), _log("roll.hours", 3600000)),
)  # fmt: skip
SEGMENT_JITTER_MS = Key(
    "segment.jitter.ms", Kind.LONG, 0, "At most so much is taken off `segment.ms`, so that rolls do not come together.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("roll.jitter.ms"), _log("roll.jitter.hours", 3600000)),
)  # fmt: skip
SEGMENT_INDEX_BYTES = Key(
    "segment.index.bytes", Kind.INT, 10485760, "The size of an index at which a new segment is begun.",
    scope=_T, low=4, dynamic=True, synonyms=(_log("index.size.max.bytes"),),
)  # fmt: skip
INDEX_INTERVAL_BYTES = Key(
    "index.interval.bytes", Kind.INT, 4096, "How many bytes of log pass between two index entries.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("index.interval.bytes"),),
)  # fmt: skip
PREALLOCATE = Key(
    "preallocate", Kind.BOOLEAN, False, "Reserve the disk space of a segment when it is begun.",
    scope=_T, dynamic=True, synonyms=(_log("preallocate"),), ignored="files grow as they are written",
)  # fmt: skip
FLUSH_MESSAGES = Key(
    "flush.messages", Kind.LONG, LONG_MAX, "Sync the log after so many records.",
    scope=_T, low=1, dynamic=True, synonyms=(_log("flush.interval.messages"),), ignored=_THE_MODE_DECIDES,
)  # fmt: skip
FLUSH_MS = Key(
    "flush.ms", Kind.LONG, LONG_MAX, "Sync the log at least so often.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("flush.interval.ms"), _log("flush.scheduler.interval.ms")),
    ignored=_THE_MODE_DECIDES,
)  # fmt: skip

# What is thrown away, and when.

CLEANUP_POLICY = Key(
    "cleanup.policy", Kind.LIST, ("delete",), "Old data is deleted, or all but the last value of each key, or both.",
    scope=_T, choices=("compact", "delete"), dynamic=True, synonyms=(_log("cleanup.policy"),),
)  # fmt: skip
RETENTION_MS = Key(
    "retention.ms", Kind.LONG, 7 * DAY_MS, "The age at which records may be deleted; -1 is never.",
    scope=_T, low=-1, dynamic=True,
    synonyms=(_log("retention.ms"), _log("retention.minutes", 60000), _log("retention.hours", 3600000)),
)  # fmt: skip
RETENTION_BYTES = Key(
    "retention.bytes", Kind.LONG, -1, "The size above which a partition's oldest segments may be deleted; -1 is any.",
    scope=_T, dynamic=True, synonyms=(_log("retention.bytes"),),
)  # fmt: skip
FILE_DELETE_DELAY_MS = Key(
    "file.delete.delay.ms", Kind.LONG, 60000, "How long a deleted file stays on disk.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("segment.delete.delay.ms"),),
)  # fmt: skip
DELETE_RETENTION_MS = Key(
    "delete.retention.ms", Kind.LONG, DAY_MS, "How long a delete marker of a compacted topic can be read.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("cleaner.delete.retention.ms"),),
)  # fmt: skip
MIN_CLEANABLE_DIRTY_RATIO = Key(
    "min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5, "The part of a log that has to be new before it is compacted again.",
    scope=_T, low=0, high=1, dynamic=True, synonyms=(_log("cleaner.min.cleanable.ratio"),),
)  # fmt: skip
MIN_COMPACTION_LAG_MS = Key(
    "min.compaction.lag.ms", Kind.LONG, 0, "How long a record is safe from compaction.",
    scope=_T, low=0, dynamic=True, synonyms=(_log("cleaner.min.compaction.lag.ms"),),
)  # fmt: skip
MAX_COMPACTION_LAG_MS = Key(
    "max.compaction.lag.ms", Kind.LONG, LONG_MAX, "How long a record may escape compaction.",
    scope=_T, low=1, dynamic=True, synonyms=(_log("cleaner.max.compaction.lag.ms"),),
)  # fmt: skip

# What only a cluster or a tiered store would need.

MIN_INSYNC_REPLICAS = Key(
    "min.insync.replicas", Kind.INT, 1, "How many copies an acks=all write needs.",
    scope=_T, low=1, dynamic=True, synonyms=(Synonym("min.insync.replicas"),), ignored=_ONE_COPY,
)  # fmt: skip
UNCLEAN_LEADER_ELECTION_ENABLE = Key(
    "unclean.leader.election.enable", Kind.BOOLEAN, False, "Whether a copy that is behind may lead.",
    scope=_T, dynamic=True, synonyms=(Synonym("unclean.leader.election.enable"),), ignored=_ONE_COPY,
)  # fmt: skip
_REPLICAS = re.compile(r"[0-9]+:[0-9]+")
_REPLICAS_SAY = "{} must be the literal '*' or a list of replicas in the following format: "
_REPLICAS_SAY += "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
LEADER_REPLICATION_THROTTLED_REPLICAS: Key[tuple[str, ...]] = Key(
    "leader.replication.throttled.replicas", Kind.LIST, (), "Copies whose leader sends them slowly.",
    scope=_T, dynamic=True, ignored=_ONE_COPY,
    pattern=_REPLICAS, pattern_says=_REPLICAS_SAY.format("leader.replication.throttled.replicas"),
)  # fmt: skip
FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Key[tuple[str, ...]] = Key(
    "follower.replication.throttled.replicas", Kind.LIST, (), "Copies that fetch slowly.",
    scope=_T, dynamic=True, ignored=_ONE_COPY,
    pattern=_REPLICAS, pattern_says=_REPLICAS_SAY.format("follower.replication.throttled.replicas"),
)  # fmt: skip
REMOTE_STORAGE_ENABLE = Key(
    "remote.storage.enable", Kind.BOOLEAN, False, "Keep old segments in a remote store.",
    scope=_T, dynamic=True, ignored=_NO_TIERS,
)  # fmt: skip
REMOTE_LOG_COPY_DISABLE = Key(
    "remote.log.copy.disable", Kind.BOOLEAN, False, "Stop copying to the remote store.",
    scope=_T, dynamic=True, ignored=_NO_TIERS,
)  # fmt: skip
REMOTE_LOG_DELETE_ON_DISABLE = Key(
    "remote.log.delete.on.disable", Kind.BOOLEAN, False, "Delete the remote copy when remote storage is switched off.",
    scope=_T, dynamic=True, ignored=_NO_TIERS,
)  # fmt: skip
LOCAL_RETENTION_MS = Key(
    "local.retention.ms", Kind.LONG, -2, "The age at which a remotely stored segment leaves the local disk.",
    scope=_T, low=-2, dynamic=True, synonyms=(_log("local.retention.ms"),), ignored=_NO_TIERS,
)  # fmt: skip
LOCAL_RETENTION_BYTES = Key(
    "local.retention.bytes", Kind.LONG, -2, "The local size above which remotely stored segments leave the local disk.",
    scope=_T, low=-2, dynamic=True, synonyms=(_log("local.retention.bytes"),), ignored=_NO_TIERS,
)  # fmt: skip

TOPIC_KEYS: dict[str, Key[object]] = keys_in(dict(globals()))
