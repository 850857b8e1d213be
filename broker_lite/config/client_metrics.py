"""The keys of a client metrics subscription (KIP-714): who is asked for which metrics, and how often."""

from __future__ import annotations

from broker_lite.config.key import Key, Kind, Scope, keys_in

_M = Scope.CLIENT_METRICS

INTERVAL_MS = Key(
    "interval.ms", Kind.INT, 300000, "How often a client pushes.", scope=_M, low=100, high=3600000, dynamic=True
)
METRICS: Key[tuple[str, ...]] = Key(
    "metrics", Kind.LIST, (), "Prefixes of the metrics that are wanted; `*` is all.", scope=_M, dynamic=True
)
MATCH: Key[tuple[str, ...]] = Key(
    "match", Kind.LIST, (), "Which clients are asked: NAME=PATTERN,…; all if there is none.", scope=_M, dynamic=True
)

CLIENT_METRICS_KEYS: dict[str, Key[object]] = keys_in(dict(globals()))

SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What `match` can look at."""
