"""broker-lite serve: from the command line to a running broker, and back to a quiet end.

    flags, environment, file -> Settings -> StartOptions -> Broker -> listeners -> one line on stdout

A start that is refused says why in one line and exits with 1.  SIGTERM and SIGINT stop accepting, let requests in
progress finish for the grace, and close the data folder cleanly.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite import logs
from broker_lite.cli import STARTED, nobody_reads
from broker_lite.cli.parts import Parser, pair
from broker_lite.config import broker as keys
from broker_lite.config import properties, security
from broker_lite.config.listeners import Listener, format_address, named
from broker_lite.config.sources import Note, Settings, resolve
from broker_lite.config.start import Durability, StartOptions, parse_topic, start_options
from broker_lite.errors import StartRefused

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup

    from broker_lite.broker.broker import Broker
    from broker_lite.server.limits import Limits

log = logs.get_logger(__name__)

MOMENT = 1.0
"""After a start, in seconds."""


def parser() -> Parser:
    made = Parser(prog="broker-lite serve", description="Run the broker.")
    add = made.add_argument
    add("--listen", metavar="[NAME://]HOST:PORT", action="append", help="repeatable; port 0 is any (127.0.0.1:9092)")
    add("--advertise", metavar="[NAME://]HOST:PORT", action="append", help="what clients are told; repeatable")
    add("--data", metavar="DIR", help="the data folder (data)")
    add("--durability", choices=[mode.value for mode in Durability], help="what an acknowledgement promises (os)")
    add("--recover", choices=keys.RECOVER.choices, help="what is done with a log that is damaged in the middle (keep)")
    add("--node-id", metavar="N", help="this broker's number (1)")
    add("--cluster-id", metavar="ID", help="(that of the data folder, or a new one)")
    add(
        "--topic",
        metavar="NAME[:PARTITIONS][,KEY=VALUE…]",
        action="append",
        default=[],
        help="a topic to be made; repeatable",
    )
    add("--sasl-user", metavar="NAME:PASSWORD", action="append", help="clients log in as one of these; repeatable")
    add("--tls", metavar="DIR", type=Path, help="speak TLS with the certificates that `broker-lite certs DIR` made")
    add("--strict", action="store_true", help="refuse to start where anybody in the network may do anything")
    add("--config", metavar="FILE", type=Path, help="a Kafka .properties file")
    add("--set", metavar="KEY=VALUE", type=pair, action="append", default=[], help="any key of `broker-lite settings`")
    add("--metrics", metavar="HOST:PORT", help="a page that Prometheus reads (none)")
    add("--log-format", choices=("pretty", "json"), help="(pretty on a terminal, json elsewhere)")
    add("--ready-file", metavar="PATH", type=Path, help="written with the bound addresses, as JSON, once ready")
    return made


def run(args: argparse.Namespace) -> int:
    gc.disable()  # nothing that a start makes is garbage
    options, notes = options_from(args, os.environ)
    logs.set_up(options.log_format or "auto", level=options.settings.get(keys.LOG_LEVEL))
    _tell(notes)

    import anyio

    try:
        clean = anyio.run(_serve, options, backend_options={"use_uvloop": _uvloop(options.settings)})
    except BaseExceptionGroup as group:
        refused = group.subgroup(StartRefused)
        if refused is None:
            raise
        raise _first(refused) from None
    return 0 if clean else 1


def options_from(args: argparse.Namespace, environment: Mapping[str, str]) -> tuple[StartOptions, list[Note]]:
    """What the command line, the environment and the file say together. StartRefused if they cannot be meant."""
    flags: dict[str, str] = dict(args.set)
    file, environment, protocol = _file(args.config), _as_in_the_image(environment), "PLAINTEXT"
    if args.sasl_user or args.tls is not None:
        from broker_lite.cli import guarding

        protocol = guarding.protocol_of(args, flags)
        if not args.listen:
            flags |= guarding.listeners_of(resolve(file, environment, flags)[0], protocol)
    if args.listen:
        flags[keys.LISTENERS.name] = ",".join(named(args.listen, protocol))
    if args.advertise:
        flags[keys.ADVERTISED_LISTENERS.name] = ",".join(named(args.advertise, protocol))
    given = {
        keys.LOG_DIRS: args.data,
        keys.DURABILITY: args.durability,
        keys.RECOVER: args.recover,
        keys.NODE_ID: args.node_id,
        keys.CLUSTER_ID: args.cluster_id,
        keys.METRICS: args.metrics,
    }
    flags |= {key.name: text for key, text in given.items() if text is not None}
    if args.strict:
        flags[security.REFUSE_OPEN.name] = "true"
    settings, notes = resolve(file, environment, flags)
    topics = [parse_topic(text) for text in args.topic]
    for topic in topics:
        if sum(other.name == topic.name for other in topics) > 1:
            raise StartRefused(f"--topic names {topic.name} twice")
    if args.data == "":
        raise StartRefused("--data names no folder")
    data = None if args.data is None else Path(args.data)
    return start_options(
        settings, data=data, topics=topics, ready_file=args.ready_file, log_format=args.log_format
    ), notes


def _as_in_the_image(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Imported only for those who come from there and ask for more than the simplest: all others pay nothing for it."""
    advertised = environment.get("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://")
    simple = advertised.startswith("PLAINTEXT://") and "," not in advertised
    if simple and not any(name.startswith("KAFKA_SSL_") or name == "KAFKA_OPTS" for name in environment):
        return environment
    from broker_lite.cli.image import as_in_the_image

    return as_in_the_image(environment)


