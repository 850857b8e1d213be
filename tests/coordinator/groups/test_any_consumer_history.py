"""Random histories of a consumer group: at no time do two members own a partition, and it always settles."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_lite.coordinator.groups.consumer import ConsumerGroup, ConsumerState
from broker_lite.coordinator.groups.settings import ConsumerSettings, GroupSettings
from broker_lite.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tests.coordinator.groups.test_consumer_groups import Consumer
from tests.coordinator.playbook import GROUP, Playbook

NAMES = st.sampled_from(["a", "b", "c", "d"])
SUBSCRIPTIONS = st.sampled_from([("t",), ("u",), ("t", "u"), ()])


class AnyConsumerHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.book = Playbook(GroupSettings(consumer=lambda _: ConsumerSettings(session_ms=10_000)))
        self.book.topics["t"] = 3
        self.book.topics["u"] = 2
        self.consumers: dict[str, Consumer] = {}
        self.started = 0

    @rule(name=NAMES, topics=SUBSCRIPTIONS, static=st.booleans(), pattern=st.sampled_from([None, "t.*"]))
    def start(self, name: str, topics: tuple[str, ...], static: bool, pattern: str | None) -> None:
        """Also when it runs already: then it was killed before."""
        self.started += 1
        self.consumers[name] = Consumer(
            self.book, f"{name}{self.started}", *topics, instance=name if static else None, pattern=pattern
        )

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def one_beats(self, data: st.DataObject) -> None:
        self._beat(self.consumers[data.draw(st.sampled_from(sorted(self.consumers)))])

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        consumer = self.consumers[data.draw(st.sampled_from(sorted(self.consumers)))]
        epoch, owns = consumer.epoch, consumer.owns
        self._beat(consumer)
        if consumer.epoch:
            consumer.epoch, consumer.owns, consumer.is_unsure = epoch, owns & consumer.owns, True

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def one_leaves(self, data: st.DataObject) -> None:
        consumer = self.consumers.pop(data.draw(st.sampled_from(sorted(self.consumers))))
        with suppress(UnknownMemberId, GroupIdNotFound, FencedInstanceId):
            consumer.say(epoch=-2 if consumer.instance else -1)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def one_dies(self, data: st.DataObject) -> None:
        del self.consumers[data.draw(st.sampled_from(sorted(self.consumers)))]

    @rule(topic=st.sampled_from(["t", "u", "t2"]), count=st.integers(1, 5))
    def a_topic_changes(self, topic: str, count: int) -> None:
        known = self.book.topics.get(topic)
        self.book.topics[topic] = max(count, known.partition_count if known else 0)

    @rule(seconds=st.sampled_from([0.1, 3.0, 8.0, 40.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.book.wait(seconds)

    @rule()
    def restart(self) -> None:
        self.book.restart()

    def _beat(self, consumer: Consumer) -> None:
        try:
            consumer.beat()
        except UnreleasedInstanceId:
            return  # the one before it is not known to be dead yet: try again later
        except (UnknownMemberId, FencedMemberEpoch, FencedInstanceId, GroupIdNotFound):
            consumer.epoch, consumer.owns = 0, frozenset()

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.book.groups.groups.get(GROUP) if hasattr(self, "book") else None
        if not isinstance(group, ConsumerGroup):
            return
        owned = [place for member in group.members.values() for place in member.assigned | member.revoking]
        assert len(owned) == len(set(owned))
        assert set(owned) == set(group.owners)
        told = [
            place for consumer in self.consumers.values() if consumer.name in group.members for place in consumer.owns
        ]
        assert len(told) == len(set(told)), "two living members believe that they own a partition"

    def teardown(self) -> None:
        if not getattr(self, "consumers", None):
            return
        for _ in range(40):
            for consumer in self.consumers.values():
                self._beat(consumer)
            self.book.wait(1)
        group = self.book.groups.group(GROUP)
        assert isinstance(group, ConsumerGroup)
        assert group.state is ConsumerState.STABLE
        for consumer in self.consumers.values():
            target = group.target.get(consumer.name, frozenset())
            assert consumer.owns == target == group.members[consumer.name].assigned
        read = {topic.id: topic.partition_count for topic in self.book.topics if topic.name in group.names}
        assert set(group.owners) == {(topic, at) for topic, count in read.items() for at in range(count)}


TestAnyConsumerHistory = AnyConsumerHistory.TestCase
TestAnyConsumerHistory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
