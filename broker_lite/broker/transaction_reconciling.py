"""No partition waits for a marker that nobody will send.

What is open in partitions is held against what the coordinator remembers: at a start, when what is prepared has been
completed, and again until everything is settled, for a disk may refuse the markers.  And when `__transaction_state` is
deleted, which Kafka allows, everything that is open ends before its coordinator forgets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker_lite.broker.transaction_markers import TransactionMarkers
from broker_lite.coordinator.txns.coordinator import Coordinator, Producer
from broker_lite.coordinator.txns.reconcile import Verdict, judge
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.errors import BrokerError
from broker_lite.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from broker_lite.logs import get_logger
from broker_lite.partition.answers import ActiveProducer
from broker_lite.partition.partition import Partition

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)


class Reconciler:
    def __init__(
        self,
        broker: Broker,
        coordinator: Coordinator,
        markers: TransactionMarkers,
        join: Callable[[str, Producer, TopicPartition], None],
        state_partition: Callable[[str], Partition],
    ) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._markers = markers
        self._join = join
        self._state_partition = state_partition
        self._told: set[tuple[TopicPartition, int]] = set()
        """Which partitions and producers the log has been told of."""
        self.is_due = True
        """Something may be open that the coordinator does not know of."""

    def run(self) -> None:
        """Settle what can be settled now; `is_due` says whether something is left."""
        self.is_due = False
        for partition, writer, transaction in self._open():
            verdict = judge(transaction, partition.tp, writer.epoch)
            if verdict is Verdict.LATER:
                self.is_due = True
            elif verdict is not Verdict.KNOWN:
                self._settle(partition, writer, transaction, verdict)

    def end_all(self) -> None:
        """The coordinator is about to forget everything: what is decided is carried out now, the rest is aborted."""
        for partition, writer, transaction in self._open():
            known = judge(transaction, partition.tp, writer.epoch) is Verdict.KNOWN
            commits = known and transaction is not None and transaction.state is State.PREPARE_COMMIT
            self._settle(partition, writer, transaction, Verdict.COMMIT if commits else Verdict.ABORT)

    def _open(self) -> Iterator[tuple[Partition, ActiveProducer, Transaction | None]]:
        """Every transaction that is open in a partition, with what its producer holds at that moment."""
        holders = {transaction.producer_id: transaction.id for transaction in self._coordinator}
        for partition in list(self._broker.topics.open_partitions()):
            if partition.open_transactions():
                for writer in partition.describe_producers():
                    if writer.txn_start_offset >= 0:
                        yield partition, writer, self._coordinator.find(holders.get(writer.producer_id, ""))

    def _settle(
        self, partition: Partition, writer: ActiveProducer, transaction: Transaction | None, verdict: Verdict
    ) -> None:
        tp, producer_id = partition.tp, writer.producer_id
        if (tp, producer_id) not in self._told:
            self._told.add((tp, producer_id))
            log.warning(
                "transaction.unknown",
                partition=str(tp),
                producer_id=producer_id,
                open_since_offset=writer.txn_start_offset,
                transactional_id=None if transaction is None else transaction.id[:200],
                verdict=verdict.value,
            )
        try:
            if transaction is not None and verdict is Verdict.JOINS:
                self._join(transaction.id, Producer(producer_id, writer.epoch), tp)
                return
            self._markers.append(
                tp,
                producer_id,
                writer.epoch if transaction is None else max(writer.epoch, transaction.epoch),
                commit=verdict is Verdict.COMMIT,
                coordinator_epoch=max(writer.coordinator_epoch, self._coordinator_epoch(transaction)),
                version=0,
            )
        except BrokerError as error:
            self.is_due = True
            log.error("transaction.not_settled", partition=str(tp), reason=error.message)

    def _coordinator_epoch(self, transaction: Transaction | None) -> int:
        """0 if nobody knows of it or its topic was deleted, which must not come back to say so."""
        if transaction is None or self._broker.topics.get(TRANSACTION_STATE_TOPIC) is None:
            return 0
        return self._state_partition(transaction.id).leader_epoch