def _file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        raw = path.read_bytes()
        try:
            return properties.parse(raw.decode())
        except UnicodeDecodeError:
            return properties.parse(raw.decode("latin-1"))  # Java's own reading of these files
    except OSError as error:
        raise StartRefused(f"--config {path}: {error.strerror}") from None
    except ValueError as error:
        raise StartRefused(f"--config {path}: {error}") from None


def _tell(notes: Sequence[Note]) -> None:
    for note in notes:
        getattr(log, note.level)(note.event, **note.facts)


def _uvloop(settings: Settings) -> bool:
    from importlib.util import find_spec

    return settings.get(keys.UVLOOP) and find_spec("uvloop") is not None


async def _serve(options: StartOptions) -> bool:
    """Whether it was stopped cleanly; if not, the log says why."""
    import anyio

    from broker_lite.apis import registry
    from broker_lite.broker.broker import Broker
    from broker_lite.clock import SystemClock
    from broker_lite.server.limits import Doors
    from broker_lite.server.listener import ListenerAddress, serve
    from broker_lite.server.protection import has_files, protected, read_again, warn_if_open

    registry.load()
    clock = SystemClock()
    stop = anyio.Event()

    def ready(bound: list[ListenerAddress]) -> None:
        gc.freeze()  # what a start made stays for ever: the collector need not walk it again and again
        gc.enable()
        _announce(options, [Listener(one.name, one.host, one.port) for one in bound], time.monotonic() - STARTED)

    async with Broker.running(options, clock) as broker, anyio.create_task_group() as tasks:
        # Before this line, while files are replayed, a signal ends the process at once: that is as safe as kill -9.
        answer, limits = partial(registry.answer, broker), limits_from(options)
        doors = Doors(limits, broker.quotas.too_fast)
        broker.configs.on_change.append(lambda _scope, _name: doors.obey(limits_from(options)))
        addresses = protected(
            options.settings,
            options.listeners,
            stored=broker.users.scram,
            refuse=partial(registry.refuse, broker),
            clock=clock,
        )
        warn_if_open(options.settings, options.listeners)
        if options.settings.get(keys.METRICS):
            await _publish(broker, options.settings.get(keys.METRICS), tasks)
        renewable = [one for one in addresses if has_files(one)]
        heard = [signal.SIGTERM, signal.SIGINT]
        if renewable or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it stays ignored
            heard.append(signal.SIGHUP)
        with anyio.open_signal_receiver(*heard) as signals:
            tasks.start_soon(_obey, signals, stop, partial(read_again, renewable) if renewable else None)
            tasks.start_soon(_a_moment_later)
            await serve(answer, addresses, limits, ready, stop=stop, clock=clock, doors=doors)
            tasks.cancel_scope.cancel()
    return broker.stopped_cleanly


