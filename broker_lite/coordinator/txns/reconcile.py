"""A transaction is open in a partition: does the coordinator know of it?

Normally always.  But a power cut may take the end of the transaction log and leave the records of a partition, which
are synced on their own: a partition then waits for a marker that nobody would ever send, and holds up every reader of
committed records.  So at each start what is open in partitions is held against what the coordinator remembers.

    its holder has gone on since Prepare    the marker is there; Complete comes first, then look again
    it knows, and the partition is in it    nothing to do
    same producer, same epoch               its holder is in a transaction: the partition is part of it (again)
    same producer, ended since              the marker was lost: the same one again
    anything else                           nobody can ever commit it: abort

The third rule matters for producers that add a partition by writing to it (KIP-890): their records may be safe before
the addition is.  To abort them would take away a part of a transaction whose rest can still be committed.  The first
one is for them, too: they go on with the epoch that Prepare gave them, and the power goes before Complete is safe.
"""

from __future__ import annotations

from enum import Enum

from broker_lite.coordinator.txns.state import State, Transaction
from broker_lite.ids import TopicPartition


class Verdict(Enum):
    KNOWN = "known"
    JOINS = "joins"
    COMMIT = "commit"
    ABORT = "abort"
    LATER = "later"


def judge(transaction: Transaction | None, partition: TopicPartition, epoch: int) -> Verdict:
    """`transaction` is what the producer holds; `epoch` is the one with which it wrote to the partition."""
    if transaction is None:
        return Verdict.ABORT
    if transaction.state.is_prepared and transaction.is_before(epoch):
        return Verdict.LATER
    going = transaction.state is State.ONGOING or transaction.state.is_prepared
    if going and partition in transaction.partitions:
        return Verdict.KNOWN
    if transaction.epoch == epoch and not transaction.state.is_prepared:
        return Verdict.JOINS
    ended_it = transaction.epoch in (epoch, epoch + 1)
    if ended_it and transaction.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT):
        return Verdict.COMMIT
    return Verdict.ABORT
