"""What holds for groups: the broker's keys, and for a consumer group its own word over them, as it is now (KIP-1049).

A group's word was within the broker's bounds when it was set.  If the bounds were moved since, by a restart with other
settings, the nearest value within them holds; Kafka does the same, and says so.
"""

from __future__ import annotations

from broker_lite.broker.configs import Configs
from broker_lite.config import coordination as keys
from broker_lite.config import group as own
from broker_lite.config.key import Key, Scope
from broker_lite.config.sources import Settings
from broker_lite.coordinator.groups.settings import MINUTES, ConsumerSettings, GroupSettings
from broker_lite.logs import get_logger

log = get_logger(__name__)

_BOUNDS: tuple[tuple[Key[int], Key[int], Key[int]], ...] = (
    (
        own.CONSUMER_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    (
        own.CONSUMER_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    (
        own.CONSUMER_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
)


class ConsumerGroupSettings:
    """Call it with a group id. The answer is kept until something is configured."""

    def __init__(self, settings: Settings, configs: Configs) -> None:
        self._settings = settings
        self._configs = configs
        self._kept: dict[str, ConsumerSettings] = {}
        self._common: ConsumerSettings | None = None
        configs.on_change.append(self._forget)

    def _forget(self, scope: Scope, name: str) -> None:
        if scope is Scope.GROUP:
            self._kept.pop(name, None)
        elif scope is Scope.BROKER:
            self._kept.clear()
            self._common = None

    def __call__(self, group_id: str) -> ConsumerSettings:
        kept = self._kept.get(group_id)
        if kept is not None:
            return kept
        if self._configs.has(Scope.GROUP, group_id):
            made = self._kept[group_id] = self._of(group_id)
            return made
        if self._common is None:
            get = self._settings.get
            self._common = ConsumerSettings(
                session_ms=get(keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS),
                heartbeat_ms=get(keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
                assignment_interval_ms=get(keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS),
            )
        return self._common

    def _of(self, group_id: str) -> ConsumerSettings:
        said = self._configs.group(group_id)
        session_ms, heartbeat_ms, interval_ms = (
            self._within(group_id, key, said.get(key), self._settings.get(least), self._settings.get(most))
            if key.name in said.overrides
            else said.get(key)
            for key, least, most in _BOUNDS
        )
        return ConsumerSettings(session_ms, heartbeat_ms, interval_ms)

    @staticmethod
    def _within(group_id: str, key: Key[int], value: int, least: int, most: int) -> int:
        bounded = min(max(value, least), most)
        if bounded != value:
            log.warning("groups.config_out_of_bounds", group=group_id, key=key.name, value=value, holds=bounded)
        return bounded


def group_settings(settings: Settings, configs: Configs) -> GroupSettings:
    get = settings.get
    return GroupSettings(
        min_session_ms=get(keys.GROUP_MIN_SESSION_TIMEOUT_MS),
        max_session_ms=get(keys.GROUP_MAX_SESSION_TIMEOUT_MS),
        max_size=get(keys.GROUP_MAX_SIZE),
        initial_delay_ms=get(keys.GROUP_INITIAL_REBALANCE_DELAY_MS),
        metadata_max=get(keys.OFFSET_METADATA_MAX_BYTES),
        retention_ms=get(keys.OFFSETS_RETENTION_MINUTES) * MINUTES,
        retention_check_ms=get(keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS),
        consumer=ConsumerGroupSettings(settings, configs),
        consumer_max_size=get(keys.GROUP_CONSUMER_MAX_SIZE),
        assignors=get(keys.GROUP_CONSUMER_ASSIGNORS),
        migration=get(keys.GROUP_CONSUMER_MIGRATION_POLICY),
    )
