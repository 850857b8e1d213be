from __future__ import annotations

import pytest

from broker_lite.coordinator.groups.classic import ClassicGroup
from broker_lite.coordinator.groups.consumer import ConsumerGroup, ConsumerState
from broker_lite.coordinator.groups.members import Joined, Synced
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.coordinator.groups.subscription import (
    NEWEST,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    read_assignment,
    read_subscription,
    write_assignment,
)
from broker_lite.errors import ErrorCode, GroupIdNotFound
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.layout import layout
from tests.coordinator.groups.test_consumer_groups import Consumer
from tests.coordinator.playbook import GROUP, Playbook, heartbeat, join, joined, leave, refused, sync, told, waits
from tests.wire.definitions import NEWEST as CLIENTS
from tests.wire.definitions import definitions, lines, versions
from tests.wire.test_against_kafka import ours


class Classic:
    """A classic consumer with a cooperative assignor, as clients are written."""

    def __init__(self, book: Playbook, name: str) -> None:
        self.book, self.name = book, name
        self.generation = -1
        self.owns: list[int] = []

    @property
    def protocols(self) -> tuple[tuple[str, bytes], ...]:
        subscription = ConsumerProtocolSubscription(
            topics=["t"], owned_partitions=[TopicPartition(topic="t", partitions=self.owns)]
        )
        return (("cooperative-sticky", b"\0\1" + encode_bytes(subscription, 1)),)

    def join(self) -> Joined:
        member = self.name if self.generation > 0 else ""
        self.book >> join(self.name, member=member, protocols=self.protocols, session=30, rebalance=30)
        who, answer = self.book.heard.pop(0)
        assert who == self.name
        assert isinstance(answer, Joined), answer
        self.generation = answer.generation
        return answer

    def sync(self) -> Synced:
        self.book >> sync(self.name, generation=self.generation, protocol="cooperative-sticky")
        answer = self.book.heard.pop(0)[1]
        assert isinstance(answer, Synced), answer
        self.owns = [p for line in read_assignment(answer.assignment).assigned_partitions for p in line.partitions]
        return answer

    def run(self) -> None:
        """Beat, and do what the answer wants."""
        self.book >> heartbeat(self.name, generation=self.generation)
        answer = self.book.heard.pop(0)[1]
        if answer is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()
        else:
            assert answer is ErrorCode.NONE


def classic_pair(book: Playbook) -> tuple[Classic, Classic]:
    book.topics["t"] = 6
    a, b = Classic(book, "a"), Classic(book, "b")
    for one in (a, b):
        book >> join(one.name, protocols=one.protocols, session=30, rebalance=30)
    book.wait(0.2) << joined("a", generation=1) << joined("b", generation=1)
    shares = {"a": write_assignment([("t", [0, 1, 2])], 1), "b": write_assignment([("t", [3, 4, 5])], 1)}
    book >> sync("a", shares) >> sync("b")
    for one, owns in ((a, [0, 1, 2]), (b, [3, 4, 5])):
        book.heard.pop(0)
        one.generation, one.owns = 1, owns
    return a, b


def everybody(*members: Classic | Consumer) -> None:
    for _ in range(5):
        for member in members:
            if isinstance(member, Classic):
                member.run()
            else:
                member.beat()


def test_a_consumer_that_comes_to_a_classic_group_makes_it_its_own() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    group = book.groups.group(GROUP)
    assert isinstance(group, ConsumerGroup)
    assert c.owns == frozenset(), "everything is still owned by the others"
    everybody(a, b, c)
    assert group.state is ConsumerState.STABLE
    assert (len(a.owns), len(b.owns), len(c.owns)) == (2, 2, 2)
    assert set(a.owns) <= {0, 1, 2}, "nobody gives up more than it must"
    assert {*a.owns, *b.owns, *(at for _, at in c.owns)} == set(range(6))


def test_a_mixed_group_survives_a_restart() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    everybody(a, b, c)
    before = book.groups.group(GROUP)
    book.restart()
    after = book.groups.group(GROUP)
    assert isinstance(before, ConsumerGroup)
    assert isinstance(after, ConsumerGroup)
    assert after.members == before.members
    everybody(a, b, c)


def test_when_the_last_consumer_has_gone_the_group_is_classic_again() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    everybody(a, b, c)
    epoch = book.groups.group(GROUP).epoch  # type: ignore[union-attr]
    c.say(epoch=-1)
    group = book.groups.group(GROUP)
    assert isinstance(group, ClassicGroup)
    book.wait(0.01)
    assert group.state is State.PREPARING_REBALANCE
    book >> heartbeat("a", generation=a.generation) << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    for one in (a, b):
        book >> join(one.name, member=one.name, protocols=one.protocols, session=30, rebalance=30)
    book << joined("a", generation=epoch + 1) << joined("b", generation=epoch + 1)
    book.restart()
    assert isinstance(book.groups.group(GROUP), ClassicGroup)


