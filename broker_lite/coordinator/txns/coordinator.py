"""The transaction coordinator: every rule of who may begin, add to and end a transaction.

Each operation looks at the state and returns a `Decision`: the record that makes the next state true, and the reply.
Nothing changes until the record is written and handed to `apply`.  Refusals carry the newest code; what older versions
of an API say instead is the API's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from broker_lite.coordinator.decision import Decision, Record, Reply
from broker_lite.coordinator.txns import schemas
from broker_lite.coordinator.txns.state import BUMPING, LAST_USABLE_EPOCH, NO_EPOCH, NO_PRODUCER, State, Transaction
from broker_lite.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from broker_lite.ids import TopicPartition
from broker_lite.shapes import dataclass


@dataclass(frozen=True, slots=True)
class Producer:
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionRules:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000


class Coordinator:
    def __init__(
        self, rules: TransactionRules, new_producer_id: Callable[[], int], level: Callable[[], int] = lambda: 2
    ) -> None:
        self.rules = rules
        self._new_producer_id = new_producer_id
        self._level = level
        """How far the feature `transaction.version` is switched on now."""
        self._transactions: dict[str, Transaction] = {}

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def apply(self, record: Record) -> None:
        known = record.spoken or schemas.read(record.key, record.value)
        if known is not None:
            name, transaction = cast("tuple[str, Transaction | None]", known)
            if transaction is None:
                self._transactions.pop(name, None)
            else:
                self._transactions[name] = transaction

    def forget_all(self) -> None:
        self._transactions.clear()

    def find(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def get(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id[:200]!r}")
        return transaction

    # ---- a producer begins

    def init(
        self, transactional_id: str, timeout_ms: int, given: Producer | None, now_ms: int
    ) -> Decision[Producer | None]:
        """The identity under which the producer writes. None: its open transaction is being aborted, ask again."""
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        if not 0 < timeout_ms <= self.rules.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction time-out of {timeout_ms} ms is not between 1 and {self.rules.max_timeout_ms}"
            )
        now = self._transactions.get(transactional_id)
        if now is None:
            fresh = Transaction(transactional_id, self._new_producer_id(), 0, timeout_ms, now_ms)
            return self._decide(fresh, Producer(fresh.producer_id, 0))
        if given is not None and not _may_continue(now, given):
            raise ProducerFenced(
                f"producer {given.id} does not hold {transactional_id[:200]!r}, {now.producer_id} does"
            )
        if now.state.is_prepared:
            raise ConcurrentTransactions(f"the last transaction of {transactional_id[:200]!r} is being completed")
        if now.state is State.ONGOING:
            return self._decide(self._fenced(now, now_ms), None)
        renewed = self._renew(now, timeout_ms, given, now_ms)
        return self._decide(renewed, Producer(renewed.producer_id, renewed.epoch))

    def _renew(self, now: Transaction, timeout_ms: int, given: Producer | None, now_ms: int) -> Transaction:
        if now.exhausted and (given is None or given.epoch == now.epoch):
            last_epoch = NO_EPOCH if given is None else now.epoch
            producer_id, epoch = self._new_producer_id(), 0
        elif given is None:
            producer_id, epoch, last_epoch = now.producer_id, now.epoch + 1, NO_EPOCH
        elif given.epoch == now.epoch:
            producer_id, epoch, last_epoch = now.producer_id, now.epoch + 1, now.epoch
        elif given.epoch == now.last_epoch:
            # A retry of a request whose answer was lost: nobody else has come in between, or `last_epoch` were unset.
            producer_id, epoch, last_epoch = now.producer_id, now.epoch, now.last_epoch
        else:
            raise ProducerFenced(f"{now.id[:200]!r} is at epoch {now.epoch}, the producer comes with {given.epoch}")
        return now.renewed(
            producer_id=producer_id, epoch=epoch, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
        )

    # ---- a transaction grows

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], now_ms: int
    ) -> Decision[None]:
        now = self._held_by(transactional_id, producer)
        if now.state.is_prepared:
            raise ConcurrentTransactions(f"the last transaction of {transactional_id[:200]!r} is being completed")
        if now.state is State.ONGOING and partitions <= now.partitions:
            return Decision(None)
        return self._decide(now.with_partitions(partitions, now_ms), None)

    def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """Is `partition` part of the producer's open transaction? Otherwise TransactionAbortable (KIP-890)."""
        now = self._held_by(transactional_id, producer)
        if now.state.is_prepared:
            raise ConcurrentTransactions(f"the last transaction of {transactional_id[:200]!r} is being completed")
        if now.state is not State.ONGOING or partition not in now.partitions:
            raise TransactionAbortable(f"{partition} was not added to the transaction of {transactional_id[:200]!r}")

    def _held_by(self, transactional_id: str, producer: Producer) -> Transaction:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        now = self._transactions.get(transactional_id)
        if now is None or now.producer_id != producer.id:
            raise InvalidProducerIdMapping(f"producer {producer.id} does not hold {transactional_id[:200]!r}")
        if now.epoch != producer.epoch:
            raise ProducerFenced(
                f"producer {producer.id} is at epoch {now.epoch}, the request comes with {producer.epoch}"
            )
        return now

    # ---- a transaction ends

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, version: int, now_ms: int
    ) -> Decision[Producer]:
        """`version` is the transaction version of the client: from 2 on the reply carries a raised epoch."""
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        now = self._transactions.get(transactional_id)
        if now is None:
            raise InvalidProducerIdMapping(f"there is no transactional id {transactional_id[:200]!r}")
        # An old client knows nothing of raised epochs: it has to come with the present one.
        repeated = version >= BUMPING and _is_repeated_end(now, producer)
        if now.producer_id != producer.id and not repeated:
            raise InvalidProducerIdMapping(f"producer {producer.id} does not hold {transactional_id[:200]!r}")
        if now.epoch != producer.epoch and not repeated:
            raise ProducerFenced(
                f"producer {producer.id} is at epoch {now.epoch}, the request comes with {producer.epoch}"
            )
        if now.bumps and now.state.is_prepared and not repeated:
            raise ProducerFenced(f"producer {producer.id} has ended its transaction with an older epoch")
        if now.state is State.ONGOING:
            return self._prepare(now, commit=commit, version=version, now_ms=now_ms)
        if now.state.is_prepared:
            if commit != (now.state is State.PREPARE_COMMIT):
                raise _wrong_state(now, commit)
            raise ConcurrentTransactions(f"the last transaction of {transactional_id[:200]!r} is being completed")
        if now.state.is_complete and (repeated or version < BUMPING):
            if commit != (now.state is State.COMPLETE_COMMIT):
                raise _wrong_state(now, commit)
            return Decision(Producer(now.producer_id, now.epoch))
        if commit or version < BUMPING:
            raise _wrong_state(now, commit)
        # KIP-890: aborting before anything was added is allowed, and brings a fresh epoch.
        return self._prepare(now, commit=False, version=version, now_ms=now_ms)

    def _prepare(self, now: Transaction, *, commit: bool, version: int, now_ms: int) -> Decision[Producer]:
        moves_on = version >= BUMPING and now.exhausted
        next_id = self._new_producer_id() if moves_on else NO_PRODUCER
        prepared = now.prepared(commit=commit, version=version, next_producer_id=next_id, fence=False, now_ms=now_ms)
        reply = Producer(next_id, 0) if moves_on else Producer(prepared.producer_id, prepared.epoch)
        return self._decide(prepared, reply)

    def complete(self, transaction: Transaction, now_ms: int) -> Decision[None]:
        """All markers of `transaction` are written, which must be what is prepared now."""
        self._check_current(transaction)
        return self._decide(transaction.completed(now_ms), None)

    def _fenced(self, now: Transaction, now_ms: int) -> Transaction:
        # Version 0: the EndTxn of the fenced producer, one epoch below, is not the request that raised the epoch.
        # The last epoch is for fencing only: whoever comes next gets a new producer id, as in Kafka.
        next_id = self._new_producer_id() if now.exhausted else NO_PRODUCER
        return now.prepared(commit=False, version=0, next_producer_id=next_id, fence=True, now_ms=now_ms)

    # ---- time

    def prepared(self) -> list[str]:
        """Decided but not completed: after a restart their markers are to be written again."""
        return [transaction.id for transaction in self if transaction.state.is_prepared]

    def timed_out(self, now_ms: int) -> list[str]:
        return [transaction.id for transaction in self if transaction.is_timed_out(now_ms)]

    def abort(self, transaction: Transaction, now_ms: int) -> Decision[None]:
        """Decide against the producer of `transaction`, which must be open now; it is fenced by the raised epoch."""
        self._check_current(transaction)
        return self._decide(self._fenced(transaction, now_ms), None)

    def is_current(self, transaction: Transaction) -> bool:
        """Whether nothing has been decided about its transactional id since it was looked up."""
        return self._transactions.get(transaction.id) is transaction

    def _check_current(self, transaction: Transaction) -> None:
        assert self.is_current(transaction), f"{transaction.id}: {transaction.state.label} is not its state any more"

    def silent(self, now_ms: int) -> list[str]:
        """Ids that nobody has used for long."""
        return [
            transaction.id
            for transaction in self
            if (transaction.state is State.EMPTY or transaction.state.is_complete)
            and transaction.updated_ms + self.rules.id_expiration_ms <= now_ms
        ]

    def forget(self, transactional_id: str) -> Decision[None]:
        return Decision(None, records=[schemas.tombstone(transactional_id)])

    def _decide(self, following: Transaction, reply: Reply) -> Decision[Reply]:
        return Decision(reply, records=[schemas.write(following, self._level())])


def _may_continue(now: Transaction, given: Producer) -> bool:
    """KIP-360: the holder, or the holder before a change of producer id whose answer was lost."""
    return given.id == now.producer_id or (given.id == now.previous_producer_id and given.epoch >= LAST_USABLE_EPOCH)


def _is_repeated_end(now: Transaction, producer: Producer) -> bool:
    """Is this the request again whose answer raised the epoch, or moved the producer to a new id?"""
    if not (now.state.is_prepared or now.state.is_complete):
        return False
    raised = producer.id == now.producer_id and producer.epoch + 1 == now.epoch
    moved = (
        now.state.is_complete
        and producer.id == now.previous_producer_id
        and producer.epoch == LAST_USABLE_EPOCH
        and now.epoch == 0
    )
    return raised or moved


def _wrong_state(now: Transaction, commit: bool) -> InvalidTxnState:
    return InvalidTxnState(f"{now.id[:200]!r} is in {now.state.label} and cannot {'commit' if commit else 'abort'}")
