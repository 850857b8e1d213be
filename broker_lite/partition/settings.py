"""What a topic's configuration means for its partitions."""

from __future__ import annotations

from broker_lite.log.settings import LogSettings
from broker_lite.records.check import AppendRules
from broker_lite.shapes import dataclass, field


@dataclass(slots=True)
class PartitionSettings:
    rules: AppendRules = field(default_factory=AppendRules)
    log: LogSettings = field(default_factory=LogSettings)
    producer_expiration_ms: int = 24 * 3600 * 1000
    producer_expiration_check_ms: int = 600_000
    hold_high_until_synced: bool = False
    """An acknowledgement means that the disk has it, so nobody reads what it may lose."""

    def __post_init__(self) -> None:
        self.log.sync_rolls = self.log.sync_rolls or self.hold_high_until_synced
