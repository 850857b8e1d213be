"""How far a read_committed reader may go."""

from __future__ import annotations

import pytest

from broker_lite.ids import Offset
from broker_lite.partition.offsets import Offsets
from broker_lite.partition.transactions import Transactions


def test_without_transactions_only_the_high_watermark_counts() -> None:
    assert Transactions().first_unstable(10) is None


def test_the_oldest_open_transaction_holds_readers_back() -> None:
    open_ = Transactions()
    open_.begin(1, 5)
    open_.begin(2, 8)
    assert open_.first_unstable(20) == 5
    ended = open_.end(1, 5, 10, commit=True)
    assert ended.stable_after == 8
    assert open_.first_unstable(20) == 8
    assert open_.end(2, 8, 11, commit=False).stable_after == 12
    assert open_.first_unstable(20) is None


def test_a_marker_that_is_not_safe_yet_decides_nothing() -> None:
    open_ = Transactions()
    open_.begin(1, 5)
    open_.end(1, 5, 10, commit=True)
    assert open_.first_unstable(10) == 5
    assert open_.first_unstable(11) is None


def test_a_decided_transaction_may_hold_readers_back_longer_than_an_open_one() -> None:
    open_ = Transactions()
    open_.begin(1, 5)
    open_.begin(2, 7)
    open_.end(1, 5, 10, commit=True)
    assert open_.first_unstable(9) == 5
    assert open_.first_unstable(11) == 7


def test_snapshots_may_be_loaded_in_any_order() -> None:
    open_ = Transactions()
    for producer, first in ((1, 9), (2, 3), (3, 6)):
        open_.begin(producer, first)
    assert open_.first_unstable(20) == 3
    assert open_.open_since() == {2: 3, 3: 6, 1: 9}


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": 5, "stable": 4, "high": 6, "end": 7},
        {"start": 1, "stable": 5, "high": 4, "end": 7},
        {"start": 1, "stable": 2, "high": 8, "end": 7},
        {"start": -1, "stable": 2, "high": 3, "end": 7},
    ],
)
def test_the_four_offsets_never_pass_each_other(wrong: dict[str, Offset]) -> None:
    with pytest.raises(AssertionError):
        Offsets(Offset(0), Offset(7)).move(**wrong)


def test_nothing_is_looked_for_once_no_transaction_holds_readers_back() -> None:
    open_ = Transactions()
    assert open_.idle
    open_.begin(7, 5)
    assert not open_.idle
    open_.end(7, 5, 10, commit=True)
    assert open_.first_unstable(10) == 5
    assert not open_.idle
    assert open_.first_unstable(11) is None
    assert open_.idle
