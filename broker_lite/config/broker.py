"""The keys of the broker: who it is, where it listens, what it bounds, and what a topic gets that says nothing itself.

Names, types and bounds are Kafka's.  Where our default is another one, the sentence says why.  Keys of the coordinators
(groups, offsets, transactions) are in `coordination.py`; keys of Kafka that mean nothing to a single broker are named
in `elsewhere.py`.
"""

from __future__ import annotations

import re

from broker_lite.config import topic
from broker_lite.config.coordination import COORDINATION_KEYS
from broker_lite.config.key import INT_MAX, LONG_MAX, Key, Kind, Synonym, keys_in
from broker_lite.config.security import SECURITY_KEYS

# Who it is and where it lives.

NODE_ID = Key(
    "node.id", Kind.INT, 1, "The number by which clients know this broker.", low=0, synonyms=(Synonym("broker.id"),)
)
CLUSTER_ID = Key(
    "broker.lite.cluster.id", Kind.STRING, "",
    "The cluster's id. Empty takes the one in the data folder, or makes one for a new folder.",
)  # fmt: skip
BROKER_RACK: Key[str | None] = Key("broker.rack", Kind.STRING, None, "The rack that Metadata tells clients.")
LOG_DIRS: Key[tuple[str, ...]] = Key(
    "log.dirs", Kind.LIST, ("data",), "The data folder. Kafka takes several, this broker one.",
    synonyms=(Synonym("log.dir"),),
)  # fmt: skip
DURABILITY = Key(
    "broker.lite.durability", Kind.STRING, "os",
    "What an acknowledgement promises: `memory` nothing is on disk; `os` the operating system has it (as Kafka); "
    "`fsync` the disk has it.",
    choices=("memory", "os", "fsync"),
)  # fmt: skip

RECOVER = Key(
    "broker.lite.recover", Kind.STRING, "keep",
    "What a start after a crash does with a log that is damaged in the middle: `keep` serves it up to there, changing "
    "nothing; `kafka` ends it there, as Kafka does. What is cut off stays beside it as `.torn`.",
    choices=("keep", "kafka"),
)  # fmt: skip

LOG_LEVEL = Key(
    "broker.lite.log.level", Kind.STRING, "info", "The least of what is logged.",
    choices=("debug", "info", "warning", "error"),
)  # fmt: skip
METRICS = Key(
    "broker.lite.metrics", Kind.STRING, "", "HOST:PORT of a page that Prometheus reads; empty is none. Port 0 is any.",
)  # fmt: skip
METRICS_HOSTS: Key[tuple[str, ...]] = Key(
    "broker.lite.metrics.hosts", Kind.LIST, (),
    "Further names by which that page is asked for: `kafka.example.com`, `*.example.com`, or `*` for any. Addresses, "
    "names without a dot, names in private domains and the names of the listeners need not be named.",
)  # fmt: skip
TELEMETRY_ENABLE = Key(
    "telemetry.enable", Kind.BOOLEAN, False,
    "Take the metrics that clients push (KIP-714). Clients begin to push as soon as they see that they could.",
)  # fmt: skip
TELEMETRY_MAX_BYTES = Key("telemetry.max.bytes", Kind.INT, 1048576, "The largest push of a client.", low=1)
UVLOOP = Key("broker.lite.uvloop", Kind.BOOLEAN, True, "Run on uvloop where it is installed, else on plain asyncio.")

# Sockets.

