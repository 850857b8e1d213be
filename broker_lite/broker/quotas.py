"""Client quotas: who may do how much a second, and how long he has to wait who did more (KIP-13, KIP-257, KIP-599).

A limit belongs to an entity: a user, a client id, both, or an address; a name of None is the default of its kind.
For somebody who asks, the most specific limit counts, in Kafka's order:

    user + client, user + default client, user, default user + client, default users + default clients, default users,
    client, default clients

Everyone whom the same limit finds by the same names shares one meter.  A meter adds up eleven samples of a second, as
Kafka's do, and never divides by less than ten seconds, so a short burst is free.  Who is above the limit is told to be
silent until the average is right again, and his connection is not listened to for so long.

Where no limit is set nothing is measured: `active` is False and costs one look.
"""

from __future__ import annotations

import json
import math
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from broker_lite.broker.journal import Change, Json

KIND = "quota"
USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCE, FETCH, REQUEST, MUTATION = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
CONNECTIONS = "connection_creation_rate"
WHOLE = frozenset({PRODUCE, FETCH, CONNECTIONS})
KEYS = {USER: (PRODUCE, FETCH, REQUEST, MUTATION), IP: (CONNECTIONS,)}

Entity = tuple[tuple[str, str | None], ...]
"""(kind, name) pairs in the order of their kinds; a name of None is the default."""

SAMPLES = 11
SAMPLE_SECONDS = 1.0
MOST_METERS = 10_000
"""A stranger may invent client ids; the oldest meters are forgotten."""


class Meter:
    """An amount a second, over the last samples."""

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque()

    def add(self, amount: float, now: float) -> None:
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_SECONDS:
            self._samples.append([now, 0.0])
        self._samples[-1][1] += amount

    def wait(self, limit: float, now: float) -> float:
        """Seconds of silence after which the average is at the limit again; 0 if it is not above."""
        while self._samples and now - self._samples[0][0] >= SAMPLES * SAMPLE_SECONDS:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        window = max(now - self._samples[0][0], (SAMPLES - 1) * SAMPLE_SECONDS)
        return max(0.0, sum(amount for _, amount in self._samples) / limit - window)


class Quotas:
    def __init__(self, write: Callable[[list[Change]], None], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._limits: dict[Entity, dict[str, float]] = {}
        self._meters: dict[tuple[str, Entity], Meter] = {}
        self._rates: dict[str | None, float] = {}
        """How often an address may connect; None: any other."""
        self.active = False
        """Whether anybody has a limit on what he asks."""

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._limits.items())

    def of(self, entity: Entity) -> dict[str, float]:
        return dict(self._limits.get(entity, {}))

    def set(self, entity: Entity, limits: Mapping[str, float]) -> None:
        """From now on an entity has exactly these limits."""
        if limits == self._limits.get(entity, {}):
            return
        value: dict[str, Json] = dict(limits)
        change = Change(KIND, json.dumps(entity), value or None)
        self._write([change])
        self.apply(change)

    def apply(self, change: Change) -> None:
        entity: Entity = tuple((str(kind), name) for kind, name in json.loads(change.name))
        if change.value is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = {key: _limit(limit) for key, limit in change.value.items()}
        self._meters.clear()
        if entity[0][0] == IP:
            self._follow(entity[0][1], self._limits.get(entity, {}).get(CONNECTIONS))
        self.active = any(kind != IP for entity in self._limits for kind, _ in entity)

    def _follow(self, host: str | None, rate: float | None) -> None:
        """A host may be given by name; then its address counts, as it is now."""
        address = host
        if host is not None:
            with suppress(OSError):
                address = str(socket.getaddrinfo(host, None)[0][4][0])
        if rate is None:
            self._rates.pop(address, None)
        else:
            self._rates[address] = rate

    def limit(self, key: str, user: str, client_id: str) -> tuple[float, Entity] | None:
        """The limit that counts, and whose meter measures it."""
        for entity, shared in _candidates(user, client_id):
            limits = self._limits.get(entity)
            if limits is not None and key in limits and not math.isnan(limits[key]):
                return limits[key], shared
        return None

    def charge(self, key: str, user: str, client_id: str, amount: float) -> float:
        """Somebody has done so much. Seconds of silence that he owes for it."""
        found = self.limit(key, user, client_id)
        if found is None:
            return 0.0
        limit, shared = found
        meter, now = self._meter(key, shared), self._monotonic()
        meter.add(amount, now)
        return meter.wait(limit, now)

    def _meter(self, key: str, shared: Entity) -> Meter:
        meter = self._meters.get((key, shared))
        if meter is None:
            if len(self._meters) >= MOST_METERS:
                del self._meters[next(iter(self._meters))]
            meter = self._meters[key, shared] = Meter()
        return meter

    def too_fast(self, host: str) -> float:
        """Somebody connects from this address. If that is too often, the seconds until it would not be (KIP-612).

        As in Kafka, who is turned away has not come: he does not count, and he waits no longer than one sample.
        """
        if not self._rates:
            return 0.0
        limit = self._rates.get(host, self._rates.get(None))
        if limit is None:
            return 0.0
        meter, now = self._meter(CONNECTIONS, ((IP, host),)), self._monotonic()
        meter.add(1, now)
        wait = meter.wait(limit, now)
        if wait > 0:
            meter.add(-1, now)
        return min(wait, SAMPLE_SECONDS)

    def owes(self, key: str, user: str, client_id: str) -> float:
        """What he would have to wait now, if he did nothing more."""
        found = self.limit(key, user, client_id)
        meter = None if found is None else self._meters.get((key, found[1]))
        return 0.0 if found is None or meter is None else meter.wait(found[0], self._monotonic())


def _limit(written: Json) -> float:
    if isinstance(written, bool) or not isinstance(written, (int, float)):
        raise TypeError(f"a limit is a number, not {written!r:.100}")
    return float(written)


def entity_of(names: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(names.items()))


def _candidates(user: str, client_id: str) -> Iterator[tuple[Entity, Entity]]:
    """Entities whose limit may count, most specific first, with the names under which it is measured."""
    both = ((CLIENT, client_id), (USER, user))
    only_user, only_client = ((USER, user),), ((CLIENT, client_id),)
    yield both, both
    yield ((CLIENT, None), (USER, user)), both
    yield only_user, only_user
    yield ((CLIENT, client_id), (USER, None)), both
    yield ((CLIENT, None), (USER, None)), both
    yield ((USER, None),), only_user
    yield only_client, only_client
    yield ((CLIENT, None),), only_client
