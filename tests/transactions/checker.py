"""Finds what must not happen in a history of transactions.

Thirteen anomalies, each by its own function, each giving sentences that name values and offsets.  Values are unique in
a history.  A transaction whose end nobody heard of is "maybe": it may be all there or not there at all, but never in
part.  Kafka promises no isolation of writes, so the order of two transactions' records is nobody's fault; only a cycle
of reads (a transaction that saw another one which, in the end, saw it) is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.transactions.history import History, Place, Txn


def check(history: History, *, copied: tuple[str, str] | None = None, total: int | None = None) -> list[str]:
    """Every anomaly found. `copied`: the second topic has to be a copy of the first; `total`: the sum of all money."""
    found: list[str] = []
    for name, anomaly in ANOMALIES.items():
        found += [f"{name}: {text}" for text in anomaly(history)]
    if copied is not None:
        found += [f"not a copy: {text}" for text in not_a_copy(history, *copied)]
    if total is not None:
        found += [f"money made or lost: {text}" for text in wrong_total(history, total)]
    return found


def _writers(history: History) -> dict[str, list[Txn]]:
    """Who sent a value: one transaction, or, of a copy, all that tried until one was committed."""
    writers: dict[str, list[Txn]] = defaultdict(list)
    for txn in history.txns.values():
        for _, value in txn.sends:
            writers[value].append(txn)
    return writers


def _visible(history: History) -> Callable[[Txn, Place, str], bool]:
    """Do readers of committed records see what this transaction (and no other one) wrote?"""
    at = {(place, offset) for place, final in history.committed.items() for offset, _ in final.records}
    there = {value for final in history.committed.values() for _, value in final.records}

    def sees(txn: Txn, place: Place, value: str) -> bool:
        if value in txn.acked:
            return (place, txn.acked[value]) in at
        return value in there and not value.startswith("copy of ")

    return sees


def _seen_by_committed(history: History) -> Iterator[tuple[Place, int, str, str]]:
    for place, final in history.committed.items():
        for offset, value in final.records:
            yield place, offset, value, "the last read"
    for reader in history.committed_readers:
        for poll in history.polls[reader]:
            for place, offset, value in poll.records:
                yield place, offset, value, reader


def aborted_read(history: History) -> Iterator[str]:
    """1. A reader of committed records saw what was aborted."""
    writers = _writers(history)
    for place, offset, value, who in _seen_by_committed(history):
        by = writers.get(value, [])
        if by and all(txn.outcome == "aborted" for txn in by):
            yield f"{who} saw {value} of the aborted {by[0].id} at {place}:{offset}"


def inconsistent_offsets(history: History) -> Iterator[str]:
    """2. One offset, two values."""
    at: dict[tuple[Place, int], str] = {}
    for place, offset, value in _all_sightings(history):
        if at.setdefault((place, offset), value) != value:
            yield f"{place}:{offset} was {at[place, offset]} and {value}"


def _all_sightings(history: History) -> Iterator[tuple[Place, int, str]]:
    for finals in (history.uncommitted, history.committed):
        for place, final in finals.items():
            for offset, value in final.records:
                yield place, offset, value
    for polls in history.polls.values():
        for poll in polls:
            yield from poll.records
    for txn in history.txns.values():
        for place, value in txn.sends:
            if value in txn.acked:
                yield place, txn.acked[value], value


def lost_write(history: History) -> Iterator[str]:
    """3. Acknowledged and committed, yet not there."""
    there = {(place, value) for place, final in history.committed.items() for _, value in final.records}
    for txn in history.txns.values():
        if txn.outcome == "committed":
            for place, value in txn.sends:
                if value in txn.acked and (place, value) not in there:
                    yield f"{value} of the committed {txn.id}, acknowledged at {place}:{txn.acked[value]}, is gone"


def duplicate(history: History) -> Iterator[str]:
    """4. One value at two offsets. A copy may be there again, after one that was aborted; readers see it once."""
    for committed, finals in ((False, history.uncommitted), (True, history.committed)):
        at: dict[str, tuple[Place, int]] = {}
        for place, final in finals.items():
            for offset, value in final.records:
                if not committed and value.startswith("copy of "):
                    continue
                if at.setdefault(value, (place, offset)) != (place, offset):
                    yield f"{value} is at {at[value]} and at {(place, offset)}"


def not_monotonic(history: History) -> Iterator[str]:
    """5. A reader went back, or stepped over a record that is there."""
    for reader, polls in history.polls.items():
        finals = history.committed if reader in history.committed_readers else history.uncommitted
        there = {place: sorted(final.records) for place, final in finals.items()}
        last: dict[Place, int] = {}
        for poll in polls:
            for place, offset, value in poll.records:
                before = last.get(place)
                if before is not None and offset <= before:
                    yield f"{reader} read {place}:{offset} ({value}) after {before}"
                elif before is not None and place in there:
                    records = there[place]
                    first, after = bisect_left(records, (before + 1, "")), bisect_left(records, (offset, ""))
                    for missed, what in records[first:after]:
                        yield f"{reader} stepped over {place}:{missed} ({what}), from {before} to {offset}"
                last[place] = offset


def order_inversion(history: History) -> Iterator[str]:
    """6. Two records of one transaction in one partition, the later before the earlier."""
    seen = {value: offset for _, offset, value in _all_sightings(history) if not value.startswith("copy of ")}
    for txn in history.txns.values():
        last: dict[Place, tuple[int, str]] = {}
        for place, value in txn.sends:
            at = txn.acked.get(value, seen.get(value))
            if at is not None:
                if place in last and last[place][0] >= at:
                    yield f"{txn.id} sent {last[place][1]} before {value}, in {place} it is the other way round"
                last[place] = (at, value)


def precommitted_read(history: History) -> Iterator[str]:
    """7. A reader of committed records saw a value before anybody asked to commit it."""
    writers = _writers(history)
    for reader in history.committed_readers:
        for poll in history.polls[reader]:
            for place, offset, value in poll.records:
                by = writers.get(value, [])
                if by and all(txn.asked_at is None or poll.at < txn.asked_at for txn in by):
                    yield f"{reader} saw {value} at {place}:{offset} before {by[0].id} was to be committed"


def torn(history: History) -> Iterator[str]:
    """8. A transaction that is there in part, over all partitions and its offsets."""
    visible = _visible(history)
    for txn in history.txns.values():
        # What was never acknowledged may have been dropped before it was sent, but a commit waits for all of it.
        parts = [(place, value) for place, value in txn.sends if txn.outcome == "committed" or value in txn.acked]
        seen = [value for place, value in parts if visible(txn, place, value)]
        if seen and len(seen) < len(parts):
            missing = sorted({value for _, value in parts} - set(seen))
            yield f"{txn.id} ({txn.outcome}) shows {seen[0]} but not {', '.join(missing[:3])}"
        for (group, place), offset in txn.offsets.items():
            now = history.group_offsets.get((group, place))
            if now is not None and seen and now < offset:
                yield f"{txn.id} is visible but {group} is at {place}:{now}, not at {offset} or later"


def unseen(history: History) -> Iterator[str]:
    """9. Long after the last transaction something still holds up readers."""
    for place, final in history.committed.items():
        if final.stable != final.high:
            yield f"{place} is stable up to {final.stable}, its end is {final.high}"


def not_fenced(history: History) -> Iterator[str]:
    """10. An old incarnation committed after a newer one had begun."""
    visible = _visible(history)
    for txn in history.txns.values():
        for number, _, answered in history.inits.get(txn.name, []):
            if number > txn.incarnation and txn.asked_at is not None and txn.asked_at > answered:
                shown = any(visible(txn, place, value) for place, value in txn.sends)
                if shown or txn.outcome == "committed":
                    yield f"{txn.id} of incarnation {txn.incarnation} committed after incarnation {number} had begun"


def not_a_copy(history: History, source: str, target: str) -> Iterator[str]:
    """11. Consume, transform, produce: everything once, in the order of its partition."""
    for place, final in history.committed.items():
        if place[0] == source:
            wanted = [value for _, value in final.records]
            copies = [value for _, value in history.committed[target, place[1]].records]
            got = [value.removeprefix("copy of ") for value in copies]
            if got != wanted:
                lost, extra = sorted(set(wanted) - set(got)), sorted(set(got) - set(wanted))
                counts = f"{len(lost)} lost {lost[:3]}, {len(extra)} extra {extra[:3]}"
                yield f"{target}-{place[1]}: {counts}, or out of order"


def wrong_total(history: History, total: int) -> Iterator[str]:
    """12. Each value `account:amount:…` moves money; every transaction moves as much out as in."""
    now = total
    for final in history.committed.values():
        for _, value in final.records:
            parts = value.split(":")
            if parts[0] == "money":
                now += int(parts[1])
    if now != total:
        yield f"there should be {total}, there is {now}"


def spurious_offset(history: History) -> Iterator[str]:
    """13. An acknowledged offset that is no offset: negative, or given twice."""
    given: dict[tuple[Place, int], str] = {}
    for txn in history.txns.values():
        for place, value in txn.sends:
            offset = txn.acked.get(value)
            if offset is not None and offset < 0:
                yield f"{value} was acknowledged at {place}:{offset}"
            elif offset is not None and given.setdefault((place, offset), value) != value:
                yield f"{given[place, offset]} and {value} were both acknowledged at {place}:{offset}"


def read_cycle(history: History) -> Iterator[str]:
    """G1c: a circle of transactions, each of which saw a write of the one before it.

    A copier's transaction reads what it copies: its value `copy of V` depends on V's writer.
    """
    writers = _writers(history)
    saw: dict[str, set[str]] = defaultdict(set)
    for txn in history.txns.values():
        for _, value in txn.sends:
            if value.startswith("copy of "):
                saw[txn.id].update(by.id for by in writers.get(value.removeprefix("copy of "), []) if by is not txn)
    state: dict[str, int] = {}
    for start in list(saw):
        stack = [(start, iter(saw[start]))]
        state.setdefault(start, 1)
        while stack:
            at, following = stack[-1]
            step = next(following, None)
            if step is None:
                state[at] = 2
                stack.pop()
            elif state.get(step) == 1:
                yield f"{step} and {at} read each other"
                state[step] = 2
            elif step not in state:
                state[step] = 1
                stack.append((step, iter(saw.get(step, ()))))


ANOMALIES = {
    "aborted read": aborted_read,
    "inconsistent offsets": inconsistent_offsets,
    "lost write": lost_write,
    "duplicate": duplicate,
    "not monotonic": not_monotonic,
    "order inversion": order_inversion,
    "precommitted read": precommitted_read,
    "torn": torn,
    "unseen": unseen,
    "not fenced": not_fenced,
    "spurious offset": spurious_offset,
    "read cycle": read_cycle,
}