def test_the_last_consumer_may_come_back_as_a_classic_member() -> None:
    """A static consumer restarts with the old protocol: the group is classic at once, and nobody loses a partition."""
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t", instance="seat").beat()
    everybody(a, b, c)
    owned, epoch = sorted(at for _, at in c.owns), c.epoch
    d = Classic(book, "d")
    book >> join("d", instance="seat", protocols=d.protocols, session=30, rebalance=30)
    book << joined("d", member_id="d", generation=epoch, protocol="cooperative-sticky", leader="")
    group = book.groups.group(GROUP)
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.static) == (State.STABLE, {"seat": "d"})
    d.generation = epoch
    book >> sync("d", generation=epoch, instance="seat", protocol="cooperative-sticky")
    answer = book.heard.pop(0)[1]
    assert isinstance(answer, Synced)
    assert read_assignment(answer.assignment).assigned_partitions == [TopicPartition(topic="t", partitions=owned)]
    everybody(a, b)
    book.restart()
    everybody(a, b)
    assert isinstance(book.groups.group(GROUP), ClassicGroup)
    assert c.refused(epoch=epoch) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_was_not_settled_gathers_anew_when_it_becomes_classic_so() -> None:
    book = Playbook()
    classic_pair(book)
    c = Consumer(book, "c", "t", instance="seat").beat()
    d = Classic(book, "d")
    book >> join("d", instance="seat", protocols=d.protocols, session=30, rebalance=30)
    assert isinstance(book.heard.pop(0)[1], Joined)
    book.wait(0.01)
    group = book.groups.group(GROUP)
    assert group.state is State.PREPARING_REBALANCE, "a and b still own what d was to have"
    assert c.refused(epoch=c.epoch) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("facts", [{}, {"instance": "seat"}, {"instance": "other"}, {"id_first": True}])
def test_a_consumer_group_takes_no_classic_member_where_groups_may_not_change(facts: dict[str, object]) -> None:
    book = Playbook(GroupSettings(migration="disabled"))
    book.topics["t"] = 6
    Consumer(book, "c", "t", instance="seat").beat()
    asked = {"protocols": Classic(book, "d").protocols, "session": 30, "rebalance": 30} | facts
    book >> join("d", **asked) << told("d", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # type: ignore[arg-type]


def test_it_stays_a_consumer_group_where_it_may_not_go_down() -> None:
    book = Playbook(GroupSettings(migration="upgrade"))
    book.topics["t"] = 6
    Consumer(book, "c", "t", instance="seat").beat()
    d = Classic(book, "d")
    book >> join("d", instance="seat", protocols=d.protocols, session=30, rebalance=30)
    assert isinstance(book.heard.pop(0)[1], Joined)
    assert isinstance(book.groups.group(GROUP), ConsumerGroup)


def test_a_classic_member_may_join_a_consumer_group_in_two_steps() -> None:
    book = Playbook()
    book.topics["t"] = 6
    c = Consumer(book, "c", "t").beat()
    a = Classic(book, "a")
    book >> join("a", protocols=a.protocols, id_first=True)
    book << refused("a", ErrorCode.MEMBER_ID_REQUIRED, member_id="a")
    book >> join("a", member="a", protocols=a.protocols, id_first=True)
    book << joined("a", leader="", protocol="cooperative-sticky", protocol_type="consumer")
    a.generation = book.groups.group(GROUP).members["a"].epoch  # type: ignore[union-attr]
    everybody(c, a)
    assert (len(c.owns), len(a.owns)) == (3, 3)


def test_a_classic_member_is_not_sent_to_join_while_nothing_may_be_assigned() -> None:
    book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(assignment_interval_ms=1000)))
    book.topics["t"] = 6
    a = Classic(book, "a")
    book >> join("a", protocols=a.protocols, session=30, rebalance=30)
    book.wait(0.2) << joined("a", generation=1)
    a.generation = 1
    book >> sync("a", {"a": write_assignment([("t", [0, 1, 2, 3, 4, 5])], 1)})
    book.heard.clear()
    c = Consumer(book, "c", "t").beat()
    assert c.epoch == 2, "what the classic members agreed on is nothing to wait after"
    everybody(a, c)
    assert (len(a.owns), len(c.owns)) == (3, 3)
    d = Consumer(book, "d", "t").beat()
    assert (c.epoch, d.epoch) == (2, 2)
    book >> heartbeat("a", generation=2) << told("a")
    a.sync()
    book.wait(1)
    book >> heartbeat("a", generation=2) << told("a", ErrorCode.REBALANCE_IN_PROGRESS)
    everybody(a, c, d)
    assert (len(a.owns), len(c.owns), len(d.owns)) == (2, 2, 2)


