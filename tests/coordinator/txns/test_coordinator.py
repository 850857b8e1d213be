from __future__ import annotations

import itertools

import pytest

from broker_lite.coordinator.decision import Decision, Record, Reply
from broker_lite.coordinator.txns import schemas
from broker_lite.coordinator.txns.coordinator import Coordinator, Producer, TransactionRules
from broker_lite.coordinator.txns.state import LAST_USABLE_EPOCH, State, Transaction
from broker_lite.errors import (
    BrokerError,
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

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD, NEW = 0, 2
"""Transaction versions: without and with a raised epoch at every end."""


class Script:
    """A coordinator with its log: every decision is written and applied at once."""

    def __init__(self) -> None:
        self.ids = itertools.count(1000)
        self.log: list[Record] = []
        self.coordinator = self._fresh()
        self.now_ms = 1_000_000

    def _fresh(self) -> Coordinator:
        return Coordinator(TransactionRules(), lambda: next(self.ids))

    def does(self, decision: Decision[Reply]) -> Reply:
        for record in decision.records:
            self.log.append(Record(record.key, record.value))
            self.coordinator.apply(record)
        return decision.reply

    def init(self, given: Producer | None = None, timeout_ms: int = 60_000) -> Producer | None:
        return self.does(self.coordinator.init("x", timeout_ms, given, self.now_ms))

    def begin(self) -> Producer:
        producer = self.init()
        assert producer is not None
        return producer

    def add(self, producer: Producer, *partitions: TopicPartition) -> None:
        self.does(self.coordinator.add_partitions("x", producer, frozenset(partitions), self.now_ms))

    def prepare(self, producer: Producer, *, commit: bool = True, version: int = OLD) -> Producer:
        return self.does(self.coordinator.end("x", producer, commit=commit, version=version, now_ms=self.now_ms))

    def complete(self) -> None:
        self.does(self.coordinator.complete(self.now, self.now_ms))

    def end(self, producer: Producer, *, commit: bool = True, version: int = OLD) -> Producer:
        following = self.prepare(producer, commit=commit, version=version)
        if self.now.state.is_prepared:
            self.complete()
        return following

    @property
    def now(self) -> Transaction:
        return self.coordinator.get("x")

    def put(self, transaction: Transaction) -> None:
        self.coordinator.apply(schemas.write(transaction))

    def restart(self) -> None:
        self.coordinator = self._fresh()
        for record in self.log:
            self.coordinator.apply(record)


@pytest.fixture
def script() -> Script:
    return Script()


# ---- a producer begins


def test_a_new_id_gets_a_producer_id_and_epoch_zero(script: Script) -> None:
    assert script.init() == Producer(1000, 0)
    assert script.now.state is State.EMPTY


def test_the_next_producer_of_an_id_gets_the_next_epoch(script: Script) -> None:
    script.begin()
    assert script.init() == Producer(1000, 1)


def test_an_empty_id_and_a_foolish_time_out_are_refused(script: Script) -> None:
    with pytest.raises(InvalidRequest):
        script.coordinator.init("", 1000, None, 0)
    for timeout in (0, -1, 900_001):
        with pytest.raises(InvalidTransactionTimeout):
            script.init(timeout_ms=timeout)


def test_an_open_transaction_is_aborted_and_its_producer_fenced_when_another_comes(script: Script) -> None:
    old = script.begin()
    script.add(old, P0)
    assert script.init() is None, "the newcomer is told to ask again"
    assert script.now.state is State.PREPARE_ABORT
    assert script.now.epoch == old.epoch + 1, "the markers carry the epoch that fences"
    with pytest.raises(ConcurrentTransactions):
        script.init()
    script.complete()
    assert script.init() == Producer(old.id, old.epoch + 2)
    with pytest.raises(ProducerFenced):
        script.add(old, P0)


def test_a_fenced_producer_may_abort_what_was_aborted_but_never_commit_it(script: Script) -> None:
    """As Apache Kafka 4.3.1 answers: who comes with the epoch before is told how its transaction ended."""
    old = script.begin()
    script.add(old, P0)
    script.end(old, version=NEW)
    old = Producer(old.id, old.epoch + 1)
    script.add(old, P0)
    script.init()
    with pytest.raises(ConcurrentTransactions):
        script.prepare(old, commit=False, version=NEW)
    script.complete()
    with pytest.raises(InvalidTxnState):
        script.prepare(old, commit=True, version=NEW)
    assert script.prepare(old, commit=False, version=NEW) == Producer(old.id, old.epoch + 1)
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            script.prepare(old, commit=commit, version=OLD)
    script.begin()
    with pytest.raises(ProducerFenced):
        script.prepare(old, commit=False, version=NEW)


def test_a_producer_that_aborts_its_own_open_transaction_by_starting_anew_asks_twice(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    assert script.init(given=mine) is None
    script.complete()
    assert script.init(given=mine) == Producer(mine.id, mine.epoch + 1), "the raised epoch is its own"
    assert script.init(given=mine) == Producer(mine.id, mine.epoch + 1)


@pytest.mark.parametrize("commit", [True, False])
def test_each_generation_repeats_only_its_own_end(script: Script, commit: bool) -> None:
    first = script.begin()
    script.add(first, P0)
    script.end(first, commit=commit, version=OLD)
    assert script.prepare(first, commit=commit, version=OLD) == first
    with pytest.raises(InvalidTxnState):
        script.prepare(first, commit=True, version=NEW)
    second = script.end(first, commit=False, version=NEW)
    assert second == Producer(first.id, first.epoch + 1), "nothing was open: a fresh epoch"
    with pytest.raises(ProducerFenced):
        script.prepare(first, commit=False, version=OLD)
    assert script.prepare(second, commit=False, version=OLD) == second
    with pytest.raises(InvalidTxnState):
        script.prepare(second, commit=True, version=OLD)


def test_a_producer_that_goes_on_after_an_error_keeps_its_id(script: Script) -> None:
    mine = script.begin()
    again = script.init(given=mine)
    assert again == Producer(mine.id, 1)
    assert script.init(given=mine) == again, "the answer was lost and the request repeated: no second bump"


def test_a_producer_with_an_old_epoch_or_a_foreign_id_is_fenced(script: Script) -> None:
    mine = script.begin()
    script.init()
    script.init()
    with pytest.raises(ProducerFenced):
        script.init(given=mine)
    with pytest.raises(ProducerFenced):
        script.init(given=Producer(77, 0))


def test_when_the_epochs_are_used_up_there_is_a_new_producer_id(script: Script) -> None:
    mine = script.begin()
    script.put(Transaction("x", mine.id, LAST_USABLE_EPOCH, 60_000, script.now_ms))
    fresh = script.init(given=Producer(mine.id, LAST_USABLE_EPOCH))
    assert fresh == Producer(1001, 0)
    assert script.now.previous_producer_id == mine.id


# ---- a transaction grows


def test_adding_partitions_opens_the_transaction(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    script.now_ms += 5
    script.add(mine, P1)
    assert script.now.state is State.ONGOING
    assert script.now.partitions == {P0, P1}
    assert script.now.started_ms == script.now_ms - 5


def test_adding_what_is_there_writes_nothing(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0, P1)
    written = len(script.log)
    script.add(mine, P1)
    assert len(script.log) == written


@pytest.mark.parametrize("epoch", [0, 2])
def test_neither_an_older_nor_a_newer_epoch_may_add(script: Script, epoch: int) -> None:
    script.begin()
    mine = script.begin()
    assert mine.epoch == 1
    with pytest.raises(ProducerFenced):
        script.add(Producer(mine.id, epoch), P0)


def test_an_unknown_id_and_a_foreign_producer_may_not_add(script: Script) -> None:
    with pytest.raises(InvalidProducerIdMapping):
        script.add(Producer(1, 0), P0)
    script.begin()
    with pytest.raises(InvalidProducerIdMapping):
        script.add(Producer(1, 0), P0)


def test_nothing_is_added_while_the_last_transaction_is_being_completed(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    script.prepare(mine)
    with pytest.raises(ConcurrentTransactions):
        script.add(mine, P1)


def test_a_partition_is_verified_only_while_it_is_in_the_transaction(script: Script) -> None:
    mine = script.begin()
    with pytest.raises(TransactionAbortable):
        script.coordinator.verify("x", mine, P0)
    script.add(mine, P0)
    script.coordinator.verify("x", mine, P0)
    with pytest.raises(TransactionAbortable):
        script.coordinator.verify("x", mine, P1)
    script.end(mine)
    with pytest.raises(TransactionAbortable):
        script.coordinator.verify("x", mine, P0)


# ---- the old way to end: the epoch stays


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_can_be_repeated_but_not_turned_round(script: Script, commit: bool) -> None:
    mine = script.begin()
    script.add(mine, P0)
    assert script.prepare(mine, commit=commit) == mine
    with pytest.raises(ConcurrentTransactions):
        script.prepare(mine, commit=commit)
    with pytest.raises(InvalidTxnState):
        script.prepare(mine, commit=not commit)
    script.complete()
    assert script.now.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert script.prepare(mine, commit=commit) == mine
    with pytest.raises(InvalidTxnState):
        script.prepare(mine, commit=not commit)


@pytest.mark.parametrize("commit", [True, False])
def test_nothing_was_begun_so_nothing_can_be_ended(script: Script, commit: bool) -> None:
    mine = script.begin()
    with pytest.raises(InvalidTxnState):
        script.prepare(mine, commit=commit)


@pytest.mark.parametrize(
    ("producer", "refused"),
    [
        (Producer(1, 0), InvalidProducerIdMapping),
        (Producer(1000, 1), ProducerFenced),
        (Producer(1000, -1), ProducerFenced),
    ],
)
def test_only_the_holder_may_end(script: Script, producer: Producer, refused: type[BrokerError]) -> None:
    script.add(script.begin(), P0)
    with pytest.raises(refused):
        script.prepare(producer)


# ---- the new way to end: the epoch rises


def test_every_end_raises_the_epoch_and_the_markers_have_it(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    following = script.prepare(mine, version=NEW)
    assert following == Producer(mine.id, 1)
    assert script.now.epoch == 1
    script.complete()
    script.add(following, P0)
    assert script.end(following, commit=False, version=NEW) == Producer(mine.id, 2)


def test_a_repeated_end_with_the_old_epoch_gets_the_same_answer(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    following = script.prepare(mine, version=NEW)
    with pytest.raises(ConcurrentTransactions):
        script.prepare(mine, version=NEW)
    script.complete()
    assert script.prepare(mine, version=NEW) == following
    with pytest.raises(InvalidTxnState):
        script.prepare(mine, commit=False, version=NEW)


def test_a_repeated_end_is_known_after_a_restart(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    following = script.end(mine, version=NEW)
    script.restart()
    assert script.prepare(mine, version=NEW) == following


def test_aborting_nothing_brings_a_fresh_epoch_but_committing_nothing_is_refused(script: Script) -> None:
    mine = script.begin()
    with pytest.raises(InvalidTxnState):
        script.prepare(mine, version=NEW)
    following = script.end(mine, commit=False, version=NEW)
    assert following == Producer(mine.id, 1)
    assert script.end(following, commit=False, version=NEW) == Producer(mine.id, 2)
    with pytest.raises(InvalidTxnState):
        script.prepare(Producer(mine.id, 2), version=NEW)


def test_a_producer_out_of_epochs_goes_on_under_a_new_id(script: Script) -> None:
    mine = Producer(script.begin().id, LAST_USABLE_EPOCH)
    script.put(Transaction("x", mine.id, mine.epoch, 60_000, script.now_ms))
    script.add(mine, P0)
    following = script.prepare(mine, version=NEW)
    assert following == Producer(1001, 0)
    assert (script.now.producer_id, script.now.epoch) == (mine.id, 32767), "the markers belong to the old id"
    script.complete()
    assert (script.now.producer_id, script.now.epoch) == (1001, 0)
    assert script.prepare(mine, version=NEW) == following, "a retry"


# What Kafka 4.3.1 answered when its epochs were used up: 32766 starts under each of eight ids, and then this.


@pytest.fixture
def at_the_last_epoch(script: Script) -> Producer:
    mine = Producer(script.begin().id, LAST_USABLE_EPOCH)
    script.put(Transaction("x", mine.id, mine.epoch, 60_000, script.now_ms))
    return mine


def test_the_last_usable_epoch_is_reached_by_an_end(script: Script) -> None:
    mine = Producer(script.begin().id, LAST_USABLE_EPOCH - 1)
    script.put(Transaction("x", mine.id, mine.epoch, 60_000, script.now_ms))
    script.add(mine, P0)
    last = script.end(mine, version=NEW)
    assert last == Producer(mine.id, LAST_USABLE_EPOCH)
    script.add(last, P0)
    assert script.end(last, version=NEW) == Producer(1001, 0)


def test_who_names_nobody_gets_a_new_id_too(script: Script, at_the_last_epoch: Producer) -> None:
    assert [script.init(), script.init()] == [Producer(1001, 0), Producer(1001, 1)]


def test_a_start_that_is_repeated_gets_the_same_new_id_until_somebody_used_it(
    script: Script, at_the_last_epoch: Producer
) -> None:
    assert script.init(given=at_the_last_epoch) == Producer(1001, 0)
    assert script.init(given=at_the_last_epoch) == Producer(1001, 0)
    assert script.init(given=Producer(1001, 0)) == Producer(1001, 1)
    with pytest.raises(ProducerFenced):
        script.init(given=at_the_last_epoch)


def test_an_old_client_ends_its_last_transaction_under_the_old_id(script: Script, at_the_last_epoch: Producer) -> None:
    script.add(at_the_last_epoch, P0)
    script.end(at_the_last_epoch, version=OLD)
    assert script.init() == Producer(1001, 0)


def test_the_end_of_the_last_transaction_may_be_repeated_but_not_turned_round(
    script: Script, at_the_last_epoch: Producer
) -> None:
    script.add(at_the_last_epoch, P0)
    assert script.end(at_the_last_epoch, version=NEW) == Producer(1001, 0)
    assert script.end(at_the_last_epoch, version=NEW) == Producer(1001, 0)
    with pytest.raises(InvalidTxnState):
        script.end(at_the_last_epoch, commit=False, version=NEW)
    with pytest.raises(InvalidProducerIdMapping):
        script.add(at_the_last_epoch, P0)
    script.add(Producer(1001, 0), P0)
    assert script.end(Producer(1001, 0), version=NEW) == Producer(1001, 1)
    with pytest.raises(InvalidProducerIdMapping):
        script.end(at_the_last_epoch, version=NEW)


def test_a_successor_fences_with_the_last_epoch_and_nobody_ever_gets_it(
    script: Script, at_the_last_epoch: Producer
) -> None:
    script.add(at_the_last_epoch, P0)
    assert script.init() is None
    assert (script.now.producer_id, script.now.epoch) == (at_the_last_epoch.id, 32767), "the markers fence the old id"
    script.complete()
    assert script.init() == Producer(1001, 1), "the abort already brought the new id"
    for refused in (lambda: script.add(at_the_last_epoch, P0), lambda: script.end(at_the_last_epoch, version=OLD)):
        with pytest.raises(InvalidProducerIdMapping):
            refused()


def test_a_producer_that_aborts_its_own_by_starting_anew_gets_the_new_id(
    script: Script, at_the_last_epoch: Producer
) -> None:
    script.add(at_the_last_epoch, P0)
    assert script.init(given=at_the_last_epoch) is None
    script.complete()
    assert script.init(given=at_the_last_epoch) == Producer(1001, 0)
    assert script.init() == Producer(1001, 1)


def test_aborting_nothing_with_the_last_epoch_brings_a_new_id(script: Script, at_the_last_epoch: Producer) -> None:
    following = script.end(at_the_last_epoch, commit=False, version=NEW)
    assert following == Producer(1001, 0)
    assert script.end(following, commit=False, version=NEW) == Producer(1001, 1)


def test_a_time_out_in_the_last_epoch_moves_to_a_new_id(script: Script, at_the_last_epoch: Producer) -> None:
    script.add(at_the_last_epoch, P0)
    script.does(script.coordinator.abort(script.now, script.now_ms + 60_001))
    assert script.now.epoch == 32767
    script.complete()
    assert (script.now.producer_id, script.now.epoch) == (1001, 0)


# ---- time and restart


def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_fenced(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0)
    assert script.coordinator.timed_out(script.now_ms + 60_000) == []
    assert script.coordinator.timed_out(script.now_ms + 60_001) == ["x"]
    script.does(script.coordinator.abort(script.now, script.now_ms + 60_001))
    assert script.now.state is State.PREPARE_ABORT
    script.complete()
    with pytest.raises(ProducerFenced):
        script.add(mine, P0)


def test_an_id_that_nobody_uses_is_forgotten_but_never_an_open_transaction(script: Script) -> None:
    mine = script.begin()
    week = script.coordinator.rules.id_expiration_ms
    assert script.coordinator.silent(script.now_ms + week) == ["x"]
    script.add(mine, P0)
    assert script.coordinator.silent(script.now_ms + week) == []
    script.end(mine)
    script.does(script.coordinator.forget("x"))
    with pytest.raises(TransactionalIdNotFound):
        script.coordinator.get("x")
    script.restart()
    assert script.coordinator.find("x") is None


def test_a_restart_finds_what_was_decided_and_not_completed(script: Script) -> None:
    mine = script.begin()
    script.add(mine, P0, P1)
    script.prepare(mine, version=NEW)
    before = script.now
    script.restart()
    assert script.coordinator.prepared() == ["x"]
    found = script.now
    assert found.partitions == {P0, P1}
    assert (found.state, found.epoch, found.version) == (before.state, before.epoch, before.version)
