"""What follows when a time-out of a group is over, or a topic is gone whose offsets are still there."""

from __future__ import annotations

from broker_lite.coordinator.groups import heartbeat, rebalance, syncing
from broker_lite.coordinator.groups.catalogue import Catalogue
from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup
from broker_lite.coordinator.groups.offsets import Offsets, is_known
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.turn import TimerKey, Turn

DELETED_TOPIC = "deleted topic"
"""Its offsets have to go."""
GONE_TOPIC_ID = "gone topic id"
"""A start found offsets of a topic of this name with an id that no topic has any more."""

MIN_RETRY_S = 0.5
MAX_RETRY_S = 5.0
"""Between two attempts at what follows from a time-out, while the log refuses it."""


def classic_timeout(group: ClassicGroup, turn: Turn, what: str, member_id: str) -> None:
    match what:
        case "session":
            syncing.session_is_over(group, turn, member_id)
        case "join":
            rebalance.join_time_is_over(group, turn)
        case "sync":
            syncing.sync_time_is_over(group, turn)
        case "downgraded" if group.state is State.STABLE:
            rebalance.prepare(group, turn)


def consumer_timeout(group: ConsumerGroup, turn: Turn, keys: list[TimerKey], catalogue: Catalogue) -> None:
    """Whichever of its timers ended, the member is out."""
    gone = {member_id: group.members[member_id] for _, _, member_id in keys if member_id in group.members}
    if gone:
        heartbeat.fence(group, turn, list(gone.values()), catalogue)


def topic_timeout(offsets: Offsets, turn: Turn, what: str, topic: str, catalogue: Catalogue) -> None:
    younger = catalogue.get(topic)

    def is_kept(topic_id: bytes) -> bool:
        if what == GONE_TOPIC_ID:
            return is_known(topic_id, catalogue)
        return younger is not None and topic_id == younger.id

    turn.records += offsets.deletions_of_topic(topic, is_kept)
