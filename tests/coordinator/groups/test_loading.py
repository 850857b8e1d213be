"""Commits that are loaded by the hundred thousand come out as the codec would have read them, one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_lite.coordinator.decision import Record
from broker_lite.coordinator.groups.coordinator import Groups
from broker_lite.coordinator.groups.loading import CommitLoader
from broker_lite.coordinator.groups.offsets import Committed, commit_record, deletion
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.schemas import OffsetCommitValue, value_bytes
from broker_lite.errors import Malformed

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
commits = st.builds(
    commit_record,
    names,
    names,
    st.integers(-1, 2**31 - 1),
    st.builds(
        Committed,
        numbers,
        st.integers(-1, 2**31 - 1),
        st.one_of(names, st.text(st.characters(exclude_categories=["Cs"]), min_size=100, max_size=200)),
        numbers,
        st.sampled_from([-1, 7]),
        st.sampled_from([bytes(16), bytes(range(16))]),
    ),
)
deletions = st.builds(deletion, st.sampled_from(["", "g"]), st.sampled_from(["", "t"]), st.just(0))


def by_the_codec(records: list[Record]) -> Groups:
    groups = Groups(GroupSettings())
    for at, record in enumerate(records):
        try:
            groups.apply(Record(record.key, record.value), at=at, now_ms=5)
        except Malformed:
            continue
    return groups


def by_the_loader(records: list[Record]) -> tuple[Groups, int]:
    groups = Groups(GroupSettings())
    loader = CommitLoader(groups, now_ms=5)
    read = 0
    for at, record in enumerate(records):
        if loader.load(record.key, record.value, at):
            read += 1
            continue
        try:
            groups.apply(Record(record.key, record.value), at=at, now_ms=5)
        except Malformed:
            continue
    return groups, read


def same(one: Groups, other: Groups) -> bool:
    return list(one.groups) == list(other.groups) and all(
        one.offsets.of(group) == other.offsets.of(group) for group in one.groups
    )


@given(st.lists(st.one_of(commits, deletions), max_size=12))
def test_what_was_written_is_read_alike(records: list[Record]) -> None:
    assert same(by_the_codec(records), by_the_loader(records)[0])


@given(commits, st.integers(0, 400), st.integers(0, 255), st.booleans())
def test_what_was_damaged_is_read_alike(record: Record, at: int, byte: int, in_key: bool) -> None:
    key, value = bytearray(record.key), bytearray(record.value or b"")
    damaged = key if in_key else value
    damaged[max(2 if in_key else 0, at % len(damaged))] = byte  # a key of another kind is none of the loader's
    changed = Record(bytes(key), bytes(value))
    assert same(by_the_codec([changed]), by_the_loader([changed])[0])


@given(commits, st.integers(1, 40))
def test_what_was_cut_is_read_alike(record: Record, missing: int) -> None:
    cut = [Record(record.key[:-missing], record.value), Record(record.key, (record.value or b"")[:-missing])]
    for one in cut:
        if len(one.key) >= 2:
            assert same(by_the_codec([one]), by_the_loader([one])[0])


def test_both_forms_of_today_are_read_without_the_codec() -> None:
    plain = commit_record("g", "t", 0, Committed(1, -1, "note", 3))
    with_id = commit_record("g", "t", 1, Committed(2, 7, "", 3, -1, bytes(range(16))))
    groups, read = by_the_loader([plain, with_id])
    assert read == 2
    assert groups.offsets.of("g") == {
        "t": {0: Committed(1, -1, "note", 3, at=0), 1: Committed(2, 7, "", 3, -1, bytes(range(16)), at=1)}
    }


def test_a_commit_without_a_note_is_written_as_the_codec_would() -> None:
    committed = Committed(5, 2, "", 3, -1, bytes(range(16)))
    value = OffsetCommitValue(
        offset=5, leader_epoch=2, metadata="", commit_timestamp=3, expire_timestamp=-1, topic_id=bytes(range(16))
    )
    assert commit_record("g", "t", 1, committed).value == value_bytes(value, 4)
