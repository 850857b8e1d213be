"""How much of this machine strangers may use: connections, bytes in flight, time.

The names in the field docs are Kafka's where Kafka has one. Nothing here waits or looks at a clock: the listener
asks before it accepts, a connection asks before it grows a buffer, and one sweeper tells everybody the time.
"""

from __future__ import annotations

import resource
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from broker_lite.broker.quotas import SAMPLE_SECONDS, Meter
from broker_lite.shapes import dataclass, field

UNLIMITED = 2**31 - 1
_KEPT_BACK_AT_LEAST = 32


@dataclass(slots=True, frozen=True)
class Limits:
    request_max_bytes: int = 104_857_600
    """`socket.request.max.bytes`: a longer frame closes its connection before anything is allocated."""
    max_connections: int = UNLIMITED
    """`max.connections`: further ones wait in the kernel's queue until one ends, as with Kafka."""
    max_connections_per_ip: int = UNLIMITED
    """`max.connections.per.ip`: further ones are closed at once."""
    max_connections_of: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`: another limit for some addresses."""
    creation_rates: Mapping[str, float] = field(default_factory=dict)
    """`max.connection.creation.rate`, by listener and, under the empty name, over all: further ones wait (KIP-612)."""
    max_idle_ms: int = 600_000
    """`connections.max.idle.ms`: nothing asked and nothing moved for so long; below 0 is never."""
    queued_max_request_bytes: int = 268_435_456
    """`queued.max.request.bytes`: received and not yet answered, over all connections; -1 is no limit."""
    read_frame_ms: int = 30_000
    """`request.read.timeout.ms`, ours: how long a request that has begun may come too slowly, see `patience.py`."""
    shutdown_grace_ms: int = 1_000
    """`shutdown.grace.ms`, ours: how long requests in progress may take to finish when the broker stops."""


class Waiter(Protocol):
    def go_on(self) -> None:
        """The bytes you were refused are yours now."""
        ...


class Budget:
    """Bytes in flight over all connections.

    A frame in the making takes bytes as they arrive, never as they are announced. When all are taken, the others stop
    reading and queue up. If they all stood in the middle of a frame nobody would ever finish, so one of them, the
    first to be refused, may always go on: the bound is the limit and one frame.

    What a read brings is there before anybody can ask. So while the budget is `tight` reads are small, and the bound
    grows by one such read for each connection.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit if limit >= 0 else 2**63
        self.used = 0
        self._privileged: Waiter | None = None
        self._line: deque[tuple[Waiter, int]] = deque()

    @property
    def tight(self) -> bool:
        """Somebody waits, or nothing is left."""
        return bool(self._line) or self.used >= self._limit

    @property
    def in_demand(self) -> bool:
        """Somebody waits."""
        return bool(self._line)

    def take(self, who: Waiter, size: int) -> bool:
        """True: they are yours. False: you stand in line and `go_on` will be called."""
        if self.used + size > self._limit and who is not self._privileged:
            if self._privileged is not None:
                self._line.append((who, size))
                return False
            self._privileged = who
        self.add(size)
        return True

    def add(self, size: int) -> None:
        """Bytes that are there already, whether we like it or not."""
        self.used += size

    def give_back(self, who: Waiter, size: int) -> None:
        """A frame is answered or dropped; those who wait go on in the order in which they came."""
        self.used -= size
        assert self.used >= 0, f"{self.used=} after {size} bytes came back"
        if who is self._privileged:
            self._privileged = None
        while self._line and (self._privileged is None or self.used + self._line[0][1] <= self._limit):
            first, wants = self._line.popleft()
            if self.used + wants > self._limit:
                self._privileged = first
            self.used += wants
            first.go_on()

    def leave(self, who: Waiter) -> None:
        """Gone; no longer waits for anything."""
        self._line = deque(entry for entry in self._line if entry[0] is not who)


class Doors:
    """Who is in: how many connections, and how many of each address. What they may be can change at any time."""

    HELD = 100
    """So many that came too fast are kept waiting; more are turned away at once."""

    def __init__(self, limits: Limits, too_fast: Callable[[str], float] | None = None) -> None:
        self.too_fast = too_fast or _never
        """Told of one who comes from an address: seconds after which he is to be turned away, 0 if he is welcome."""
        self.on_change: Callable[[], object] = bool  # nobody waits yet
        self._by_ip: Counter[str] = Counter()
        self._pace: dict[str, Meter] = {}
        self.inside = 0
        self.held = 0
        self.obey(limits)

    def obey(self, limits: Limits) -> None:
        """From now on these count, and only for those who come from now on."""
        self._most = min(limits.max_connections, connections_for_open_files())
        self._most_per_ip = limits.max_connections_per_ip
        self._most_of = limits.max_connections_of
        self._rates = {name: rate for name, rate in limits.creation_rates.items() if rate < UNLIMITED}
        self.on_change()

    @property
    def paced(self) -> bool:
        """Whether `came` wants to be told."""
        return bool(self._rates)

    def came(self, listener: str, now: float) -> float:
        """Somebody came by this listener: seconds until the next may, at most a sample of the rate, as with Kafka."""
        longest = 0.0
        for name in ("", listener):
            rate = self._rates.get(name)
            if rate is not None:
                meter = self._pace.setdefault(name, Meter())
                meter.add(1, now)
                longest = max(longest, meter.wait(rate, now) if rate else SAMPLE_SECONDS)
        return min(longest, SAMPLE_SECONDS)

    @property
    def full(self) -> bool:
        return self.inside >= self._most

    def enter(self, host: str) -> bool:
        if self._by_ip[host] >= self._most_of.get(host, self._most_per_ip):
            return False
        self._by_ip[host] += 1
        self.inside += 1
        return True

    def leave(self, host: str) -> None:
        self.inside -= 1
        self._by_ip[host] -= 1
        if not self._by_ip[host]:
            del self._by_ip[host]


def overrides(texts: Iterable[str]) -> dict[str, int]:
    """HOST:NUMBER each. A name stands for the address that it has now; one that has none is nobody's."""
    found = {}
    for text in texts:
        host, _, most = text.rpartition(":")
        with suppress(OSError, ValueError):  # the latter for what cannot even be a name
            found[socket.getaddrinfo(host.strip("[]"), None)[0][4][0]] = int(most)
    return {str(host): most for host, most in found.items()}


def _never(_host: str) -> float:
    return 0.0


class Complaints:
    """At most a few log lines a minute about one address, and not many about all: broken clients must not fill the disk
    with our logs, and somebody with an IPv6 network has more addresses than anybody can count."""

    PER_MINUTE = 10
    PER_MINUTE_OF_ALL = 100
    OTHERS = "(others)"

    def __init__(self) -> None:
        self._heard: Counter[str] = Counter()
        self._logged = 0

    def may_log(self, host: str) -> bool:
        if self._logged >= self.PER_MINUTE_OF_ALL and host not in self._heard:
            host = self.OTHERS
        self._heard[host] += 1
        if self._logged >= self.PER_MINUTE_OF_ALL or self._heard[host] > self.PER_MINUTE:
            return False
        self._logged += 1
        return True

    def new_minute(self) -> dict[str, int]:
        """Forget, and tell how many lines were left out for whom; all that are beyond a few are one line."""
        left_out = Counter({host: count - self.PER_MINUTE for host, count in self._heard.items()})
        if self._logged >= self.PER_MINUTE_OF_ALL:
            left_out = Counter({self.OTHERS: self._heard.total() - self._logged})
        self._heard.clear()
        self._logged = 0
        return dict(+left_out)


def raise_open_files() -> int:
    """Allow ourselves as many open files as the system lets us; the soft limit is often a mere 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS says "unlimited" and means a smaller number
            return soft
    return hard


def connections_for_open_files() -> int:
    """Two thirds of what we may open: a log that cannot open its next segment is worse than a client that waits."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(1, soft - max(_KEPT_BACK_AT_LEAST, soft // 3))
