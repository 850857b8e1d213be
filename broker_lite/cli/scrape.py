"""The page that Prometheus reads: one small HTTP server beside the broker, in the same loop, so it sees no half state.

Topics and groups are named by clients.  At most `MOST_NAMES` of each become labels, in the order of their names; what
is beyond counts as one that is called `(other)`.

Anybody who reaches the page may read it, but not through somebody else's browser: see `host_header.py`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import anyio
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from broker_lite.broker.metrics import BOUNDS, Metrics
from broker_lite.broker.surviving import REST, surviving
from broker_lite.cli.host_header import host_of
from broker_lite.config.broker import METRICS_HOSTS
from broker_lite.errors import CoordinatorLoadInProgress

if TYPE_CHECKING:
    from anyio.abc import SocketListener, SocketStream

    from broker_lite.broker.broker import Broker

MOST_NAMES = 1000
OTHER = "(other)"
_LOOK_EVERY = 0.5
_REQUEST_MOST = 8192
_PATIENCE = 5.0
_AT_ONCE = 20
"""Visitors; further ones wait in the kernel's queue."""


class Page(Collector):
    """What the broker is and has done, in Prometheus' families."""

    def __init__(self, broker: Broker, metrics: Metrics) -> None:
        self._broker = broker
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._logs()
        yield self._lags()
        yield from self._kept()
        yield _gauge(
            "broker_lite_loop_lag_seconds", "How late the loop was when last looked at.", self._metrics.loop_lag
        )

    def _requests(self) -> Iterator[Metric]:
        received = CounterMetricFamily("broker_lite_received_bytes", "Bytes of requests.", labels=["api"])
        sent = CounterMetricFamily("broker_lite_sent_bytes", "Bytes of answers.", labels=["api"])
        seconds = HistogramMetricFamily(
            "broker_lite_request_seconds", "From a request's last byte to its answer, waiting included.", labels=["api"]
        )
        for api, found in sorted(self._metrics.apis.items()):
            received.add_metric([api], found.bytes)
            sent.add_metric([api], found.sent)
            total, buckets = 0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), found.buckets, strict=True):
                total += count
                buckets.append((bound, total))
            seconds.add_metric([api], buckets, found.seconds)
        yield received
        yield sent
        yield seconds

    def _logs(self) -> Iterator[Metric]:
        broker = self._broker
        sizes: Counter[str] = Counter()
        ends: Counter[str] = Counter()
        partitions = transactions = 0
        for partition in broker.topics.open_partitions():
            partitions += 1
            sizes[partition.tp.topic] += partition.log.size_bytes
            ends[partition.tp.topic] += partition.offsets.end - partition.offsets.start
            transactions += len(partition.open_transactions())
        yield _gauge("broker_lite_topics", "Topics.", len(broker.topics))
        yield _gauge("broker_lite_partitions", "Partitions that are open.", partitions)
        yield _gauge(
            "broker_lite_open_transactions", "Transactions that hold up readers, once for each partition.", transactions
        )
        yield _bounded("broker_lite_log_bytes", "Bytes on disk.", "topic", sizes)
        yield _bounded("broker_lite_log_offsets", "Offsets from start to end.", "topic", ends)

    def _kept(self) -> Iterator[Metric]:
        """What is held in memory for clients, and must stay level under a level load."""
        broker = self._broker
        groups = 0
        with contextlib.suppress(CoordinatorLoadInProgress):
            groups = sum(1 for _ in broker.groups)
        producers = sum(partition.producer_count for partition in broker.topics.open_partitions())
        yield _gauge("broker_lite_tasks", "Tasks of the event loop.", len(anyio.get_running_tasks()))
        yield _gauge("broker_lite_parked_requests", "Requests that wait in purgatory.", len(broker.purgatory))
        yield _gauge("broker_lite_fetch_sessions", "Fetch sessions (KIP-227).", len(broker.fetch_sessions))
        yield _gauge("broker_lite_groups", "Groups of consumers.", groups)
        yield _gauge("broker_lite_producers", "Idempotent producers, once for each partition.", producers)

    def _lags(self) -> Metric:
        topics, groups = self._broker.topics, self._broker.groups
        lags: Counter[str] = Counter()
        with contextlib.suppress(CoordinatorLoadInProgress):
            for group in groups:
                for topic, parts in groups.of(group.id).offsets.of(group.id).items():
                    known = topics.get(topic)
                    for index, committed in parts.items():
                        if known is not None and index < known.partition_count:
                            behind = topics.partition(topic, index).offsets.high - committed.offset
                            lags[group.id] += max(0, behind)
        return _bounded(
            "broker_lite_group_lag", "Records between what a group has committed and the end.", "group", lags
        )


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _bounded(name: str, about: str, label: str, values: Counter[str]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=[label])
    names = sorted(values)
    for one in names[:MOST_NAMES]:
        family.add_metric([one], values[one])
    if len(names) > MOST_NAMES:
        family.add_metric([OTHER], sum(values[one] for one in names[MOST_NAMES:]))
    return family


