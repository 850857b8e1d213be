"""A group's own word on its session, its heartbeats and its assignments: live, kept, and within the broker's bounds."""

from __future__ import annotations

from pathlib import Path

from broker_lite.clock import ManualClock
from broker_lite.config import resources
from broker_lite.config.key import Scope
from broker_lite.config.start import Durability
from broker_lite.coordinator.groups.heartbeat import Beat
from broker_lite.coordinator.groups.settings import ConsumerSettings
from tests.support.talk import NOW, Talk, talking


def configure(talk: Talk, scope: Scope, name: str, **texts: str) -> None:
    said = {key.replace("_", "."): text for key, text in texts.items()}
    resources.check(scope, said, talk.broker.settings, changed=set(said))
    talk.broker.configs.set(scope, name, said)


def now_for(talk: Talk, group: str) -> ConsumerSettings:
    return talk.broker.groups.settings.consumer(group)


def interval_told(talk: Talk, epoch: int) -> int:
    beat = Beat(group="g", member_id="m", epoch=epoch)
    if epoch == 0:
        beat.rebalance_timeout_ms, beat.topics, beat.owned = 1000, ["t"], frozenset()
    return talk.broker.groups.beat(beat).interval_ms


async def test_a_groups_word_holds_from_the_next_heartbeat_on(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        assert interval_told(talk, 0) == 5000
        configure(talk, Scope.GROUP, "g", consumer_heartbeat_interval_ms="7000", consumer_session_timeout_ms="50000")
        assert interval_told(talk, 2) == 7000
        assert now_for(talk, "g") == ConsumerSettings(50_000, 7_000, 0)
        assert now_for(talk, "another") == ConsumerSettings(45_000, 5_000, 0)
        configure(talk, Scope.GROUP, "g")
        assert interval_told(talk, 2) == 5000


async def test_the_session_that_a_group_has_is_the_one_that_ends(tmp_path: Path) -> None:
    clock = ManualClock(now_ms=NOW)
    async with talking(tmp_path, clock) as talk:
        configure(talk, Scope.GROUP, "g", consumer_session_timeout_ms="60000")
        interval_told(talk, 0)
        groups = talk.broker.groups
        clock.advance(59)
        await groups._tick()
        assert len(groups.of("g").group("g").members) == 1
        clock.advance(2)
        await groups._tick()
        assert not groups.of("g").group("g").members


async def test_the_brokers_interval_may_change_while_it_runs(tmp_path: Path) -> None:
    async with talking(tmp_path) as talk:
        configure(talk, Scope.BROKER, "", group_consumer_assignment_interval_ms="900")
        assert now_for(talk, "g").assignment_interval_ms == 900
        configure(talk, Scope.GROUP, "g", consumer_assignment_interval_ms="100")
        assert now_for(talk, "g").assignment_interval_ms == 100
        configure(talk, Scope.BROKER, "")
        assert (now_for(talk, "g").assignment_interval_ms, now_for(talk, "h").assignment_interval_ms) == (100, 0)


async def test_bounds_that_were_moved_since_bound_what_was_said_before(tmp_path: Path) -> None:
    async with talking(tmp_path, durability=Durability.OS) as talk:
        configure(talk, Scope.GROUP, "g", consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="6000")
    narrower = {
        "group.consumer.max.session.timeout.ms": "50000",
        "group.consumer.min.heartbeat.interval.ms": "8000",
        "group.consumer.heartbeat.interval.ms": "8000",
    }
    async with talking(tmp_path, durability=Durability.OS, settings=narrower) as talk:
        assert now_for(talk, "g") == ConsumerSettings(50_000, 8_000, 0)
