"""What a topic's configuration means for its logs."""

from __future__ import annotations

from broker_lite.shapes import dataclass, field

DAY_MS = 24 * 3600 * 1000
FOREVER = (1 << 63) - 1


@dataclass(slots=True)
class Cleanup:
    """What may be thrown away, and when. These defaults throw nothing away; Kafka's are in `config.topic`."""

    delete: bool = True
    compact: bool = False
    """Both may be true: a log of last values that also forgets old ones."""
    retention_ms: int = -1
    retention_bytes: int = -1
    file_delete_delay_ms: int = 0
    delete_retention_ms: int = DAY_MS
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = FOREVER


@dataclass(slots=True)
class LogSettings:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_max_bytes: int = 10 << 20
    sync_rolls: bool = False
    """A sealed segment is on the platter before the next one is written to, so that a crash tears only the last one."""
    cut_damage: bool = False
    """A start ends a damaged log before the damage, wherever that lies, as Kafka does."""
    cleanup: Cleanup = field(default_factory=Cleanup)

    @property
    def roll_ms(self) -> int:
        """What the compactor may not leave alone for longer must not stay in the active segment for longer."""
        return min(self.segment_ms, self.cleanup.max_lag_ms) if self.cleanup.compact else self.segment_ms
