"""Transactions, joined to the log and the clock.

The coordinator decides; here its decisions are written to `__transaction_state` and applied, in one plain function for
each: a decision is made on the state at the moment of its write.  Once Prepare is written the outcome is certain, and
`broker.transaction_markers` brings it about.  Where an acknowledgement means that the disk has it, answers wait for the
disk; nothing that was read before such a wait is used after it.

After a restart what is prepared is completed before anybody is served, and what is open in a partition without the
coordinator's knowledge is reconciled, so that it cannot hold up readers for ever.

Timeouts are measured on a time line that starts with the wall clock and then follows the monotonic one: whoever sets
the clock aborts nobody's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio

from broker_lite.broker.coordinator_errors import coordinator_error
from broker_lite.broker.features import TRANSACTIONS
from broker_lite.broker.internal_partitions import partition_of
from broker_lite.broker.plain_records import latest_of_each_key
from broker_lite.broker.transaction_markers import TransactionMarkers
from broker_lite.broker.transaction_reconciling import Reconciler
from broker_lite.config import coordination as keys
from broker_lite.coordinator.decision import Decision, Record, Reply
from broker_lite.coordinator.txns.coordinator import Coordinator, Producer, TransactionRules
from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.errors import (
    BrokerError,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidTxnState,
    Malformed,
    MessageTooLarge,
    ProducerFenced,
    StorageFailed,
    TransactionAbortable,
    UnknownTopicOrPartition,
    refusal,
)
from broker_lite.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Offset, TopicPartition
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition
from broker_lite.records.batch import Batch
from broker_lite.records.build import build_lines

if TYPE_CHECKING:
    from broker_lite.broker.broker import Broker

log = get_logger(__name__)

FIRST_PRODUCE_ABORTABLE = 11
FIRST_PRODUCE_THAT_ADDS = 12
RESERVED_TO_END = 256
"""Bytes by which the record of an open transaction stays below the limit: the one that ends it is a little larger."""


class Transactions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        rules = TransactionRules(
            max_timeout_ms=settings.get(keys.TRANSACTION_MAX_TIMEOUT_MS),
            id_expiration_ms=settings.get(keys.TRANSACTIONAL_ID_EXPIRATION_MS),
        )
        self.coordinator = Coordinator(rules, broker.producer_ids.new, lambda: broker.features_on.level(TRANSACTIONS))
        self._markers = TransactionMarkers(broker, self.coordinator, self._write, self._state_partition)
        self._reconciler = Reconciler(broker, self.coordinator, self._markers, self.add_at_once, self._state_partition)
        self._epoch_ms = broker.clock.now_ms() - round(broker.clock.monotonic() * 1000)
        self._abort_at = 0.0
        self._expire_at = 0.0

    # ---- life

    def load(self) -> None:
        """Replay `__transaction_state`: to be called when the topics are open and before anybody is served."""
        for partition in self._broker.topics.open_partitions():
            if partition.tp.topic == TRANSACTION_STATE_TOPIC:
                # A record says all of its transactional id, so the last one of each is enough.
                for key, (offset, value) in latest_of_each_key(partition).items():
                    try:
                        self.coordinator.apply(Record(key, value))
                    except Malformed as error:
                        log.warning("transactions.record_skipped", offset=offset, reason=str(error))
        for transaction in self.coordinator:
            for producer_id in (
                transaction.producer_id,
                transaction.previous_producer_id,
                transaction.next_producer_id,
            ):
                self._broker.producer_ids.skip_past(producer_id)

    @property
    def ticks_every(self) -> float:
        """Seconds."""
        get = self._broker.settings.get
        abort_ms, expire_ms = (
            get(keys.TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS),
            get(keys.TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS),
        )
        return min(abort_ms, expire_ms) / 1000

    def now_ms(self) -> int:
        """The time by which transactions age; unlike the wall clock it cannot be set while the broker runs."""
        return self._epoch_ms + round(self._broker.clock.monotonic() * 1000)

    async def complete_prepared(self) -> None:
        """Complete what was decided before the last stop, then look whether partitions have something else open."""
        await self._markers.complete_all(self.coordinator.prepared())
        self._reconciler.run()

    async def tick(self) -> None:
        """Abort what has been open for too long, complete what is prepared, forget what nobody uses."""
        now, get = self._broker.clock.monotonic(), self._broker.settings.get
        if now >= self._abort_at:
            self._abort_at = now + get(keys.TRANSACTION_ABORT_TIMED_OUT_INTERVAL_MS) / 1000
            async with anyio.create_task_group() as aborts:
                for transactional_id in self.coordinator.timed_out(self.now_ms()):
                    aborts.start_soon(self._abort_timed_out, transactional_id)
        await self._markers.complete_all(self._markers.incomplete)
        if self._reconciler.is_due:
            self._reconciler.run()
        if now >= self._expire_at:
            self._expire_at = now + get(keys.TRANSACTION_REMOVE_EXPIRED_INTERVAL_MS) / 1000
            for transactional_id in self.coordinator.silent(self.now_ms()):
                self._forget(transactional_id)

    def _forget(self, transactional_id: str) -> None:
        try:
            self._write(transactional_id, self.coordinator.forget(transactional_id))
        except BrokerError as error:
            log.error("transactional_id.not_expired", transactional_id=transactional_id[:200], reason=error.message)
        else:
            log.info("transactional_id.expired", transactional_id=transactional_id[:200])

    async def _abort_timed_out(self, transactional_id: str) -> None:
        """Unless its transaction has ended since it was listed."""
        now_ms, transaction = self.now_ms(), self.coordinator.find(transactional_id)
        if transaction is None or not transaction.is_timed_out(now_ms):
            return
        log.warning(
            "transaction.timed_out",
            transactional_id=transactional_id[:200],
            producer_id=transaction.producer_id,
            open_for_ms=now_ms - transaction.started_ms,
            timeout_ms=transaction.timeout_ms,
            holds_up=sorted(str(tp) for tp in transaction.partitions)[:20],
        )
        try:
            await self._carry_out(transactional_id, self.coordinator.abort(transaction, now_ms))
        except BrokerError as error:
            log.error("transaction.not_aborted", transactional_id=transactional_id[:200], reason=error.message)

    def on_topic_deleted(self, topic: str) -> None:
        """Kafka lets `__transaction_state` be deleted: nobody knows any more who was in which transaction."""
        if topic == TRANSACTION_STATE_TOPIC:
            self._reconciler.end_all()
            self.coordinator.forget_all()
            self._markers.forget_all()

    # ---- what the APIs ask

    async def init(self, transactional_id: str, timeout_ms: int, given: Producer | None) -> Producer:
        decision = self.coordinator.init(transactional_id, timeout_ms, given, self.now_ms())
        producer = await self._carry_out(transactional_id, decision)
        if producer is None:
            raise ConcurrentTransactions(f"the open transaction of {transactional_id[:200]!r} was aborted, ask again")
        return producer

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> None:
        decision = self.coordinator.add_partitions(transactional_id, producer, frozenset(partitions), self.now_ms())
        await self._carry_out(transactional_id, decision)

    def add_at_once(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """The implicit add of KIP-890, in the same turn as the append that asks for it."""
        decision = self.coordinator.add_partitions(transactional_id, producer, frozenset([partition]), self.now_ms())
        self._write(transactional_id, decision)

    def verifier(self, transactional_id: str, partition: Partition, version: int) -> Callable[[Batch], None]:
        """Asked in the same turn as the append: may this batch open a transaction in the partition (KIP-890)?"""

        def verify(batch: Batch) -> None:
            producer = Producer(batch.producer_id, batch.producer_epoch)
            try:
                if version >= FIRST_PRODUCE_THAT_ADDS:
                    self.add_at_once(transactional_id, producer, partition.tp)
                elif self._broker.settings.get(keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE):
                    self.coordinator.verify(transactional_id, producer, partition.tp)
            except ProducerFenced as error:
                raise InvalidProducerEpoch(error.message) from None
            except TransactionAbortable as error:
                if version < FIRST_PRODUCE_ABORTABLE:
                    raise InvalidTxnState(error.message) from None
                raise
            except ConcurrentTransactions as error:
                # Old producers retry this without asking for metadata first.
                if version < FIRST_PRODUCE_THAT_ADDS:
                    raise refusal(ErrorCode.NOT_ENOUGH_REPLICAS, error.message) from None
                raise

        return verify

    def check_offsets(self, transactional_id: str, producer: Producer, group: str, *, implicit: bool) -> None:
        """May this producer commit offsets of `group` in its transaction? `implicit`: asking adds them (KIP-890)."""
        try:
            if implicit:
                self.add_at_once(transactional_id, producer, self.offsets_partition(group))
            else:
                self.coordinator.verify(transactional_id, producer, self.offsets_partition(group))
        except ProducerFenced as error:
            raise InvalidProducerEpoch(error.message) from None
        except ConcurrentTransactions as error:
            if implicit:
                raise
            raise CoordinatorNotAvailable(error.message) from None

    async def offsets_durable(self, transactional_id: str, group: str) -> None:
        if self._broker.flusher.active:
            partitions = (self._state_partition(transactional_id), self._partition(self.offsets_partition(group)))
            places = [(partition, partition.offsets.end) for partition in partitions]
            for place in places:
                await self._durable(*place)

    async def write_marker(
        self, tp: TopicPartition, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, version: int
    ) -> None:
        """For another coordinator, or for somebody who aborts a hanging transaction by hand."""
        place = self._markers.append(
            tp, producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, version=version
        )
        await self._broker.flusher.durable(*place)

    async def add_offsets(self, transactional_id: str, producer: Producer, group: str) -> None:
        await self.add_partitions(transactional_id, producer, [self.offsets_partition(group)])

    def offsets_partition(self, group: str) -> TopicPartition:
        return TopicPartition(GROUP_OFFSETS_TOPIC, self._broker.groups.partition_of(group))

    async def end(self, transactional_id: str, producer: Producer, *, commit: bool, version: int) -> Producer:
        decision = self.coordinator.end(
            transactional_id, producer, commit=commit, version=version, now_ms=self.now_ms()
        )
        return await self._carry_out(transactional_id, decision)

    # ---- carrying out

    async def _carry_out(self, transactional_id: str, decision: Decision[Reply]) -> Reply:
        """What is decided is carried out to the end, even if the one who asked has hung up.

        Once Prepare is on disk the answer is the decision's reply, as in Kafka: markers that are refused are retried.
        """
        with anyio.CancelScope(shield=True):
            written = self._write(transactional_id, decision)
            if written is not None:
                await self._markers.complete(transactional_id)  # if that was Prepare
                await self._durable(*written)
            elif self._broker.flusher.active:
                # A repeat, and what it repeats may still be on its way to the disk.
                partition = self._state_partition(transactional_id)
                await self._durable(partition, partition.offsets.end)
        return decision.reply

    async def _durable(self, partition: Partition, upto: Offset) -> None:
        """Nobody knows whether what could not be synced is there: whoever asked has to ask again."""
        try:
            await self._broker.flusher.durable(partition, upto)
        except UnknownTopicOrPartition:
            raise refusal(ErrorCode.NOT_COORDINATOR, f"{partition.tp.topic} was deleted") from None
        except StorageFailed as error:
            raise CoordinatorNotAvailable(f"{partition.tp} cannot be synced: {error.message}") from error

    def _partition(self, tp: TopicPartition) -> Partition:
        return self._broker.topics.partition(tp.topic, tp.partition)

    def _state_partition(self, transactional_id: str) -> Partition:
        topic = self._broker.internal_topic(TRANSACTION_STATE_TOPIC)
        return self._broker.topics.partition(topic.name, partition_of(transactional_id, topic.partition_count))

    def _write(self, transactional_id: str, decision: Decision[Reply]) -> tuple[Partition, Offset] | None:
        """Write, apply. What cannot be written was never decided. Where it was written; None if nothing was."""
        if not decision.records:
            return None
        now_ms = self._broker.clock.now_ms()
        batch = build_lines(decision.records, timestamp=now_ms)
        try:
            partition = self._state_partition(transactional_id)
            if len(batch) > partition.settings.rules.max_message_bytes - RESERVED_TO_END and _is_ongoing(decision):
                raise MessageTooLarge(f"the record has {len(batch)} bytes, and its transaction could never end")
            appended = partition.append_internal(batch, now_ms=now_ms)
        except BrokerError as error:
            raise coordinator_error(error) from error
        self._broker.appended(partition)
        for record in decision.records:
            self.coordinator.apply(record)
        return partition, appended.end


def _is_ongoing(decision: Decision[Reply]) -> bool:
    _, transaction = decision.records[0].spoken or (None, None)
    return isinstance(transaction, Transaction) and transaction.state is State.ONGOING
