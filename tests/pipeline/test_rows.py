"""Rows as Spark gets them, without Spark."""

from __future__ import annotations

from pathlib import Path

from broker_lite.pipeline.rows import PIECE_BYTES, rows
from broker_lite.pipeline.slices import Place, Slice
from tests.pipeline.folders import Written, finish


def test_rows_come_in_small_pieces_none_left_out(tmp_path: Path) -> None:
    orders = Written(tmp_path, "orders")
    for _ in range(120):
        orders.add(2000)
    finish(tmp_path, [orders])
    found = list(rows(Slice(Place(path=str(tmp_path)), "orders", 0, 0, orders.next), ["key", "value", "offset"]))
    assert len(found) > 3
    assert max(one.nbytes for one in found) <= PIECE_BYTES + 1000  # each has one more offset than rows
    assert [offset for one in found for offset in one["offset"].to_pylist()] == list(range(orders.next))
