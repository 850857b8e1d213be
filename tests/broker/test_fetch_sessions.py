from __future__ import annotations

import pytest

from broker_lite.broker import fetch_sessions
from broker_lite.broker.fetch_sessions import FetchSessions, Plan, Want
from broker_lite.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from broker_lite.ids import NO_TOPIC_ID


def want(partition: int = 0, offset: int = 0, topic: str = "t") -> Want:
    return Want(topic=topic, topic_id=NO_TOPIC_ID, partition=partition, offset=offset, max_bytes=1000)


def ask(sessions: FetchSessions, session_id: int, epoch: int, *wants: Want, forget: Want | None = None) -> Plan:
    forgotten = [] if forget is None else [forget.key]
    return sessions.plan(session_id, epoch, list(wants), forgotten, by_topic_id=False, now=0.0)


def tell(plan: Plan, which: Want, *, records: bool = False, high: int = 0, failed: bool = False) -> bool:
    return plan.is_news(which, failed=failed, has_records=records, high=high, start=0, diverging=False)


def test_epoch_minus_one_opens_no_session() -> None:
    sessions = FetchSessions(slots=10)
    assert ask(sessions, 0, -1, want()).session_id == 0
    assert len(sessions) == 0


def test_a_session_remembers_what_it_was_asked() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want(0), want(1))
    assert opened.session_id > 0
    again = ask(sessions, opened.session_id, 1)
    assert [w.partition for w in again.wants] == [0, 1]


def test_a_later_request_changes_offsets_adds_and_forgets() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want(0), want(1))
    again = ask(sessions, opened.session_id, 1, want(0, offset=7), want(2), forget=want(1))
    assert [(w.partition, w.offset) for w in again.wants] == [(0, 7), (2, 0)]


def test_only_news_is_told_in_a_continued_session() -> None:
    sessions = FetchSessions(slots=10)
    first = want(0)
    opened = ask(sessions, 0, 0, first)
    assert tell(opened, first, high=5), "the first answer has everything"
    again = ask(sessions, opened.session_id, 1)
    assert not tell(again, first, high=5)
    assert tell(again, first, high=6)
    assert tell(again, first, high=6, records=True)


def test_recovery_from_an_error_is_news() -> None:
    sessions = FetchSessions(slots=10)
    first = want(0)
    opened = ask(sessions, 0, 0, first)
    tell(opened, first, high=5)
    assert tell(opened, first, failed=True)
    again = ask(sessions, opened.session_id, 1)
    assert tell(again, first, high=5)


def test_a_partition_that_gave_records_goes_to_the_back() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want(0), want(1))
    again = ask(sessions, opened.session_id, 1)
    tell(again, again.wants[0], records=True)
    assert [w.partition for w in ask(sessions, opened.session_id, 2).wants] == [1, 0]


def test_an_unknown_session_and_a_wrong_epoch_are_refused() -> None:
    sessions = FetchSessions(slots=10)
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, 4711, 1)
    opened = ask(sessions, 0, 0, want())
    with pytest.raises(InvalidFetchSessionEpoch):
        ask(sessions, opened.session_id, 2)


def test_a_session_by_name_cannot_go_on_by_id() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want())
    with pytest.raises(FetchSessionTopicIdError):
        sessions.plan(opened.session_id, 1, [], [], by_topic_id=True, now=0.0)


def test_a_session_that_forgets_everything_ends() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want())
    assert ask(sessions, opened.session_id, 1, forget=want()).session_id == 0
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, opened.session_id, 2)


def test_the_epoch_after_the_largest_is_one() -> None:
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, want())
    assert opened.session is not None
    opened.session.epoch = 2**31 - 1
    ask(sessions, opened.session_id, 2**31 - 1)
    assert opened.session.epoch == 1


def test_a_full_house_gives_no_session_until_one_has_been_idle_for_two_minutes() -> None:
    sessions = FetchSessions(slots=1)
    first = ask(sessions, 0, 0, want())
    assert ask(sessions, 0, 0, want()).session_id == 0
    later = sessions.plan(0, 0, [want()], [], by_topic_id=False, now=121.0)
    assert later.session_id > 0
    with pytest.raises(FetchSessionIdNotFound):
        ask(sessions, first.session_id, 1)


def test_opening_a_new_session_closes_the_one_it_names() -> None:
    sessions = FetchSessions(slots=10)
    first = ask(sessions, 0, 0, want())
    ask(sessions, first.session_id, 0, want())
    assert len(sessions) == 1


def test_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 10)
    sessions = FetchSessions(slots=10)
    opened = ask(sessions, 0, 0, *map(want, range(6)))
    assert ask(sessions, 0, 0, *map(want, range(5))).session_id == 0, "a full fetch, without a session"
    assert ask(sessions, 0, 0, *map(want, range(4))).session_id > 0
    ask(sessions, opened.session_id, 1, want(0))
    with pytest.raises(FetchSessionIdNotFound, match="too many"):
        ask(sessions, opened.session_id, 2, want(6))
    assert len(sessions) == 1, "the client begins again with a full fetch"
    assert ask(sessions, 0, 0, *map(want, range(6))).session_id > 0


def test_partitions_of_a_session_that_ended_are_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_PARTITIONS", 10)
    sessions = FetchSessions(slots=10)
    for _ in range(5):
        opened = ask(sessions, 0, 0, *map(want, range(10)))
        assert opened.session_id > 0
        ask(sessions, opened.session_id, 1, forget=want(3))
        ask(sessions, opened.session_id, -1)