async def _publish(broker: Broker, where: str, tasks: TaskGroup) -> None:
    """Count, and let others read what was counted."""
    from socket import gethostname

    import anyio
    from anyio.abc import SocketAttribute, SocketListener

    from broker_lite.broker.metrics import Metrics
    from broker_lite.cli.host_header import host_check
    from broker_lite.config.listeners import parse_listener

    try:
        from broker_lite.cli.scrape import pages_of, watch_loop, welcome
    except ModuleNotFoundError:
        raise StartRefused("metrics need prometheus-client: pip install 'broker-lite[metrics]'") from None
    asked = parse_listener(where)
    try:
        listener = await anyio.create_tcp_listener(local_host=asked.host or None, local_port=asked.port)
    except OSError as error:
        raise StartRefused(f"--metrics {where}: {error.strerror or error}") from None
    broker.metrics = Metrics()
    tasks.start_soon(watch_loop, broker.metrics)
    pages = pages_of(broker, broker.metrics)
    options = broker.options
    reached_by = [one.host for one in (*options.listeners, *options.advertised.values())]
    is_answered = host_check([gethostname(), asked.host, *reached_by], options.settings.get(keys.METRICS_HOSTS))
    for one in listener.listeners:
        assert isinstance(one, SocketListener)
        tasks.start_soon(welcome, one, pages, is_answered)
    port = listener.extra(SocketAttribute.local_port)
    log.info("metrics.ready", url=f"http://{format_address(asked.host, port)}/metrics")


async def _a_moment_later() -> None:
    """What a start does not wait for: import what events are told with, for where files have run out it cannot be
    imported, and ask the kernel to let us on soon."""
    import anyio

    from broker_lite.broker.threads import in_a_thread
    from broker_lite.server.turns import ask_for_short_turns

    await anyio.sleep(MOMENT)
    await in_a_thread(logs.prepare)
    await in_a_thread(ask_for_short_turns, threading.get_native_id())


async def _obey(
    signals: AsyncIterator[signal.Signals], stop: anyio.Event, read_again: Callable[[], None] | None
) -> None:
    """SIGHUP reads certificates and keys again, where there are any; else it comes from a terminal that was closed, and
    stops the broker as the others do."""
    async for number in signals:
        if number == signal.SIGHUP and read_again is not None:
            read_again()
            continue
        log.info("broker.stopping", signal=number.name)
        stop.set()


def limits_from(options: StartOptions) -> Limits:
    from broker_lite.server.limits import Limits, overrides

    settings, rate = options.settings, security.MAX_CONNECTION_CREATION_RATE
    return Limits(
        request_max_bytes=settings.get(keys.SOCKET_REQUEST_MAX_BYTES),
        max_connections=settings.get(keys.MAX_CONNECTIONS),
        max_connections_per_ip=settings.get(keys.MAX_CONNECTIONS_PER_IP),
        max_connections_of=overrides(settings.get(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES)),
        creation_rates={
            "": settings.get(rate),
            **{one.name: settings.of_listener(one.name, rate) for one in options.listeners},
        },
        max_idle_ms=settings.get(keys.CONNECTIONS_MAX_IDLE_MS),
        queued_max_request_bytes=settings.get(keys.QUEUED_MAX_REQUEST_BYTES),
        read_frame_ms=settings.get(keys.REQUEST_READ_TIMEOUT_MS),
        shutdown_grace_ms=settings.get(keys.SHUTDOWN_GRACE_MS),
    )


def _announce(options: StartOptions, bound: list[Listener], took: float) -> None:
    """The ready file first, then the line: whoever waits for either finds both."""
    if options.ready_file is not None:
        _write_ready_file(options.ready_file, bound)
    where = ", ".join(format_address(one.host or "0.0.0.0", one.port) if len(bound) == 1 else str(one) for one in bound)
    data = "no data folder" if options.durability is Durability.MEMORY else f"data in {options.data}"
    try:
        print(
            f"broker-lite is ready on {where} · {data} · durability {options.durability.value} · {took * 1000:.0f} ms",
            flush=True,
        )
    except OSError:  # a full disk, or whoever waited for the line has left
        nobody_reads()


def _write_ready_file(path: Path, bound: list[Listener]) -> None:
    import json

    facts = {"listeners": {one.name: format_address(one.host, one.port) for one in bound}, "pid": os.getpid()}
    half = path.parent / f"{path.name}.{os.getpid()}"
    try:
        half.write_text(json.dumps(facts) + "\n")
        half.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            half.unlink()
        raise StartRefused(f"--ready-file {path}: {error.strerror}") from None


def _first(group: BaseExceptionGroup[StartRefused]) -> StartRefused:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