LISTENERS = Key(
    "listeners", Kind.LIST, ("PLAINTEXT://127.0.0.1:9092",),
    "Where it listens: NAME://HOST:PORT, an empty host is every interface, port 0 is any free one. "
    "Kafka's default is every interface; ours is this machine only.",
)  # fmt: skip
ADVERTISED_LISTENERS: Key[tuple[str, ...]] = Key(
    "advertised.listeners", Kind.LIST, (),
    "The addresses that clients are told, by listener name. For a listener that is not named here it is the host name "
    "in `listeners`, or, without one, the address that the client came in by.",
)  # fmt: skip
CONTROLLER_LISTENER_NAMES: Key[tuple[str, ...]] = Key(
    "controller.listener.names", Kind.LIST, (), "Listeners of a Kafka controller: neither opened nor advertised here."
)
LISTENER_SECURITY_PROTOCOL_MAP = Key(
    "listener.security.protocol.map", Kind.LIST,
    ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
    "The protocol of each listener name. A name that is missing here is PLAINTEXT.",
)  # fmt: skip
SOCKET_REQUEST_MAX_BYTES = Key(
    "socket.request.max.bytes", Kind.INT, 104857600, "The largest request that is read.", low=1
)
QUEUED_MAX_REQUEST_BYTES = Key(
    "queued.max.request.bytes", Kind.LONG, 268435456,
    "Bytes of requests held at once, over all connections; -1, Kafka's default, is any number.", low=-1,
)  # fmt: skip
REQUEST_READ_TIMEOUT_MS = Key(
    "broker.lite.request.read.timeout.ms", Kind.INT, 30000,
    "How long a request that has begun may take to arrive, unless it comes at a fair speed.", low=1,
)  # fmt: skip
MAX_CONNECTIONS = Key(
    "max.connections", Kind.INT, INT_MAX, "Connections at once; further ones wait.", low=0, dynamic=True
)
MAX_CONNECTIONS_PER_IP = Key(
    "max.connections.per.ip", Kind.INT, INT_MAX, "Connections at once from one address.", low=0, dynamic=True
)
MAX_CONNECTIONS_PER_IP_OVERRIDES: Key[tuple[str, ...]] = Key(
    "max.connections.per.ip.overrides", Kind.LIST, (), "Other limits for some addresses, as HOST:NUMBER,HOST:NUMBER.",
    dynamic=True, pattern=re.compile(r".+:[0-9]{1,10}"), pattern_says="expected HOST:NUMBER,HOST:NUMBER,...",
)  # fmt: skip
CONNECTIONS_MAX_IDLE_MS = Key(
    "connections.max.idle.ms", Kind.LONG, 600000, "A connection that is silent for so long is closed; -1 is never."
)
SHUTDOWN_GRACE_MS = Key(
    "broker.lite.shutdown.grace.ms", Kind.INT, 1000, "How long requests in progress may take to finish on stop.", low=0
)

# Topics and fetches.

