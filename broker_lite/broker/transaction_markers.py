"""Completes prepared transactions: a marker into every partition, then Complete.

Once Prepare is written the outcome is certain, so nothing is refused from here on, only retried: a partition whose disk
refuses the marker gets it later, as in Kafka, and the others do not wait for it.  Without `fsync` everything happens in
the turn of the loop that wrote Prepare.  In `fsync` mode Prepare is on disk before the first marker and the markers
before Complete: otherwise a power cut could keep one marker and lose the decision.

What is always true:

- a transaction has at most one attempt under way, the first beginning in the turn that wrote Prepare;
- after each wait the coordinator is asked whether the transaction is still the one that the attempt began with, in
  the turn that writes.  A `Transaction` never changes, so being the same object is being the same state.  A marker
  that came later would end the producer's next transaction, and a late Complete would overwrite it;
- a marker for a partition with nothing open changes nothing, so a restart may write all of them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio

from broker_lite.coordinator.decision import Decision
from broker_lite.coordinator.txns.coordinator import Coordinator
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.errors import (
    BrokerError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from broker_lite.ids import GROUP_OFFSETS_TOPIC, Offset, TopicPartition
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition
from broker_lite.shapes import dataclass

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)


@dataclass(slots=True)
class _Incomplete:
    transaction: Transaction
    unmarked: set[TopicPartition]
    """The partitions that have no marker yet."""
    is_under_way: bool = False


class TransactionMarkers:
    def __init__(
        self,
        broker: Broker,
        coordinator: Coordinator,
        write: Callable[[str, Decision[None]], object],
        state_partition: Callable[[str], Partition],
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._write = write
        self._state_partition = state_partition
        self._incomplete: dict[str, _Incomplete] = {}
        """By transactional id, what was begun and has not succeeded."""

    @property
    def incomplete(self) -> list[str]:
        """The transactional ids whose last attempt is under way or has failed."""
        return list(self._incomplete)

    def forget_all(self) -> None:
        self._incomplete.clear()

    async def complete_all(self, transactional_ids: Iterable[str]) -> None:
        """An attempt for each, all at once: in `fsync` mode they share syncs."""
        async with anyio.create_task_group() as attempts:
            for transactional_id in transactional_ids:
                attempts.start_soon(self.complete, transactional_id)

    async def complete(self, transactional_id: str) -> None:
        """Try to complete the transaction of this id if it is prepared. What fails is logged and tried again later."""
        transaction = self._coordinator.find(transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            return
        incomplete = self._incomplete.get(transactional_id)
        # One that began with another transaction ends by itself: `__transaction_state` was deleted meanwhile.
        is_first = incomplete is None or incomplete.transaction is not transaction
        if incomplete is None or is_first:
            incomplete = self._incomplete[transactional_id] = _Incomplete(transaction, set(transaction.partitions))
        elif incomplete.is_under_way:
            return
        incomplete.is_under_way = True
        try:
            await self._attempt(transaction, incomplete.unmarked)
        except BrokerError as error:
            if is_first:
                log.error("transaction.not_completed", transactional_id=transactional_id[:200], reason=error.message)
        else:
            if self._incomplete.get(transactional_id) is incomplete:
                del self._incomplete[transactional_id]
            if not is_first:
                log.info("transaction.completed", transactional_id=transactional_id[:200])
        finally:
            incomplete.is_under_way = False

    async def _attempt(self, transaction: Transaction, unmarked: set[TopicPartition]) -> None:
        """Takes out of `unmarked` what is done. Raises why the transaction cannot be completed yet."""
        if self._broker.flusher.active:
            state = self._state_partition(transaction.id)
            await self._broker.flusher.durable(state, state.offsets.end)
            if not self._coordinator.is_current(transaction):
                return
        failures: list[BrokerError] = []
        written: dict[TopicPartition, tuple[Partition, Offset]] = {}
        for tp in sorted(unmarked):
            try:
                place = self._mark(tp, transaction)
            except BrokerError as error:
                failures.append(error)
            else:
                if place is None:
                    unmarked.remove(tp)
                else:
                    written[tp] = place
        for tp, place in written.items():
            try:
                await self._broker.flusher.durable(*place)
            except UnknownTopicOrPartition:
                unmarked.remove(tp)  # deleted meanwhile
            except BrokerError as error:
                failures.append(error)
            else:
                unmarked.remove(tp)
        if failures:
            raise failures[0]
        if self._coordinator.is_current(transaction):  # else `__transaction_state` was deleted
            self._write(transaction.id, self._coordinator.complete(transaction, self._broker.transactions.now_ms()))

    def _mark(self, tp: TopicPartition, transaction: Transaction) -> tuple[Partition, Offset] | None:
        """One marker. None: there is nothing to end any more, the topic was deleted or somebody ended it by hand."""
        try:
            return self.append(
                tp,
                transaction.producer_id,
                transaction.epoch,
                commit=transaction.state is State.PREPARE_COMMIT,
                coordinator_epoch=self._state_partition(transaction.id).leader_epoch,
                version=transaction.version,
            )
        except UnknownTopicOrPartition:
            return None
        except InvalidProducerEpoch as error:
            # A higher epoch has come since, so this transaction has ended here; `reconcile` looks at what is open now.
            log.warning("transaction.ended_before", partition=str(tp), reason=error.message)
            return None
        except TransactionCoordinatorFenced as error:
            if transaction.producer_id in self._partition(tp).open_transactions():
                raise
            log.warning("transaction.ended_by_another", partition=str(tp), reason=error.message)
            return None

    def append(
        self, tp: TopicPartition, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, version: int
    ) -> tuple[Partition, Offset]:
        """Append a marker. Where it ends."""
        partition = self._partition(tp)
        appended = partition.append_marker(
            producer_id,
            epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=self._broker.clock.now_ms(),
            transaction_version=version,
        )
        if tp.topic == GROUP_OFFSETS_TOPIC:
            self._broker.groups.marker_written(tp.partition, producer_id, commit=commit)
        self._broker.appended(partition)
        return partition, appended.end

    def _partition(self, tp: TopicPartition) -> Partition:
        return self._broker.topics.partition(tp.topic, tp.partition)
