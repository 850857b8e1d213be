from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_lite.coordinator.groups.assignors import ASSIGNORS, Place, Reader, ranges, uniform

A, B = b"a" * 16, b"b" * 16
NAMES = ("m1", "m2", "m3", "m4", "m5")


def same(*names: str, topics: frozenset[bytes] = frozenset({A})) -> dict[str, Reader]:
    return {name: Reader(topics) for name in names}


def places(topic: bytes, *partitions: int) -> frozenset[Place]:
    return frozenset((topic, partition) for partition in partitions)


def test_range_gives_neighbours_and_the_rest_to_the_first() -> None:
    shares = ranges(same("b", "a", topics=frozenset({A, B})), {A: 5, B: 2})
    assert shares == {"a": places(A, 0, 1, 2) | places(B, 0), "b": places(A, 3, 4) | places(B, 1)}


def test_range_takes_static_members_by_their_own_names() -> None:
    readers = {"x": Reader(frozenset({A}), instance_id="i2"), "y": Reader(frozenset({A}), instance_id="i1")}
    assert ranges(readers | same("a"), {A: 3}) == {"y": places(A, 0), "x": places(A, 1), "a": places(A, 2)}


def test_uniform_takes_no_more_from_anybody_than_it_must() -> None:
    before = {"a": places(A, 0, 1, 2, 3), "b": places(A, 4, 5, 6)}
    readers = {name: Reader(frozenset({A}), owned) for name, owned in before.items()} | same("c")
    after = uniform(readers, {A: 7})
    assert sorted(len(owned) for owned in after.values()) == [2, 2, 3]
    assert after["a"] <= before["a"]
    assert after["b"] <= before["b"]
    assert len(after["a"]) == 3, "the odd one stays with who had most"


def test_uniform_hands_out_what_a_member_left() -> None:
    after = uniform({"a": Reader(frozenset({A}), places(A, 0, 1)), "c": Reader(frozenset({A}), places(A, 4))}, {A: 5})
    assert places(A, 0, 1) <= after["a"]
    assert places(A, 4) <= after["c"]


def test_members_that_read_different_topics_are_served_fairly() -> None:
    readers = {"a": Reader(frozenset({A})), "b": Reader(frozenset({A, B}))}
    assert uniform(readers, {A: 4, B: 4}) == {"a": places(A, 0, 1, 2, 3), "b": places(B, 0, 1, 2, 3)}


members = st.dictionaries(
    st.sampled_from(NAMES),
    st.frozensets(st.sampled_from([A, B]), max_size=2),
    min_size=1,
)
counts = st.fixed_dictionaries({A: st.integers(0, 9), B: st.integers(0, 9)})


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(first=members, then=members, count=counts)
def test_every_partition_has_one_owner_that_reads_it(
    name: str, first: dict[str, frozenset[bytes]], then: dict[str, frozenset[bytes]], count: dict[bytes, int]
) -> None:
    assign = ASSIGNORS[name]
    shares = assign({name: Reader(topics) for name, topics in first.items()}, count)
    readers = {name: Reader(topics, shares.get(name, frozenset())) for name, topics in then.items()}
    shares = assign(readers, count)
    owned = [place for share in shares.values() for place in share]
    read = {topic for topics in then.values() for topic in topics}
    assert sorted(owned) == sorted((topic, at) for topic in read for at in range(count[topic]))
    assert all(topic in then[member] for member, share in shares.items() for topic, _ in share)


@given(
    names=st.sets(st.sampled_from(NAMES), min_size=1),
    later=st.sets(st.sampled_from(NAMES), min_size=1),
    n=st.integers(0, 20),
)
def test_uniform_is_fair_and_sticky(names: set[str], later: set[str], n: int) -> None:
    before = uniform(same(*names), {A: n})
    after = uniform({name: Reader(frozenset({A}), before.get(name, frozenset())) for name in later}, {A: n})
    sizes = [len(share) for share in after.values()]
    assert max(sizes) - min(sizes) <= 1
    assert uniform({name: Reader(frozenset({A}), share) for name, share in after.items()}, {A: n}) == after
    stayed = names & later
    kept = sum(len(after[name] & before[name]) for name in stayed)
    fair = n // len(later)
    assert kept >= sum(min(len(before[name]), fair) for name in stayed), "nobody loses more than its surplus"


@given(first=members, count=counts)
def test_a_fair_assignment_of_mixed_readers_is_left_alone(
    first: dict[str, frozenset[bytes]], count: dict[bytes, int]
) -> None:
    shares = uniform({name: Reader(topics) for name, topics in first.items()}, count)
    assert uniform({name: Reader(topics, shares[name]) for name, topics in first.items()}, count) == shares
