"""Keys of Kafka that mean nothing to a single broker in Python: accepted, so that a file or an environment made for
Kafka works as it is, and never acted on.

Most concern a cluster, threads or a JVM and are noted in one debug line.  Those that ask for protection are warned of,
because a user who sets them believes to be protected.
"""

from __future__ import annotations

CLUSTER = "concerns a cluster"
MACHINERY = "concerns the inside of Kafka's own server"
SECURITY = "asks for security that this broker does not have"
NOTHING = "turns off what this broker does not have"

_BY_PREFIX = {
    "controller.": CLUSTER,
    "replica.": CLUSTER,
    "metadata.": CLUSTER,
    "replication.quota.": CLUSTER,
    "alter.log.dirs.": CLUSTER,
    "inter.broker.": CLUSTER,
    "leader.imbalance.": CLUSTER,
    "unclean.leader.election.interval.": CLUSTER,
    "broker.heartbeat.": CLUSTER,
    "broker.session.": CLUSTER,
    "remote.": MACHINERY,
    "metric.": MACHINERY,
    "metrics.": MACHINERY,
    "kafka.metrics.": MACHINERY,
    "telemetry.": MACHINERY,
    "group.share.": MACHINERY,
    "group.streams.": MACHINERY,
    "share.": MACHINERY,
    "internal.": MACHINERY,
    "zookeeper.": CLUSTER,
    "confluent.": MACHINERY,
    "ssl.": SECURITY,
    "sasl.": SECURITY,
    "listener.name.": SECURITY,
    "delegation.token.": SECURITY,
}
_BY_NAME = {
    CLUSTER: """
        process.roles auto.leader.rebalance.enable default.replication.factor offsets.topic.replication.factor
        transaction.state.log.replication.factor transaction.state.log.min.isr controlled.shutdown.enable
        early.start.listeners initial.broker.registration.timeout.ms num.replica.fetchers
        num.replica.alter.log.dirs.threads security.inter.broker.protocol request.timeout.ms
        add.partitions.to.txn.retry.backoff.ms add.partitions.to.txn.retry.backoff.max.ms cordoned.log.dirs
        follower.fetch.last.tiered.offset.enable socket.connection.setup.timeout.ms
        socket.connection.setup.timeout.max.ms sasl.mechanism.inter.broker.protocol
        sasl.mechanism.controller.protocol
    """,
    MACHINERY: """
        background.threads num.io.threads num.network.threads num.recovery.threads.per.data.dir queued.max.requests
        fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
        delete.records.purgatory.purge.interval.requests log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size
        log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second log.cleaner.threads
        log.dir.failure.timeout.ms log.initial.task.delay.ms log.flush.start.offset.checkpoint.interval.ms
        group.coordinator.threads group.coordinator.background.threads group.coordinator.append.linger.ms
        group.coordinator.cached.buffer.max.bytes
        group.consumer.regex.refresh.interval.ms offsets.load.buffer.size offsets.commit.timeout.ms
        offsets.topic.compression.codec transaction.state.log.load.buffer.size transaction.two.phase.commit.enable
        quota.window.num quota.window.size.seconds client.quota.callback.class config.providers
        create.topic.policy.class.name server.max.startup.time.ms
        socket.listen.backlog.size socket.send.buffer.bytes socket.receive.buffer.bytes
        log.flush.offset.checkpoint.interval.ms
        unstable.api.versions.enable unstable.feature.versions.enable alter.config.policy.class.name
    """,
    SECURITY: """
        authorizer.class.name super.users allow.everyone.if.no.acl.found principal.builder.class security.providers
        connection.failed.authentication.delay.ms connections.max.reauth.ms
    """,
}
_REASONS = {name: reason for reason, names in _BY_NAME.items() for name in names.split()}

_DYNAMIC = """
    background.threads config.providers cordoned.log.dirs follower.fetch.last.tiered.offset.enable
    group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms
    group.streams.assignment.interval.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads
    metric.reporters num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
    remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.follower.thread.pool.size remote.log.reader.threads share.coordinator.cached.buffer.max.bytes
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
"""
DYNAMIC = frozenset(_DYNAMIC.split())
"""Those that Kafka lets change in a running broker; here they are kept and shown."""


def why_elsewhere(name: str) -> str | None:
    """The reason why Kafka's key `name` has no effect here; None if it is not such a key."""
    if name in _REASONS:
        return _REASONS[name]
    for prefix, reason in _BY_PREFIX.items():
        if name.startswith(prefix):
            return reason
    return None


def known_elsewhere() -> tuple[str, ...]:
    return tuple(_REASONS)
