"""A live broker on a disk that refuses, fills up and heals, while clients work and housekeeping runs often.

    python -m tests.crash.live --durability fsync --seed 7 --steps 3000

Nothing is killed: the broker goes on.  But now and then its folder is copied as a crash would leave it, with what the
clients knew at that moment; in `fsync` mode a part of what was not synced is lost from the copy.  In the end the disk
heals, the broker is looked at, stopped cleanly and started again; then each copy is started.  Everything that was
acknowledged has to be there once, in its place, and nothing that was refused.  See `live_model`.

The same seed is the same clients and the same weather, but threads are threads: a run is repeated closely, not exactly.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import structlog.testing

from broker_lite.clock import ManualClock
from broker_lite.config.start import Durability
from broker_lite.log.disk import RealDisk
from broker_lite.log.fsck import examine_all
from broker_lite.records.build import NewRecord, build_batch
from tests.crash.live_clients import Anomaly, LiveClient
from tests.crash.live_model import Told, anomalies
from tests.crash.refusing_disk import RefusingDisk, brokers_on
from tests.crash.weather import Weather
from tests.support.talk import NOW, Talk, talking

CLIENTS = 4
SETTINGS = {
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "100",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "producer.id.expiration.check.interval.ms": "5000",
}
MISTAKES = ("background.failed", "request.failed")


@dataclass
class Copy:
    """The folder at a moment, and what was known then."""

    path: Path
    told: list[Told]
    now_ms: int
    power_cut: bool


@dataclass
class Run:
    durability: Durability
    seed: int
    steps: int
    root: Path
    copies: list[Copy] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    offline: list[str] = field(default_factory=list)

    async def live(self) -> None:
        chance = random.Random(self.seed)
        disk, clock = RefusingDisk(), ManualClock(NOW)
        with brokers_on(disk), structlog.testing.capture_logs() as events:
            async with talking(self.root / "data", clock, durability=self.durability, settings=SETTINGS) as talk:
                clients = self._clients(talk, clock, chance)
                weather = Weather(disk, chance, syncs=self.durability is Durability.FSYNC)
                await self._work(clients, disk, clock, weather, chance)
                disk.heal()
                await _rest(clock)
                told = [client.told for client in clients]
                self._look(talk, told, clock.now_ms(), "live")
                self.offline = [one.log.offline for one in talk.broker.topics.open_partitions() if one.log.offline]
                healthy = not self.offline and not talk.broker._journal.offline
            if healthy and not talk.broker.stopped_cleanly:
                raise Anomaly(f"a healthy broker was not stopped cleanly: {events[-3:]}")
        if wrong := [event for event in events if event["event"] in MISTAKES]:
            raise Anomaly(f"mistakes: {wrong[0]}")
        if healthy:
            findings = [str(one) for log in examine_all(RealDisk(), self.root / "data") for one in log.findings]
            if findings:
                raise Anomaly(f"fsck: {findings}")
        self.copies.append(Copy(self.root / "data", told, clock.now_ms(), power_cut=False))

    def _clients(self, talk: Talk, clock: ManualClock, chance: random.Random) -> list[LiveClient]:
        definite = self.durability is Durability.OS
        made = []
        for number in range(CLIENTS):
            mine = random.Random(chance.randrange(1 << 30))
            made.append(LiveClient(number, Talk(talk.broker), clock, mine, definite=definite))
            made[-1].answers = self.answers
        return made

    async def _work(
        self,
        clients: list[LiveClient],
        disk: RefusingDisk,
        clock: ManualClock,
        weather: Weather,
        chance: random.Random,
    ) -> None:
        copy_at = set(chance.sample(range(self.steps // 10, self.steps), 3))
        done = 0

        async def work(client: LiveClient) -> None:
            nonlocal done
            while done < self.steps:
                await client.step()
                done += 1
                if not done % 4:
                    weather.step()
                if not done % 3:
                    clock.advance(chance.choice((0.05, 0.3, 1.0)))
                    await asyncio.sleep(0)
                if done in copy_at:
                    self._copy(disk, clients, clock, chance)

        try:
            async with asyncio.TaskGroup() as tasks:
                for client in clients:
                    tasks.create_task(work(client))
        except* Anomaly as group:
            raise Anomaly(f"{group.exceptions[0]}; the disk: {weather.seen[-6:]}") from group

    def _copy(self, disk: RefusingDisk, clients: list[LiveClient], clock: ManualClock, chance: random.Random) -> None:
        keep = chance.choice(((0, 1), (1, 2), (1, 1))) if self.durability is Durability.FSYNC else (1, 1)
        path = disk.crash_copy(self.root / "data", self.root / f"copy-{len(self.copies)}", keep=keep)
        told = copy.deepcopy([client.told for client in clients])
        self.copies.append(Copy(path, told, clock.now_ms(), power_cut=keep != (1, 1)))

    def _look(self, talk: Talk, told: list[Told], now_ms: int, where: str, *, power_cut: bool = False) -> None:
        for one in told:
            for wrong in anomalies(talk.broker, one, now_ms=now_ms, power_cut=power_cut):
                raise Anomaly(f"{where}: {wrong}")

    async def start_again(self) -> None:
        """Each copy, and the folder itself: everything is there, and can be written to."""
        for one in self.copies:
            clock = ManualClock(one.now_ms)
            with structlog.testing.capture_logs() as events:
                async with talking(one.path, clock, durability=self.durability, settings=SETTINGS) as talk:
                    self._look(talk, one.told, one.now_ms, one.path.name, power_cut=one.power_cut)
                    await _write_everywhere(talk)
                    await _rest(clock)
            if wrong := [event for event in events if event["event"] in MISTAKES]:
                raise Anomaly(f"mistakes after a start: {wrong[0]}")


async def _write_everywhere(talk: Talk) -> None:
    for topic in list(talk.broker.topics):
        for index in range(topic.partition_count):
            batch = build_batch([NewRecord(b"key", b"after")], timestamp=talk.broker.clock.now_ms())
            answer = await talk.produce(topic.name, partition=index, batch=batch)
            if answer.error_code:
                raise Anomaly(f"after a start {topic.name}-{index} takes nothing: {answer.error_message}")


async def _rest(clock: ManualClock) -> None:
    """A while in which nobody asks for anything."""
    for _ in range(40):
        clock.advance(1.0)
        await asyncio.sleep(0.002)


async def run(durability: Durability, seed: int, steps: int, folder: Path) -> Run:
    made = Run(durability, seed, steps, folder)
    before = descriptors()
    await made.live()
    await made.start_again()
    if descriptors() > before:
        raise Anomaly(f"{descriptors() - before} descriptors were left open")
    return made


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--durability", type=Durability, default=Durability.OS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1500)
    args = parser.parse_args()
    failed = 0
    for seed in range(args.seed, args.seed + args.runs):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            try:
                made = asyncio.run(run(args.durability, seed, args.steps, Path(folder)))
                print(f"seed {seed}: fine, offline {made.offline}, {made.answers}", flush=True)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failed += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
                if not isinstance(error, Anomaly):
                    import traceback

                    traceback.print_exc()
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
