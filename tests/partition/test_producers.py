"""Who wrote what: repeats, order, epochs, and what is forgotten."""

from __future__ import annotations

import pytest

from broker_lite.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from broker_lite.partition.producers import Draft, Duplicate, Origin, Producers
from broker_lite.records.batch import Batch
from broker_lite.records.build import NewRecord, build_batch

LAST = 2**31 - 1


def batch(
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    timestamp: int = 1000,
    transactional: bool = False,
) -> Batch:
    return Batch.at(
        build_batch(
            [NewRecord(None, b"x")] * count,
            timestamp=timestamp,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


class Table:
    """A table and the offset of the next batch, so that tests read as appends."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.end = 0

    def append(self, one: Batch, origin: Origin = Origin.CLIENT) -> int:
        """The base offset that the producer is told."""
        decided = self.producers.check(one, origin=origin)
        if isinstance(decided, Duplicate):
            return decided.original.base_offset
        base = self.end
        self.producers.apply(decided, base)
        self.end += one.count
        return base


@pytest.fixture
def table() -> Table:
    return Table()


def test_batches_in_order_are_taken(table: Table) -> None:
    assert [table.append(batch(0, 3)), table.append(batch(3, 2)), table.append(batch(5))] == [0, 3, 5]


def test_a_repeat_is_answered_with_its_first_offset_and_written_once(table: Table) -> None:
    table.append(batch(0, 3))
    table.append(batch(3, 2))
    assert table.append(batch(0, 3)) == 0
    assert table.append(batch(3, 2)) == 3
    assert table.end == 5


def test_five_batches_in_flight_may_all_be_repeated(table: Table) -> None:
    for sequence in range(7):
        table.append(batch(sequence))
    assert [table.append(batch(sequence)) for sequence in range(2, 7)] == [2, 3, 4, 5, 6]


def test_a_batch_older_than_the_five_is_out_of_order(table: Table) -> None:
    for sequence in range(7):
        table.append(batch(sequence))
    with pytest.raises(OutOfOrderSequence):
        table.append(batch(1))


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (0, 4), (1, 2), (1, 3), (2, 2)])
def test_a_batch_that_only_overlaps_is_no_repeat(table: Table, sequence: int, count: int) -> None:
    table.append(batch(0, 3))
    with pytest.raises(OutOfOrderSequence):
        table.append(batch(sequence, count))


def test_a_gap_is_out_of_order_and_says_both_numbers(table: Table) -> None:
    table.append(batch(0, 20))
    with pytest.raises(OutOfOrderSequence, match="expected sequence 20, got 30"):
        table.append(batch(30))


def test_a_lower_epoch_is_refused(table: Table) -> None:
    table.append(batch(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        table.append(batch(1, epoch=2))


def test_a_repeat_of_an_older_epoch_is_refused_too(table: Table) -> None:
    table.append(batch(0, epoch=2))
    table.append(batch(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        table.append(batch(0, epoch=2))


def test_a_higher_epoch_starts_at_zero_and_forgets_the_window(table: Table) -> None:
    table.append(batch(0, 4))
    with pytest.raises(OutOfOrderSequence):
        table.append(batch(4, epoch=1))
    assert table.append(batch(0, 4, epoch=1)) == 4
    assert table.append(batch(4, epoch=1)) == 8


def test_after_the_last_sequence_comes_zero(table: Table) -> None:
    table.append(batch(LAST - 1, 2))
    assert table.append(batch(0)) == 2
    assert table.append(batch(LAST - 1, 2)) == 0


def test_one_batch_may_straddle_the_wrap_and_be_repeated(table: Table) -> None:
    table.append(batch(LAST - 1, 5))
    assert table.append(batch(LAST - 1, 5)) == 0
    with pytest.raises(OutOfOrderSequence):
        table.append(batch(2))
    assert table.append(batch(3)) == 5


def test_an_unknown_producer_may_start_anywhere(table: Table) -> None:
    assert table.append(batch(4711, producer=9, epoch=5)) == 0
    assert table.append(batch(4712, producer=9, epoch=5)) == 1


def test_producers_do_not_know_each_other(table: Table) -> None:
    table.append(batch(0, producer=1))
    table.append(batch(0, producer=2))
    assert table.append(batch(1, producer=1)) == 2


def test_check_changes_nothing(table: Table) -> None:
    table.producers.check(batch(0), origin=Origin.CLIENT)
    assert len(table.producers) == 0


def test_a_producer_is_forgotten_when_its_batches_are_old(table: Table) -> None:
    table.append(batch(0, timestamp=5000))
    assert table.producers.expire(5999, 1000) == 0
    assert table.producers.expire(6000, 1000) == 1
    assert table.append(batch(99)) == 1


def test_a_producer_with_an_open_transaction_is_never_forgotten(table: Table) -> None:
    table.append(batch(0, timestamp=5000, transactional=True))
    assert table.producers.expire(10**12, 1000) == 0


def test_coordinators_are_asked_for_their_epoch_only(table: Table) -> None:
    offsets = Origin.COORDINATOR
    table.append(batch(-1, 2, epoch=1), offsets)
    table.append(batch(-1, 2, epoch=1), offsets)
    assert table.end == 4
    with pytest.raises(InvalidProducerEpoch):
        table.append(batch(-1, epoch=0), offsets)


def test_a_plain_batch_inside_a_transaction_is_refused(table: Table) -> None:
    table.append(batch(0, transactional=True))
    with pytest.raises(InvalidTxnState):
        table.append(batch(1))


def test_only_the_first_batch_of_a_transaction_is_verified(table: Table) -> None:
    asked: list[int] = []

    def verify(one: Batch) -> None:
        asked.append(one.base_sequence)

    for sequence in (0, 1):
        decided = table.producers.check(
            batch(sequence, transactional=True), origin=Origin.CLIENT, verify_transaction=verify
        )
        assert isinstance(decided, Draft)
        table.producers.apply(decided, sequence)
    table.producers.check(batch(0, producer=8), origin=Origin.CLIENT, verify_transaction=verify)
    assert asked == [0]


def test_a_batch_of_another_epoch_than_the_open_transaction_is_verified(table: Table) -> None:
    table.append(batch(0, transactional=True))

    def verify(one: Batch) -> None:
        raise InvalidProducerEpoch(f"epoch {one.producer_epoch}")

    with pytest.raises(InvalidProducerEpoch):
        table.producers.check(batch(0, epoch=1, transactional=True), origin=Origin.CLIENT, verify_transaction=verify)


def test_a_repeat_after_the_end_of_its_transaction_is_verified_first(table: Table) -> None:
    table.append(batch(0, transactional=True))
    table.producers.apply_marker(7, 0, coordinator_epoch=0, timestamp=0)

    def verify(one: Batch) -> None:
        raise InvalidTxnState(f"nothing is open for producer {one.producer_id}")

    with pytest.raises(InvalidTxnState):
        table.producers.check(batch(0, transactional=True), origin=Origin.CLIENT, verify_transaction=verify)


def test_a_repeat_within_its_transaction_is_not_verified_again(table: Table) -> None:
    table.append(batch(0, transactional=True))

    def verify(one: Batch) -> None:
        raise AssertionError(one)

    repeat = table.producers.check(batch(0, transactional=True), origin=Origin.CLIENT, verify_transaction=verify)
    assert isinstance(repeat, Duplicate)


def test_after_a_marker_of_the_same_epoch_sequences_go_on(table: Table) -> None:
    table.append(batch(0, 3, transactional=True))
    assert table.producers.apply_marker(7, 0, coordinator_epoch=0, timestamp=0) == 0
    assert table.append(batch(0, 3, transactional=True)) == 0
    assert table.append(batch(3, transactional=True)) == 3


def test_after_a_marker_with_a_higher_epoch_sequences_start_at_zero(table: Table) -> None:
    table.append(batch(0, 3, transactional=True))
    table.producers.apply_marker(7, 1, coordinator_epoch=0, timestamp=0)
    with pytest.raises(InvalidProducerEpoch):
        table.append(batch(3, transactional=True))
    with pytest.raises(OutOfOrderSequence):
        table.append(batch(3, epoch=1, transactional=True))
    assert table.append(batch(0, epoch=1, transactional=True)) == 3


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(table: Table) -> None:
    table.producers.apply_marker(7, 0, coordinator_epoch=5, timestamp=0)
    table.producers.check_marker(7, 0, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        table.producers.check_marker(7, 0, coordinator_epoch=4)


def test_a_marker_with_an_older_epoch_is_refused(table: Table) -> None:
    table.append(batch(0, epoch=2, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        table.producers.check_marker(7, 1, coordinator_epoch=0)


def test_a_marker_of_version_2_needs_a_higher_epoch_than_the_records(table: Table) -> None:
    table.append(batch(0, epoch=2, transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        table.producers.check_marker(7, 2, coordinator_epoch=0, transaction_version=2)
    table.producers.check_marker(7, 3, coordinator_epoch=0, transaction_version=2)
    table.producers.check_marker(7, 2, coordinator_epoch=0, transaction_version=1)


def test_a_marker_of_version_2_may_repeat_itself(table: Table) -> None:
    table.append(batch(0, epoch=2, transactional=True))
    table.producers.apply_marker(7, 3, coordinator_epoch=0, timestamp=0)
    table.producers.check_marker(7, 3, coordinator_epoch=0, transaction_version=2)
    assert table.producers.apply_marker(7, 3, coordinator_epoch=0, timestamp=0) is None


def test_a_marker_without_records_still_fences(table: Table) -> None:
    assert table.producers.apply_marker(7, 4, coordinator_epoch=1, timestamp=0) is None
    with pytest.raises(InvalidProducerEpoch):
        table.append(batch(0, epoch=3, transactional=True))
