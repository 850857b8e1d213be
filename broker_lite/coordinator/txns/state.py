"""One transactional id: who holds it, which transaction is open, how the last one ended.

    Empty ──────────────► Ongoing ──► PrepareCommit ──► CompleteCommit
      ▲                   ▲  │                            │
      │                   │  └─────► PrepareAbort ──► CompleteAbort
      │                   └───────────────────────────────┤
      └─────────────────── a producer starts anew ◄───────┘

The outcome is certain from the moment Prepare is written; what follows (markers in every partition, then Complete) may
be done twice and has to be done once.  An id that was silent for long in Empty or Complete is forgotten.

Epochs.  A new producer under the same id raises the epoch, so the old one is fenced everywhere.  In the second
generation of the protocol (KIP-890) every transaction raises it: Prepare carries the epoch that its markers have, one
above that of the data.  Epoch 32767 is kept for fencing; a producer that reaches 32766 goes on under a new producer id.

A `Transaction` never changes; a decision makes the next one and writes it down, `apply` puts it in the old one's place.
"""

from __future__ import annotations

from enum import IntEnum

from broker_lite.ids import TopicPartition
from broker_lite.shapes import dataclass, replace

NO_PRODUCER = -1
NO_EPOCH = -1
LAST_EPOCH = 2**15 - 1
"""Only to fence with: no producer ever gets it."""
LAST_USABLE_EPOCH = LAST_EPOCH - 1
BUMPING = 2
"""The transaction version from which every transaction raises the epoch (KIP-890)."""


class State(IntEnum):
    """Kafka's numbers, as they stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools print it."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


_MAY_FOLLOW = {
    State.EMPTY: {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.ONGOING: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.PREPARE_COMMIT: {State.ONGOING},
    # An abort of nothing is how a KIP-890 producer asks for a fresh epoch.
    State.PREPARE_ABORT: {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {State.PREPARE_COMMIT},
    State.COMPLETE_ABORT: {State.PREPARE_ABORT},
}


@dataclass(frozen=True, slots=True)
class Transaction:
    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    last_epoch: int = NO_EPOCH
    """The epoch before this one, as long as a retry with it is known to come from the same producer."""
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    """Under which the producer goes on once the markers are written, if its epochs are used up."""
    version: int = 0
    """The transaction version of the client that ended the last transaction."""

    @property
    def exhausted(self) -> bool:
        return self.epoch >= LAST_USABLE_EPOCH

    @property
    def bumps(self) -> bool:
        return self.version >= BUMPING

    def is_before(self, epoch: int) -> bool:
        """Of a prepared one: whether its producer wrote with this epoch after it had ended."""
        return epoch >= self.epoch if self.bumps else epoch > self.epoch

    def is_timed_out(self, now_ms: int) -> bool:
        """Open for too long, or since a time that is too far ahead: the clock was set back while the broker was off."""
        return self.state is State.ONGOING and abs(now_ms - self.started_ms) > self.timeout_ms

    def _to(self, following: Transaction) -> Transaction:
        assert self.state in _MAY_FOLLOW[following.state], f"{self.id}: {self.state.label} to {following.state.label}"
        return following

    def renewed(self, *, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer starts anew under this id."""
        return self._to(
            replace(
                self,
                producer_id=producer_id,
                previous_producer_id=self.producer_id,
                next_producer_id=NO_PRODUCER,
                epoch=epoch,
                last_epoch=last_epoch,
                timeout_ms=timeout_ms,
                state=State.EMPTY,
                partitions=frozenset(),
                started_ms=-1,
                updated_ms=now_ms,
            )
        )

    def with_partitions(self, added: frozenset[TopicPartition], now_ms: int) -> Transaction:
        going = self.state is State.ONGOING
        return self._to(
            replace(
                self,
                state=State.ONGOING,
                partitions=self.partitions | added if going else added,
                started_ms=self.started_ms if going else now_ms,
                updated_ms=now_ms,
            )
        )

    def prepared(self, *, commit: bool, version: int, next_producer_id: int, fence: bool, now_ms: int) -> Transaction:
        """The outcome is decided. `fence`: not by the producer, which is shut out by the raised epoch."""
        raised = fence or version >= BUMPING
        return self._to(
            replace(
                self,
                state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
                epoch=min(self.epoch + 1, LAST_EPOCH) if raised else self.epoch,
                last_epoch=self.epoch if raised else self.last_epoch,
                next_producer_id=next_producer_id,
                version=version,
                started_ms=self.started_ms if self.state is State.ONGOING else now_ms,
                partitions=self.partitions if self.state is State.ONGOING else frozenset(),
                updated_ms=now_ms,
            )
        )

    def completed(self, now_ms: int) -> Transaction:
        """The markers are written."""
        moves_on = self.next_producer_id != NO_PRODUCER
        return self._to(
            replace(
                self,
                state=State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
                producer_id=self.next_producer_id if moves_on else self.producer_id,
                previous_producer_id=self.producer_id if moves_on else self.previous_producer_id,
                next_producer_id=NO_PRODUCER,
                epoch=0 if moves_on else self.epoch,
                partitions=frozenset(),
                updated_ms=now_ms,
            )
        )