def test_who_waits_in_a_classic_round_is_sent_back_to_join() -> None:
    book = Playbook()
    a, _ = classic_pair(book)
    book >> join("d", protocols=a.protocols) << waits
    Consumer(book, "c", "t").beat()
    book << refused("d", ErrorCode.REBALANCE_IN_PROGRESS, member_id="d")


def test_classic_members_are_refused_as_in_a_classic_group() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    everybody(a, b, c)
    book >> heartbeat("a", generation=99) << told("a", ErrorCode.ILLEGAL_GENERATION)
    book >> heartbeat("c", generation=c.epoch) << told("c", ErrorCode.UNKNOWN_MEMBER_ID)
    book >> sync("a", generation=a.generation, protocol="range") << told("a", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    book >> join("x", protocols=(("range", a.protocols[0][1]),)) << told("x", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    book >> join("x", protocol_type="connect") << told("x", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    Consumer(book, "d", "t").beat()
    book >> sync("a", generation=a.generation) << told("a", ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_classic_member_that_does_not_follow_is_out() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    everybody(a, b, c)
    d = Consumer(book, "d", "t").beat()
    for _ in range(8):
        b.run()
        for consumer in (c, d):
            consumer.beat()
        book >> heartbeat("a", generation=a.generation)
        book.heard.clear()
        book.wait(5)
    assert "a" not in book.groups.group(GROUP).members


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_changes_only_if_it_may(policy: str) -> None:
    book = Playbook(GroupSettings(migration=policy))
    classic_pair(book)
    c = Consumer(book, "c", "t")
    first = {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert c.refused(**first) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_is_not_of_consumers_stays_as_it_is() -> None:
    book = Playbook()
    book >> join("a", protocol_type="connect")
    book.wait(0.2) << joined("a")
    c = Consumer(book, "c", "t")
    first = {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert c.refused(**first) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_subscription_that_cannot_be_read_keeps_the_group_classic() -> None:
    book = Playbook()
    book >> join("a", protocols=(("range", b"\0\1\xff"),))
    book.wait(0.2) << joined("a")
    c = Consumer(book, "c", "t")
    first = {"epoch": 0, "topics": ["t"], "rebalance_timeout_ms": 1, "owned": frozenset()}
    assert c.refused(**first) is ErrorCode.GROUP_ID_NOT_FOUND
    book >> heartbeat("a") << told("a")


def test_a_group_whose_assignor_speaks_to_its_members_stays_classic() -> None:
    """As those of Kafka Streams do: what they say in an assignment would be lost."""
    book = Playbook()
    book.topics["t"] = 6
    a = Classic(book, "a")
    book >> join("a", protocols=a.protocols, session=30, rebalance=30)
    book.wait(0.2) << joined("a", generation=1)
    words = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[0])], user_data=b"!")
    book >> sync("a", {"a": b"\0\1" + encode_bytes(words, 1)})
    book.heard.clear()
    c = Consumer(book, "c", "t")
    with pytest.raises(GroupIdNotFound, match="because an unsupported custom assignor is in use"):
        c.say(epoch=0, topics=["t"], rebalance_timeout_ms=1, owned=frozenset())
    book >> heartbeat("a") << told("a")


def test_a_classic_member_that_leaves_a_mixed_group_makes_room() -> None:
    book = Playbook()
    a, b = classic_pair(book)
    c = Consumer(book, "c", "t").beat()
    everybody(a, b, c)
    book >> leave(("a", None)) << told("leaver", [ErrorCode.NONE])
    everybody(b, c)
    assert (len(b.owns), len(c.owns)) == (3, 3)


@pytest.mark.kafka
@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_the_embedded_protocol_is_as_kafka_defines_it(cls: type) -> None:
    told = definitions(CLIENTS)[cls.__name__]
    assert versions(told["validVersions"])[-1] == NEWEST
    for version in range(NEWEST + 1):
        mine = [(line.path, line.type, line.nullable) for line in ours(layout(cls, version))]
        assert mine == [(line.path, line.type, line.nullable) for line in lines(told, version)]


def test_later_versions_of_a_subscription_are_read_as_far_as_we_know_them() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    blob = b"\0\x09" + encode_bytes(subscription, 3) + b"more"
    assert read_subscription(blob) == subscription