def page_of(broker: Broker, metrics: Metrics) -> Callable[[], bytes]:
    registry = CollectorRegistry()
    registry.register(Page(broker, metrics))
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)


async def watch_loop(metrics: Metrics) -> None:
    """How late is the loop? Somebody sleeps for a moment and looks at the clock."""
    while True:
        wanted = time.perf_counter() + _LOOK_EVERY
        await anyio.sleep(_LOOK_EVERY)
        metrics.loop_lag = max(0.0, time.perf_counter() - wanted)


def pushed_to(broker: Broker) -> Callable[[], bytes]:
    """What clients have told of themselves last (KIP-714), as JSON; their OpenTelemetry bytes in base64."""

    def page() -> bytes:
        told = [
            {**one.facts, "at_ms": one.at_ms, "metrics": base64.b64encode(one.metrics).decode()}
            for one in broker.telemetry.last.values()
        ]
        return json.dumps(told, indent=2).encode()

    return page


Pages = Mapping[bytes, tuple[str, Callable[[], bytes]]]
"""Path -> the kind of text, and how it is made."""


def pages_of(broker: Broker, metrics: Metrics) -> Pages:
    metrics_page = (CONTENT_TYPE_LATEST, page_of(broker, metrics))
    return {
        b"/": metrics_page,
        b"/metrics": metrics_page,
        b"/telemetry": ("application/json", pushed_to(broker)),
    }


HostCheck = Callable[[str], bool]


async def welcome(listener: SocketListener, pages: Pages, is_answered: HostCheck) -> None:
    """Answer whoever comes. That no more files can be opened, or that a page cannot be made, costs a visit and not the
    broker."""
    room = anyio.Semaphore(_AT_ONCE)

    async def visit(stream: SocketStream) -> None:
        try:
            with surviving("metrics"):
                await answer(stream, pages, is_answered)
        finally:
            room.release()

    async with anyio.create_task_group() as visitors:
        while True:
            await room.acquire()
            try:
                stream = await listener.accept()
            except OSError:
                room.release()
                await anyio.sleep(REST)
            else:
                visitors.start_soon(visit, stream)


async def answer(stream: SocketStream, pages: Pages, is_answered: HostCheck) -> None:
    """One request, one answer, good-bye."""
    async with stream:
        received = b""
        try:
            with anyio.fail_after(_PATIENCE):
                while b"\r\n\r\n" not in received and len(received) < _REQUEST_MOST:
                    received += await stream.receive()
                await stream.send(_response(received, pages, is_answered))
        except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


def _response(request: bytes, pages: Pages, is_answered: HostCheck) -> bytes:
    method, path, *_ = (*request.partition(b"\r\n")[0].split(b" "), b"", b"")
    found = pages.get(path.partition(b"?")[0])
    host = host_of(request)
    kind = "text/plain"
    if b"\r\n\r\n" not in request:
        status, body = "431 Request Header Fields Too Large", f"at most {_REQUEST_MOST} bytes\n".encode()
    elif host is None:
        status, body = "400 Bad Request", b"more than one Host\n"
    elif not is_answered(host):
        told = f"{host[:255]!a} is no name of this page; if it is, add it to {METRICS_HOSTS.name}\n"
        status, body = "403 Forbidden", told.encode()
    elif method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", b"only GET\n"
    elif found is None:
        status, body = "404 Not Found", b"there are /metrics and /telemetry\n"
    else:
        status, kind, body = "200 OK", found[0], found[1]()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
