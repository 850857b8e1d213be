"""The broker: everything joined.

It is opened by replaying what is on disk, lives while its task group lives, and is closed by writing down how far it
came.  Rooms below change state in plain functions; what waits (fetches, syncs, group members) waits here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from broker_lite.broker import acls, configs, features, producer_ids, quotas, topics, users
from broker_lite.broker.acls import Acls
from broker_lite.broker.adoption import adopt, highest_producer_id
from broker_lite.broker.configs import Configs
from broker_lite.broker.creating import Creating
from broker_lite.broker.data_folder import DataFolder
from broker_lite.broker.features import FeatureLevels, Features
from broker_lite.broker.fetch_sessions import FetchSessions
from broker_lite.broker.flusher import Flusher
from broker_lite.broker.groups import GroupCoordinator
from broker_lite.broker.journal import Change, Journal, Kind
from broker_lite.broker.log_starts import LogStarts
from broker_lite.broker.metrics import Metrics
from broker_lite.broker.partitions import Partitions
from broker_lite.broker.producer_ids import ProducerIds
from broker_lite.broker.purgatory import Purgatory
from broker_lite.broker.quotas import Quotas
from broker_lite.broker.removal import Removal
from broker_lite.broker.responses import ResponseBudget
from broker_lite.broker.settling import Settling
from broker_lite.broker.telemetry import Telemetry
from broker_lite.broker.topics import Topic, Topics
from broker_lite.broker.transactions import Transactions
from broker_lite.broker.upkeep import Upkeep
from broker_lite.broker.users import Users
from broker_lite.clock import Clock
from broker_lite.config import broker as keys
from broker_lite.config import coordination
from broker_lite.config.key import Scope
from broker_lite.config.start import Durability, StartOptions, TopicAtStart
from broker_lite.errors import BrokerError, StartRefused, StorageFailed
from broker_lite.ids import GROUP_OFFSETS_TOPIC, INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from broker_lite.log.disk import Disk, MemoryDisk, RealDisk
from broker_lite.logs import get_logger
from broker_lite.partition.partition import Partition
from broker_lite.wire.codec import Piece
from broker_lite.wire.messages.k03_metadata import MetadataResponse

log = get_logger(__name__)

INFLATING = 2
"""Threads that look into batches: each may hold what a bomb becomes when it is inflated."""


class Broker:
    def __init__(self, options: StartOptions, clock: Clock, tasks: anyio.abc.TaskGroup, folder: DataFolder) -> None:
        self.options = options
        self.settings = options.settings
        self.clock = clock
        self.tasks = tasks
        self.node_id = options.node_id
        self.rack = self.settings.get(keys.BROKER_RACK)
        self.folder = folder
        self.cluster_id = folder.identify(node_id=options.node_id, cluster_id=options.cluster_id)
        self.purgatory = Purgatory(clock)
        self.flusher = Flusher(self.purgatory, tasks, active=options.durability is Durability.FSYNC)
        self.fetch_sessions = FetchSessions(self.settings.get(keys.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS))
        self._journal = Journal.open(folder.path, folder.disk, now_ms=clock.now_ms(), sync=self.flusher.active)
        self.settling = Settling(self._journal, tasks, clock, awaited=self.flusher.active)
        self.producer_ids = ProducerIds(self._write)
        self.topics = Topics(
            Partitions(folder, self.settings, options.durability, clock),
            self._write,
            self.settings,
            lambda: self._journal.end,
        )
        if self.flusher.active:
            self.settling.on_failed = self.topics.journal_lost
        self.configs = Configs(self.settings, self.node_id, self._write)
        self.configs.on_change.append(self._reconfigure)
        self.telemetry = Telemetry(self.settings, self.configs, clock)
        self.features_on = FeatureLevels(self._write)
        self.users = Users(self._write)
        self.acls = Acls(self.settings, self._write)
        self.quotas = Quotas(self._write, clock.monotonic)
        self.kept: dict[tuple[object, ...], tuple[int, MetadataResponse, list[Piece]]] = {}
        """Answers that name all topics, with the version of the catalogue that they tell of."""
        self.inflating = anyio.CapacityLimiter(INFLATING)
        self.responses = ResponseBudget()
        self.metrics: Metrics | None = None
        """Somebody who wants to know."""
        self.groups = GroupCoordinator(self)
        self.transactions = Transactions(self)
        self.upkeep = Upkeep(self)
        self.log_starts = LogStarts(folder, self.topics, tasks, sync=self.flusher.active)
        self.removal = Removal(self)
        self.stopped_cleanly = False
        self.creating = Creating(tasks, clock, self._auto_create, lambda: len(self.topics))

    # ---- life

    @classmethod
    @asynccontextmanager
    async def running(cls, options: StartOptions, clock: Clock, disk: Disk | None = None) -> AsyncIterator[Broker]:
        """The broker of `options`, open while the block runs. StartRefused if it cannot be opened."""
        if disk is None:
            disk = MemoryDisk() if options.durability is Durability.MEMORY else RealDisk()
        folder = DataFolder.open(options.data, disk)
        clean = False
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    broker = cls(options, clock, tasks, folder)
                    broker._load()
                    await broker.transactions.complete_prepared()
                except (BrokerError, OSError) as error:
                    raise StartRefused(f"the data folder {options.data} cannot be opened: {error}") from error
                tasks.start_soon(broker.groups.run)
                tasks.start_soon(broker.upkeep.run)
                tasks.start_soon(broker.removal.run)
                yield broker
                tasks.cancel_scope.cancel()
            clean = broker._close()
        finally:
            clean = folder.close(clean=clean)
        broker.stopped_cleanly = clean

    def _load(self) -> None:
        kinds = self._journal_kinds()
        self._journal.load(kinds)
        adopted = adopt(self.folder.path, self.folder.disk, self.topics, lambda name: self._internal(name)[1])
        self.folder.begin()  # until now nothing was changed, and whoever was refused finds all as it was
        self._journal.begin()
        if adopted:
            self._write(adopted)
            for change in adopted:
                kinds[change.kind].apply(change)
        if self.producer_ids.has_implausible_block:
            log.warning("producer_ids.reset", reason="the journal has a block that no count can have reached")
            self.producer_ids.reset(highest_producer_id(self.folder.path, self.folder.disk))
        self.topics.open_all()
        strangers = {change.name for change in adopted}
        for partition in self.topics.open_partitions():
            if partition.tp.topic in strangers:  # its clients heard of another epoch when Kafka stopped
                partition.lead(partition.leader_epoch + 1)
        self.groups.begin()
        self.transactions.load()
        for asked in self.options.topics:
            self._make_at_start(asked)
        self.folder.checkpoint(self.topics.open_partitions(), sync=self.flusher.active)
        self._journal.sync = False  # from now on there is somebody who waits: see `settling`

    def _journal_kinds(self) -> dict[str, Kind]:
        return {
            topics.TOPIC: Kind(self.topics.apply, topics.TOPIC_FIELDS),
            topics.DELETED: Kind(self.topics.apply, topics.DELETED_FIELDS),
            producer_ids.KIND: Kind(self.producer_ids.apply, producer_ids.FIELDS),
            configs.KIND: Kind(self.configs.apply, configs.FIELDS),
            features.KIND: Kind(self.features_on.apply, features.FIELDS),
            users.KIND: Kind(self.users.apply, users.FIELDS),
            acls.KIND: Kind(self.acls.apply, acls.FIELDS),
            quotas.KIND: Kind(self.quotas.apply, None),
        }

    def _make_at_start(self, asked: TopicAtStart) -> None:
        if self.topics.get(asked.name) is None:
            try:
                self.topics.create(
                    asked.name, asked.partitions or self.settings.get(keys.NUM_PARTITIONS), asked.configs
                )
            except BrokerError as error:
                raise StartRefused(f"--topic {asked.name}: {error.message}") from None

    def _close(self) -> bool:
        """Everything to disk. True if nothing is left to recover at the next start."""
        clean = True
        for partition in self.topics.open_partitions():
            try:
                partition.close(clean=True)
            except StorageFailed as error:
                clean = False
                log.error("partition.not_closed", partition=str(partition.tp), reason=error.message)
        try:
            self._journal.close()
            self.folder.checkpoint(self.topics.open_partitions(), sync=True)
        except (StorageFailed, OSError) as error:
            clean = False
            log.error("data_folder.not_closed", path=str(self.folder.path), reason=str(error))
        return clean

    # ---- what the APIs ask

    def advertised(self, listener: str, local: tuple[str, int]) -> tuple[str, int]:
        """The address for a client that came in by `listener` at `local`."""
        wanted = self.options.advertised.get(listener)
        if wanted is not None:
            return wanted.host, wanted.port or local[1]
        return local

    def features(self) -> Features:
        """Those that a client acts on, and Kafka's own two that its tools expect to see."""
        return self.features_on.told()

    @property
    def journal_end(self) -> int:
        return self._journal.end

    def appended(self, partition: Partition) -> None:
        """Records were written to `partition`: see that they become durable and that readers hear of it."""
        if self.flusher.active:
            self.flusher.kick(partition)
        else:
            self.purgatory.wake(partition.tp)

    def _auto_create(self, name: str) -> None:
        """A topic that somebody asked for by name, unless it was made meanwhile."""
        if name in INTERNAL_TOPICS:
            self.internal_topic(name)
        elif self.topics.get(name) is None:
            topic = self.topics.create(name, self.settings.get(keys.NUM_PARTITIONS), {})
            log.info("topic.auto_created", topic=name, partitions=topic.partition_count)

    def internal_topic(self, name: str) -> Topic:
        """A coordinator's topic, made on first use; its partitions likewise."""
        return self.topics.get(name) or self.topics.create(name, *self._internal(name))

    def _internal(self, name: str) -> tuple[int, dict[str, str]]:
        get = self.settings.get
        if name == GROUP_OFFSETS_TOPIC:
            segment = get(coordination.OFFSETS_TOPIC_SEGMENT_BYTES)
            return get(coordination.OFFSETS_TOPIC_NUM_PARTITIONS), {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(segment),
            }
        assert name == TRANSACTION_STATE_TOPIC, name
        segment = get(coordination.TRANSACTION_STATE_LOG_SEGMENT_BYTES)
        return get(coordination.TRANSACTION_STATE_LOG_NUM_PARTITIONS), {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(segment),
            "unclean.leader.election.enable": "false",
        }

    def delete_topic(self, topic: Topic) -> None:
        self.delete_topics([topic])

    def delete_topics(self, topics: list[Topic]) -> None:
        self.topics.delete_all(topics)
        # A coordinator that has lost its own topic first: it must not make it again to tell of the others.
        for topic in sorted(topics, key=lambda one: not one.is_internal):
            self.transactions.on_topic_deleted(topic.name)
            self.groups.on_topic_deleted(topic.name)
            for tp in topic.partitions():
                self.purgatory.wake(tp)

    def _write(self, changes: list[Change]) -> None:
        self._journal.write(changes, self.clock.now_ms())
        if self.options.durability is not Durability.MEMORY and not self._journal.sync:
            self.settling.kick()

    def _reconfigure(self, scope: Scope, name: str) -> None:
        if scope is Scope.BROKER:
            self.topics.reconfigure()
