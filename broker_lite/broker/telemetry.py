"""Client telemetry (KIP-714): clients tell us how they fare, if somebody has subscribed to that.

A client asks what is wanted of it and is told the subscriptions that match it, put together: all their metrics, the
shortest of their intervals, and a number that stands for them.  It pushes with that number; if the subscriptions have
changed since, the number is another one and the push is refused, so the client asks again.

Kept is the last push of each of the last clients.  What is in it, OpenTelemetry's own bytes, we do not look at.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable

from broker_lite.broker.configs import Configs
from broker_lite.clock import Clock
from broker_lite.config import client_metrics as keys
from broker_lite.config.broker import TELEMETRY_MAX_BYTES
from broker_lite.config.key import Scope
from broker_lite.config.resources import patterns
from broker_lite.config.sources import Settings
from broker_lite.errors import BrokerError, ErrorCode, InvalidRequest, UnsupportedCompressionType, refusal
from broker_lite.logs import get_logger
from broker_lite.records.compression import Codec, inflate
from broker_lite.shapes import dataclass

log = get_logger(__name__)

CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Best first."""
MOST_CLIENTS = 1000
_INFLATED_AT_MOST = 10
"""Times `telemetry.max.bytes`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client is asked for."""

    id: int
    interval_ms: int
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a client told last."""

    instance: str
    facts: dict[str, str]
    at_ms: int
    metrics: bytes


class Telemetry:
    def __init__(self, settings: Settings, configs: Configs, clock: Clock) -> None:
        self._settings = settings
        self._configs = configs
        self._clock = clock
        self._gone: set[bytes] = set()
        """Clients that said good-bye."""
        self.last: dict[bytes, Pushed] = {}
        """By client instance, the one that pushed last at the end."""

    def wanted_of(self, facts: dict[str, str]) -> Wanted:
        """The subscriptions that match a client; `facts` has all of `client_metrics.SELECTORS`."""
        metrics: dict[str, None] = {}
        interval = keys.INTERVAL_MS.default
        said: list[list[object]] = []
        for name in sorted(self._configs.names(Scope.CLIENT_METRICS)):
            one = self._configs.client_metrics(name)
            wishes = one.get(keys.METRICS)
            match = patterns(",".join(one.get(keys.MATCH)))
            if wishes and all(pattern.fullmatch(facts[word]) for word, pattern in match.items()):
                metrics |= dict.fromkeys("" if wish == "*" else wish for wish in wishes)
                interval = min(interval, one.get(keys.INTERVAL_MS))
                said.append([name, list(wishes), one.get(keys.INTERVAL_MS)])
        number = zlib.crc32(json.dumps(said).encode())
        return Wanted(number - (1 << 32) if number >> 31 else number, interval, tuple(metrics))

    def push(
        self, instance: bytes, subscription: int, facts: dict[str, str], codec: int, metrics: bytes, *, last: bool
    ) -> None:
        """Take what a client tells, or refuse it as Kafka does."""
        if not any(instance):
            raise InvalidRequest("the client instance id is missing")
        if instance in self._gone:
            raise InvalidRequest("the client has said good-bye before")
        if subscription != self.wanted_of(facts).id:
            raise refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "the subscriptions have changed since you asked for them")
        most = self._settings.get(TELEMETRY_MAX_BYTES)
        if len(metrics) > most:
            raise refusal(ErrorCode.TELEMETRY_TOO_LARGE, f"{len(metrics)} bytes, at most {most} are taken")
        told = _inflated(codec, metrics, most * _INFLATED_AT_MOST)
        self.last.pop(instance, None)
        self.last[instance] = Pushed(facts["client_instance_id"], facts, self._clock.now_ms(), told)
        _forget(self.last, self.last.__delitem__)
        if last:
            self._gone.add(instance)
            _forget(self._gone, self._gone.discard)
        log.debug("telemetry.pushed", client_id=ascii(facts["client_id"][:64]), bytes=len(told))


def _forget(kept: dict[bytes, Pushed] | set[bytes], drop: Callable[[bytes], None]) -> None:
    if len(kept) > MOST_CLIENTS:
        drop(next(iter(kept)))


def _inflated(codec: int, metrics: bytes, most: int) -> bytes:
    try:
        known = Codec(codec)
    except ValueError:
        raise UnsupportedCompressionType(f"there is no compression {codec}") from None
    if known is Codec.NONE:
        return metrics
    try:
        return inflate(known, metrics, most)
    except BrokerError:
        raise InvalidRequest("the metrics cannot be decompressed") from None
