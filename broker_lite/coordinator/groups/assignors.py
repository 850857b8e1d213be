"""How the broker shares partitions out among the members of a consumer group (KIP-848).

Both assignors are given what each member reads and owns, and say what each shall own.

`uniform`  everybody gets as much as everybody else, give or take one, and keeps what it has if that is possible
`range`    of each topic every member gets one run of neighbouring partitions, so that topics with equal keys and
           partition counts meet at the same member; members are taken in the order of their names
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappush, heapreplace

from broker_lite.shapes import dataclass

Place = tuple[bytes, int]
"""Topic id and partition."""


@dataclass(slots=True)
class Reader:
    """A member as an assignor sees it."""

    topics: frozenset[bytes]
    owns: frozenset[Place] = frozenset()
    instance_id: str | None = None


Shares = dict[str, frozenset[Place]]
Assignor = Callable[[Mapping[str, Reader], Mapping[bytes, int]], Shares]
"""(members, partition counts of the topics they read) -> what each member shall own."""


_NOTHING: frozenset[Place] = frozenset()


def uniform(readers: Mapping[str, Reader], counts: Mapping[bytes, int]) -> Shares:
    if len({reader.topics for reader in readers.values()}) <= 1:
        return _uniform_same(readers, counts)
    return _uniform_mixed(readers, counts)


def _uniform_same(readers: Mapping[str, Reader], counts: Mapping[bytes, int]) -> Shares:
    """Everybody reads the same: cut what is above the fair share, hand out what is free."""
    if not readers:
        return {}
    topics = next(iter(readers.values())).topics
    free = _places(topics, counts)
    least, extra = divmod(len(free), len(readers))
    shares: Shares = {}
    # Who has most is asked first, so that the odd partitions stay with those who have them already.
    for owned, name in sorted((-len(reader.owns), name) for name, reader in readers.items()):
        if not owned:
            shares[name] = _NOTHING
            continue
        mine = readers[name].owns & free
        quota = least
        if len(mine) > least and extra:
            quota, extra = least + 1, extra - 1
        shares[name] = mine = mine if len(mine) <= quota else frozenset(sorted(mine)[:quota])
        free -= mine
    rest = sorted(free, reverse=True)
    for owned, name in sorted((-len(places), name) for name, places in shares.items()):
        if not rest:
            break
        quota = least
        if extra and -owned <= least:
            quota, extra = least + 1, extra - 1
        if quota > -owned:
            more = quota + owned
            shares[name] = shares[name].union(rest[-more:])
            del rest[-more:]
    assert not rest
    return shares


def _uniform_mixed(readers: Mapping[str, Reader], counts: Mapping[bytes, int]) -> Shares:
    """Members read different topics: keep, hand out to whoever has least, then move while that makes it fairer."""
    shares: dict[str, set[Place]] = {name: set() for name in readers}
    taken: dict[Place, str] = {}
    for name, reader in sorted(readers.items()):
        for place in reader.owns:
            if place[0] in reader.topics and place[1] < counts.get(place[0], 0) and place not in taken:
                taken[place] = name
                shares[name].add(place)
    by_topic: dict[bytes, list[str]] = {}
    for name, reader in sorted(readers.items()):
        for topic in reader.topics:
            by_topic.setdefault(topic, []).append(name)
    loads = _Loads(shares, by_topic)
    for topic in sorted(by_topic, key=lambda topic: (len(by_topic[topic]), topic)):
        for partition in range(counts.get(topic, 0)):
            if (topic, partition) not in taken:
                poorest = loads.poorest(topic)
                taken[topic, partition] = poorest
                shares[poorest].add((topic, partition))
    moved = True
    while moved:
        moved = False
        for place in sorted(taken):
            owner = taken[place]
            poorest = loads.poorest(place[0])
            if len(shares[owner]) > len(shares[poorest]) + 1:
                shares[owner].remove(place)
                shares[poorest].add(place)
                loads.has_less(owner, readers[owner].topics)
                taken[place] = poorest
                moved = True
    return {name: frozenset(places) for name, places in shares.items()}


class _Loads:
    """Who has least of those who read a topic; of equals the first by name.

    A heap for each topic. An entry may tell less than its member has by now, which shows when it comes up; that a
    member has less than before is noted at once, by another entry.
    """

    def __init__(self, shares: Mapping[str, set[Place]], by_topic: Mapping[bytes, list[str]]) -> None:
        self._shares = shares
        self._heaps = {topic: [(len(shares[name]), name) for name in names] for topic, names in by_topic.items()}
        for heap in self._heaps.values():
            heapify(heap)

    def poorest(self, topic: bytes) -> str:
        heap = self._heaps[topic]
        while True:
            load, name = heap[0]
            if load == len(self._shares[name]):
                return name
            heapreplace(heap, (len(self._shares[name]), name))

    def has_less(self, name: str, topics: frozenset[bytes]) -> None:
        for topic in topics:
            heappush(self._heaps[topic], (len(self._shares[name]), name))


def ranges(readers: Mapping[str, Reader], counts: Mapping[bytes, int]) -> Shares:
    def order(name: str) -> tuple[bool, str]:
        instance_id = readers[name].instance_id
        return (True, name) if instance_id is None else (False, instance_id)

    names = sorted(readers, key=order)
    shares: dict[str, set[Place]] = {name: set() for name in names}
    for topic in {topic for reader in readers.values() for topic in reader.topics}:
        takers = [name for name in names if topic in readers[name].topics]
        least, extra = divmod(counts.get(topic, 0), len(takers))
        start = 0
        for at, name in enumerate(takers):
            end = start + least + (at < extra)
            shares[name].update((topic, partition) for partition in range(start, end))
            start = end
    return {name: frozenset(places) for name, places in shares.items()}


def _places(topics: frozenset[bytes], counts: Mapping[bytes, int]) -> set[Place]:
    return {(topic, partition) for topic in topics for partition in range(counts.get(topic, 0))}


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": ranges}
