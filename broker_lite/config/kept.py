"""Kafka's keys that have no effect here, with their types and defaults: a client that asks a broker for one finds it.

Programs look up `default.replication.factor`, `num.io.threads` or `log.cleaner.threads` and expect an answer, and tools
change some of them.  Whatever was set is kept and shown, Kafka's default otherwise; where it depends on the size of the
cluster it is the value of a cluster of one.  Keys that ask for protection are left out: to show them would promise it.
How often a broker logs in elsewhere protects nobody, and librdkafka's tests change it.
"""

from __future__ import annotations

from functools import cache

from broker_lite.config import elsewhere
from broker_lite.config.key import Key, Kind
from broker_lite.errors import InvalidConfig

_TABLE = {
    Kind.BOOLEAN: """
        auto.leader.rebalance.enable=true controlled.shutdown.enable=true controller.quorum.auto.join.enable=false
        follower.fetch.last.tiered.offset.enable=false remote.log.storage.system.enable=false
        transaction.two.phase.commit.enable=false
    """,
    Kind.STRING: """
        inter.broker.listener.name metadata.log.dir metrics.recording.level=INFO
        remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix=rlmm.config.
        remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix=rsm.config.
        replica.selector.class security.inter.broker.protocol=PLAINTEXT
        sasl.kerberos.kinit.cmd=/usr/bin/kinit
    """,
    Kind.INT: """
        add.partitions.to.txn.retry.backoff.max.ms=100 add.partitions.to.txn.retry.backoff.ms=20
        alter.log.dirs.replication.quota.window.num=11 alter.log.dirs.replication.quota.window.size.seconds=1
        background.threads=10 broker.heartbeat.interval.ms=2000 broker.id=-1 broker.session.timeout.ms=9000
        controller.quorum.append.linger.ms=25 controller.quorum.election.backoff.max.ms=1000
        controller.quorum.election.timeout.ms=1000 controller.quorum.fetch.max.bytes=1048576
        controller.quorum.fetch.snapshot.max.bytes=1048576 controller.quorum.fetch.timeout.ms=2000
        controller.quorum.request.timeout.ms=2000 controller.quorum.retry.backoff.ms=20 controller.quota.window.num=11
        controller.quota.window.size.seconds=1 controller.socket.timeout.ms=30000 default.replication.factor=1
        delete.records.purgatory.purge.interval.requests=1 fetch.purgatory.purge.interval.requests=1000
        group.coordinator.append.linger.ms=-1 group.coordinator.background.threads=2
        group.coordinator.cached.buffer.max.bytes=1048588 group.coordinator.threads=4
        group.share.assignment.interval.ms=1000 group.share.delivery.count.limit=5
        group.share.heartbeat.interval.ms=5000 group.share.max.assignment.interval.ms=15000
        group.share.max.delivery.count.limit=10 group.share.max.heartbeat.interval.ms=15000
        group.share.max.partition.max.record.locks=4000 group.share.max.record.lock.duration.ms=60000
        group.share.max.session.timeout.ms=60000 group.share.max.share.sessions=2000 group.share.max.size=200
        group.share.min.assignment.interval.ms=0 group.share.min.delivery.count.limit=2
        group.share.min.heartbeat.interval.ms=5000 group.share.min.partition.max.record.locks=100
        group.share.min.record.lock.duration.ms=15000 group.share.min.session.timeout.ms=45000
        group.share.partition.max.record.locks=2000 group.share.record.lock.duration.ms=30000
        group.share.session.timeout.ms=45000 group.streams.assignment.interval.ms=1000
        group.streams.heartbeat.interval.ms=5000 group.streams.initial.rebalance.delay.ms=3000
        group.streams.max.assignment.interval.ms=15000 group.streams.max.heartbeat.interval.ms=15000
        group.streams.max.session.timeout.ms=60000 group.streams.max.size=2147483647
        group.streams.max.standby.replicas=2 group.streams.min.assignment.interval.ms=0
        group.streams.min.heartbeat.interval.ms=5000 group.streams.min.session.timeout.ms=45000
        group.streams.num.standby.replicas=0 group.streams.session.timeout.ms=45000
        initial.broker.registration.timeout.ms=60000 kafka.metrics.polling.interval.secs=10
        log.cleaner.io.buffer.size=524288 log.cleaner.threads=1 log.flush.offset.checkpoint.interval.ms=60000
        log.flush.start.offset.checkpoint.interval.ms=60000
        metadata.log.segment.bytes=1073741824 metadata.max.idle.interval.ms=500 metrics.num.samples=2 num.io.threads=8
        num.network.threads=3 num.recovery.threads.per.data.dir=2 num.replica.alter.log.dirs.threads
        num.replica.fetchers=1 offsets.commit.timeout.ms=5000 offsets.load.buffer.size=5242880
        offsets.topic.compression.codec=0 producer.purgatory.purge.interval.requests=1000 queued.max.requests=500
        quota.window.num=11 quota.window.size.seconds=1 remote.fetch.max.wait.ms=500
        remote.log.manager.copier.thread.pool.size=10 remote.log.manager.copy.quota.window.num=11
        remote.log.manager.copy.quota.window.size.seconds=1 remote.log.manager.expiration.thread.pool.size=10
        remote.log.manager.fetch.quota.window.num=11 remote.log.manager.fetch.quota.window.size.seconds=1
        remote.log.manager.follower.thread.pool.size=2 remote.log.manager.thread.pool.size=2
        remote.log.metadata.custom.metadata.max.bytes=128 remote.log.reader.max.pending.tasks=100
        remote.log.reader.threads=10 replica.fetch.backoff.ms=1000 replica.fetch.max.bytes=1048576
        replica.fetch.min.bytes=1 replica.fetch.response.max.bytes=10485760 replica.fetch.wait.max.ms=500
        replica.socket.receive.buffer.bytes=65536 replica.socket.timeout.ms=30000 replication.quota.window.num=11
        replication.quota.window.size.seconds=1 request.timeout.ms=30000 share.coordinator.append.linger.ms=-1
        share.coordinator.cached.buffer.max.bytes=1048588 share.coordinator.load.buffer.size=5242880
        share.coordinator.snapshot.update.records.per.snapshot=500 share.coordinator.state.topic.compression.codec=0
        share.coordinator.state.topic.num.partitions=50 share.coordinator.state.topic.segment.bytes=104857600
        share.coordinator.threads=1 share.coordinator.write.timeout.ms=5000
        share.fetch.purgatory.purge.interval.requests=1000 socket.listen.backlog.size=50
        socket.receive.buffer.bytes=102400 socket.send.buffer.bytes=102400
        transaction.state.log.load.buffer.size=5242880 transaction.state.log.min.isr=1
    """,
    Kind.SHORT: """
        offsets.topic.replication.factor=1 share.coordinator.state.topic.min.isr=1
        share.coordinator.state.topic.replication.factor=1 transaction.state.log.replication.factor=1
        sasl.login.refresh.buffer.seconds=300 sasl.login.refresh.min.period.seconds=60
    """,
    Kind.LONG: """
        leader.imbalance.check.interval.seconds=300 log.cleaner.dedupe.buffer.size=134217728
        log.dir.failure.timeout.ms=30000 metadata.log.max.record.bytes.between.snapshots=20971520
        metadata.log.max.snapshot.interval.ms=3600000 metadata.log.segment.ms=604800000
        metadata.max.retention.bytes=104857600 metadata.max.retention.ms=604800000 metrics.sample.window.ms=30000
        remote.list.offsets.request.timeout.ms=30000 remote.log.index.file.cache.total.size.bytes=1073741824
        remote.log.manager.copy.max.bytes.per.second=9223372036854775807
        remote.log.manager.fetch.max.bytes.per.second=9223372036854775807 remote.log.manager.task.interval.ms=30000
        replica.high.watermark.checkpoint.interval.ms=5000 replica.lag.time.max.ms=30000
        socket.connection.setup.timeout.max.ms=30000 socket.connection.setup.timeout.ms=10000
        sasl.kerberos.min.time.before.relogin=60000
    """,
    Kind.DOUBLE: """
        log.cleaner.io.buffer.load.factor=0.9 log.cleaner.io.max.bytes.per.second=1.7976931348623157E308
        sasl.kerberos.ticket.renew.jitter=0.05 sasl.kerberos.ticket.renew.window.factor=0.8
        sasl.login.refresh.window.factor=0.8 sasl.login.refresh.window.jitter=0.05
    """,
    Kind.LIST: """
        config.providers= controller.quorum.bootstrap.servers= controller.quorum.voters= cordoned.log.dirs=
        early.start.listeners group.share.assignors=simple kafka.metrics.reporters= log.dir=/tmp/kafka-logs
        metric.reporters=org.apache.kafka.common.metrics.JmxReporter process.roles=broker,controller
    """,
    Kind.CLASS: """
        alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
    """,
}
"""`name=default`, or the name alone where the default is null."""


@cache
def kept_keys() -> dict[str, Key[object]]:
    """Made when first asked for: a start has no need of them."""
    found: dict[str, Key[object]] = {}
    for kind, words in _TABLE.items():
        for word in words.split():
            name, given, text = word.partition("=")
            why = elsewhere.why_elsewhere(name) or elsewhere.MACHINERY
            default = Key(name, kind, None, "").parse(text) if given else None
            found[name] = Key(name, kind, default, "A key of Kafka.", dynamic=name in elsewhere.DYNAMIC, ignored=why)
    return found


def may_keep(name: str, text: str) -> bool:
    """Whether `name` is such a key and `text` a value of its type; other text is as good as never said."""
    key = kept_keys().get(name)
    try:
        return key is not None and key.parse(text) is not None
    except InvalidConfig:
        return False