NUM_PARTITIONS = Key("num.partitions", Kind.INT, 1, "Partitions of a topic made without a number.", low=1)
AUTO_CREATE_TOPICS_ENABLE = Key(
    "auto.create.topics.enable", Kind.BOOLEAN, True, "Make a topic when a client first asks for it."
)
DELETE_TOPIC_ENABLE = Key("delete.topic.enable", Kind.BOOLEAN, True, "Whether topics may be deleted.")
MAX_REQUEST_PARTITION_SIZE_LIMIT = Key(
    "max.request.partition.size.limit", Kind.INT, 2000, "Partitions in one answer to DescribeTopicPartitions.", low=1,
)  # fmt: skip
FETCH_MAX_BYTES = Key(
    "fetch.max.bytes", Kind.INT, 57671680, "The most that one fetch returns, unless a single batch is larger.", low=1024
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = Key(
    "max.incremental.fetch.session.cache.slots", Kind.INT, 1000, "Incremental fetch sessions remembered at once.", low=0
)
PRODUCER_ID_EXPIRATION_MS = Key(
    "producer.id.expiration.ms", Kind.INT, 86400000, "An idempotent producer is forgotten when silent for so long.",
    low=1, dynamic=True,
)  # fmt: skip
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = Key(
    "producer.id.expiration.check.interval.ms", Kind.INT, 600000, "How often it is looked for such producers.",
    low=1, internal=True,
)  # fmt: skip

# The log: what a topic gets that says nothing itself, and the upkeep of all.

MESSAGE_MAX_BYTES = topic.MAX_MESSAGE_BYTES.default_for("message.max.bytes")
LOG_MESSAGE_TIMESTAMP_TYPE = topic.MESSAGE_TIMESTAMP_TYPE.default_for("log.message.timestamp.type")
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default_for(
    "log.message.timestamp.before.max.ms"
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = topic.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default_for(
    "log.message.timestamp.after.max.ms"
)
COMPRESSION_TYPE = topic.COMPRESSION_TYPE.default_for("compression.type")
COMPRESSION_GZIP_LEVEL = topic.COMPRESSION_GZIP_LEVEL.default_for("compression.gzip.level")
COMPRESSION_LZ4_LEVEL = topic.COMPRESSION_LZ4_LEVEL.default_for("compression.lz4.level")
COMPRESSION_ZSTD_LEVEL = topic.COMPRESSION_ZSTD_LEVEL.default_for("compression.zstd.level")
STRICT = topic.STRICT.default_for("broker.lite.strict")

LOG_SEGMENT_BYTES = topic.SEGMENT_BYTES.default_for("log.segment.bytes")
LOG_ROLL_MS: Key[int | None] = Key(
    "log.roll.ms", Kind.LONG, None, "Default of the topic key segment.ms.", low=1, dynamic=True
)
LOG_ROLL_HOURS = Key("log.roll.hours", Kind.INT, 168, "The same in hours, if `log.roll.ms` is silent.", low=1)
LOG_ROLL_JITTER_MS: Key[int | None] = Key(
    "log.roll.jitter.ms", Kind.LONG, None, "Default of the topic key segment.jitter.ms.", low=0, dynamic=True,
    ignored=topic.SEGMENT_JITTER_MS.ignored,
)  # fmt: skip
LOG_ROLL_JITTER_HOURS = Key(
    "log.roll.jitter.hours", Kind.INT, 0, "The same in hours, if `log.roll.jitter.ms` is silent.", low=0,
    ignored=topic.SEGMENT_JITTER_MS.ignored,
)  # fmt: skip
LOG_INDEX_SIZE_MAX_BYTES = topic.SEGMENT_INDEX_BYTES.default_for("log.index.size.max.bytes")
LOG_INDEX_INTERVAL_BYTES = topic.INDEX_INTERVAL_BYTES.default_for("log.index.interval.bytes")
LOG_PREALLOCATE = topic.PREALLOCATE.default_for("log.preallocate")
LOG_FLUSH_INTERVAL_MESSAGES = topic.FLUSH_MESSAGES.default_for("log.flush.interval.messages")
LOG_FLUSH_INTERVAL_MS: Key[int | None] = Key(
    "log.flush.interval.ms", Kind.LONG, None, "Default of the topic key flush.ms.", low=0, dynamic=True,
    ignored=topic.FLUSH_MS.ignored,
)  # fmt: skip
LOG_FLUSH_SCHEDULER_INTERVAL_MS = Key(
    "log.flush.scheduler.interval.ms", Kind.LONG, LONG_MAX, "The same, if `log.flush.interval.ms` is silent.", low=0,
    ignored=topic.FLUSH_MS.ignored,
)  # fmt: skip

LOG_CLEANUP_POLICY = topic.CLEANUP_POLICY.default_for("log.cleanup.policy")
LOG_RETENTION_MS: Key[int | None] = Key(
    "log.retention.ms", Kind.LONG, None, "Default of the topic key retention.ms.", low=-1, dynamic=True,
    ignored=topic.RETENTION_MS.ignored,
)  # fmt: skip
LOG_RETENTION_MINUTES: Key[int | None] = Key(
    "log.retention.minutes", Kind.INT, None, "The same in minutes, if `log.retention.ms` is silent.", low=-1,
    ignored=topic.RETENTION_MS.ignored,
)  # fmt: skip
LOG_RETENTION_HOURS = Key(
    "log.retention.hours", Kind.INT, 168, "The same in hours, if both are silent.", low=-1,
    ignored=topic.RETENTION_MS.ignored,
)  # fmt: skip
LOG_RETENTION_BYTES = topic.RETENTION_BYTES.default_for("log.retention.bytes")
LOG_RETENTION_CHECK_INTERVAL_MS = Key(
    "log.retention.check.interval.ms", Kind.LONG, 300000, "How often old segments are looked for.", low=1,
    ignored=topic.RETENTION_MS.ignored,
)  # fmt: skip
LOG_SEGMENT_DELETE_DELAY_MS = topic.FILE_DELETE_DELAY_MS.default_for("log.segment.delete.delay.ms")
LOG_CLEANER_ENABLE = Key(
    "log.cleaner.enable", Kind.BOOLEAN, True, "Whether logs are compacted.", ignored=topic.DELETE_RETENTION_MS.ignored
)
LOG_CLEANER_BACKOFF_MS = Key(
    "log.cleaner.backoff.ms", Kind.LONG, 15000, "How long the cleaner rests when there is nothing to clean.",
    low=0, dynamic=True, ignored=topic.DELETE_RETENTION_MS.ignored,
)  # fmt: skip
LOG_CLEANER_DELETE_RETENTION_MS = topic.DELETE_RETENTION_MS.default_for("log.cleaner.delete.retention.ms")
LOG_CLEANER_MIN_CLEANABLE_RATIO = topic.MIN_CLEANABLE_DIRTY_RATIO.default_for("log.cleaner.min.cleanable.ratio")
LOG_CLEANER_MIN_COMPACTION_LAG_MS = topic.MIN_COMPACTION_LAG_MS.default_for("log.cleaner.min.compaction.lag.ms")
LOG_CLEANER_MAX_COMPACTION_LAG_MS = topic.MAX_COMPACTION_LAG_MS.default_for("log.cleaner.max.compaction.lag.ms")

MIN_INSYNC_REPLICAS = topic.MIN_INSYNC_REPLICAS.default_for("min.insync.replicas")
UNCLEAN_LEADER_ELECTION_ENABLE = topic.UNCLEAN_LEADER_ELECTION_ENABLE.default_for("unclean.leader.election.enable")
LOG_LOCAL_RETENTION_MS = topic.LOCAL_RETENTION_MS.default_for("log.local.retention.ms")
LOG_LOCAL_RETENTION_BYTES = topic.LOCAL_RETENTION_BYTES.default_for("log.local.retention.bytes")

BROKER_KEYS: dict[str, Key[object]] = keys_in(dict(globals())) | COORDINATION_KEYS | SECURITY_KEYS
