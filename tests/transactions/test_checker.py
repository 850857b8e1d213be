"""The checker finds each anomaly in a history that is sound but for one change, and nothing in the sound one."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.transactions.checker import check
from tests.transactions.history import Event, History, Json


def _final(topic: str, partition: int, committed: bool, high: int, records: list[Json]) -> Event:
    place: Event = {"what": "final", "topic": topic, "partition": partition, "committed": committed}
    return {**place, "high": high, "stable": high, "records": records}


SOUND: list[Event] = [
    {"what": "init", "name": "p", "incarnation": 1, "began": 0.0, "at": 1.0},
    {"what": "txn", "txn": "p-1", "name": "p", "incarnation": 1, "at": 2.0},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 0, "value": "a", "offset": None},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 0, "value": "b", "offset": None},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 1, "value": "money:5:x", "offset": None},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 1, "value": "money:-5:y", "offset": None},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 0, "value": "a", "offset": 0},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 0, "value": "b", "offset": 1},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 1, "value": "money:5:x", "offset": 0},
    {"what": "sent", "txn": "p-1", "topic": "in", "partition": 1, "value": "money:-5:y", "offset": 1},
    {"what": "ending", "txn": "p-1", "commit": True, "at": 3.0},
    {"what": "ended", "txn": "p-1", "outcome": "committed", "at": 4.0},
    {"what": "txn", "txn": "p-2", "name": "p", "incarnation": 1, "at": 5.0},
    {"what": "sent", "txn": "p-2", "topic": "in", "partition": 0, "value": "c", "offset": None},
    {"what": "sent", "txn": "p-2", "topic": "in", "partition": 0, "value": "c", "offset": 3},
    {"what": "ending", "txn": "p-2", "commit": False, "at": 6.0},
    {"what": "ended", "txn": "p-2", "outcome": "aborted", "at": 7.0},
    {"what": "polled", "reader": "r", "committed": True, "at": 8.0, "records": [["in", 0, 0, "a"]]},
    {"what": "polled", "reader": "r", "committed": True, "at": 9.0, "records": [["in", 0, 1, "b"]]},
    {"what": "init", "name": "copier", "incarnation": 1, "began": 8.0, "at": 9.0},
    {"what": "txn", "txn": "copier-1", "name": "copier", "incarnation": 1, "at": 10.0},
    {"what": "sent", "txn": "copier-1", "topic": "out", "partition": 0, "value": "copy of a", "offset": None},
    {"what": "sent", "txn": "copier-1", "topic": "out", "partition": 0, "value": "copy of b", "offset": None},
    {"what": "sent", "txn": "copier-1", "topic": "out", "partition": 0, "value": "copy of a", "offset": 0},
    {"what": "sent", "txn": "copier-1", "topic": "out", "partition": 0, "value": "copy of b", "offset": 1},
    {"what": "offsets", "txn": "copier-1", "group": "g", "topic": "in", "partition": 0, "offset": 2},
    {"what": "ending", "txn": "copier-1", "commit": True, "at": 11.0},
    {"what": "ended", "txn": "copier-1", "outcome": "committed", "at": 12.0},
    {"what": "group", "group": "g", "topic": "in", "partition": 0, "offset": 2},
    _final("in", 0, True, 5, [[0, "a"], [1, "b"]]),
    _final("in", 0, False, 5, [[0, "a"], [1, "b"], [3, "c"]]),
    _final("in", 1, True, 3, [[0, "money:5:x"], [1, "money:-5:y"]]),
    _final("out", 0, True, 3, [[0, "copy of a"], [1, "copy of b"]]),
    _final("out", 1, True, 0, []),
]


def run(events: list[Event], *, copied: bool = False, total: int | None = None) -> list[str]:
    return check(History.of(events), copied=("in", "out") if copied else None, total=total)


def find(events: list[Event], **facts: Json) -> Event:
    return next(event for event in events if all(event.get(key) == value for key, value in facts.items()))


def test_nothing_is_found_in_a_sound_history() -> None:
    assert run(SOUND, total=0) == []


def _aborted_read(events: list[Event]) -> None:
    final = find(events, what="final", topic="in", partition=0, committed=True)
    final["records"] = [[0, "a"], [1, "b"], [3, "c"]]


def _inconsistent(events: list[Event]) -> None:
    find(events, what="polled", at=9.0)["records"] = [["in", 0, 1, "something else"]]


def _lost(events: list[Event]) -> None:
    find(events, what="final", topic="in", partition=0, committed=True)["records"] = [[0, "a"]]


def _duplicate(events: list[Event]) -> None:
    final = find(events, what="final", topic="in", partition=0, committed=True)
    final["records"] = [[0, "a"], [1, "b"], [4, "a"]]


def _back(events: list[Event]) -> None:
    find(events, what="polled", at=9.0)["records"] = [["in", 0, 0, "a"]]


def _stepped_over(events: list[Event]) -> None:
    find(events, what="polled", at=8.0)["records"] = [["in", 1, 0, "money:5:x"], ["in", 0, 0, "a"]]
    find(events, what="polled", at=9.0)["records"] = [["in", 0, 4, "later"]]


def _inverted(events: list[Event]) -> None:
    for value, offset in (("a", 1), ("b", 0)):
        for event in events:
            if event.get("value") == value and event.get("offset") is not None:
                event["offset"] = offset
    find(events, what="final", topic="in", partition=0, committed=True)["records"] = [[0, "b"], [1, "a"]]
    find(events, what="final", topic="in", partition=0, committed=False)["records"] = [[0, "b"], [1, "a"], [3, "c"]]
    find(events, what="polled", at=8.0)["records"] = [["in", 0, 0, "b"]]
    find(events, what="polled", at=9.0)["records"] = [["in", 0, 1, "a"]]


def _too_early(events: list[Event]) -> None:
    find(events, what="polled", at=8.0)["at"] = 2.5


def _torn(events: list[Event]) -> None:
    find(events, what="ended", txn="p-1")["outcome"] = "unknown"
    find(events, what="final", topic="in", partition=1)["records"] = []


def _torn_offsets(events: list[Event]) -> None:
    find(events, what="group")["offset"] = 1


def _hanging(events: list[Event]) -> None:
    find(events, what="final", topic="out", partition=0)["stable"] = 2


def _zombie(events: list[Event]) -> None:
    events.append({"what": "init", "name": "p", "incarnation": 2, "began": 2.0, "at": 2.5})


def _default_offset(events: list[Event]) -> None:
    event = next(event for event in events if event.get("value") == "b" and event.get("offset") == 1)
    event["offset"] = -1


def _same_offset(events: list[Event]) -> None:
    event = next(event for event in events if event.get("value") == "money:-5:y" and event.get("offset") == 1)
    event["offset"] = 0


def _circle(events: list[Event]) -> None:
    events[2:2] = [
        {"what": "sent", "txn": "p-1", "topic": "in", "partition": 2, "value": "copy of copy of a", "offset": None}
    ]
    find(events, what="ended", txn="p-1")["outcome"] = "unknown"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_aborted_read, "aborted read"),
        (_inconsistent, "inconsistent offsets"),
        (_lost, "lost write"),
        (_duplicate, "duplicate"),
        (_back, "not monotonic"),
        (_stepped_over, "not monotonic"),
        (_inverted, "order inversion"),
        (_too_early, "precommitted read"),
        (_torn, "torn"),
        (_torn_offsets, "torn"),
        (_hanging, "unseen"),
        (_zombie, "not fenced"),
        (_default_offset, "spurious offset"),
        (_same_offset, "spurious offset"),
        (_circle, "read cycle"),
    ],
)
def test_each_anomaly_is_found(change: Callable[[list[Event]], None], name: str) -> None:
    events = copy.deepcopy(SOUND)
    change(events)
    found = run(events)
    assert any(text.startswith(f"{name}:") for text in found), found


def test_a_copy_may_be_made_again_after_one_that_was_aborted_but_readers_see_it_once() -> None:
    again: list[Json] = [[0, "copy of a"], [1, "copy of b"], [3, "copy of a"]]
    events = [*copy.deepcopy(SOUND), _final("out", 0, False, 5, again)]
    assert run(events) == []
    find(events, what="final", topic="out", partition=0, committed=True)["records"] = again
    assert any(text.startswith("duplicate:") for text in run(events))


def test_a_copy_that_is_none_is_found() -> None:
    events = [event for event in copy.deepcopy(SOUND) if event.get("partition") != 1]
    assert run(events, copied=True) == []
    find(events, what="final", topic="out", partition=0)["records"] = [[1, "copy of b"], [2, "copy of a"]]
    assert any(text.startswith("not a copy:") for text in run(events, copied=True))


def test_money_out_of_nothing_is_found() -> None:
    events = copy.deepcopy(SOUND)
    find(events, what="final", topic="in", partition=1)["records"] = [[0, "money:5:x"]]
    assert any(text.startswith("money made or lost:") for text in run(events, total=0))


def test_a_transaction_that_nobody_heard_of_may_be_there_whole_or_not_at_all() -> None:
    events = copy.deepcopy(SOUND)
    find(events, what="ended", txn="p-1")["outcome"] = "unknown"
    assert run(events) == []


def test_a_line_cut_short_by_a_kill_ends_its_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "1.jsonl"
    path.write_text('{"what": "init", "name": "p", "incarnation": 1, "began": 0, "at": 1}\n{"what": "tx')
    assert History.read([path]).inits == {"p": [(1, 0.0, 1.0)]}
