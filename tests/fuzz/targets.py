"""What strangers' bytes are fed to, one function each: whatever the bytes, it returns.  `run.py` feeds them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from broker_lite.coordinator.groups import subscription
from broker_lite.errors import BrokerError, Malformed
from broker_lite.log import layout
from broker_lite.records import legacy, upconvert
from broker_lite.records.batch import walk
from broker_lite.records.check import AppendRules
from broker_lite.records.compression import Codec, inflate
from broker_lite.records.record import records_of
from broker_lite.security.logins import Mechanisms
from broker_lite.security.oauth import TokenRules
from broker_lite.security.principals import MappingRules
from broker_lite.security.sasl import AuthenticationFailed, Step
from broker_lite.security.scram import ScramCredential
from broker_lite.wire import codec
from broker_lite.wire.framing import Framer
from broker_lite.wire.headers import read_request_header, request_is_flexible
from broker_lite.wire.messages import ALL, request_class
from broker_lite.wire.schema import spec_of

MOST = 1 << 20
"""Bytes that anything may become when inflated."""
KEYS = sorted(ALL)
RULES = [AppendRules(max_inflated_bytes=MOST), AppendRules(strict=True, max_inflated_bytes=MOST)]
RULES += [AppendRules(compacted=True, compression=Codec.GZIP, log_append_time=True, max_inflated_bytes=MOST)]
_KEPT = ScramCredential(b"salt", b"k" * 32, b"s" * 32, 4096)
_MECHANISMS = Mechanisms(
    ("SCRAM-SHA-256", "OAUTHBEARER", "PLAIN"), {}, lambda mechanism, name: _KEPT, TokenRules(lambda: 0)
)


def frames(data: bytes) -> None:
    """A stream of bytes as frames, each with a header."""
    framer = Framer(1 << 16)
    with suppress(Malformed):
        for at in range(0, len(data), 7):
            for frame in framer.feed(data[at : at + 7]):
                read_request_header(frame, request_is_flexible)


def requests(data: bytes) -> None:
    """Any request: the first two bytes choose which, and its version."""
    if len(data) < 2:
        return
    request = request_class(KEYS[data[0] % len(KEYS)])
    versions = spec_of(request).versions
    with suppress(Malformed):
        codec.decode(request, versions[data[1] % len(versions)], memoryview(data)[2:], max_elements=1000)


def batches(data: bytes) -> None:
    """Records of a client, into topics of several kinds, and out of a log."""
    for rules in RULES:
        with suppress(BrokerError):
            upconvert.check_any(memoryview(data), api_version=9, rules=rules, now_ms=0)
    with suppress(BrokerError):
        for batch in walk(data):
            for _ in records_of(batch, max_bytes=MOST):
                pass


def message_sets(data: bytes) -> None:
    """Records as clients of ten years ago wrote them."""
    with suppress(BrokerError):
        for message in legacy.messages_of(data):
            for _ in legacy.old_records(message, max_bytes=MOST):
                pass
    with suppress(BrokerError):
        upconvert.check_any(memoryview(data), api_version=1, rules=RULES[1], now_ms=0)


def compressed(data: bytes) -> None:
    """The first byte chooses the codec."""
    if data:
        with suppress(BrokerError):
            assert len(inflate(1 + data[0] % 4, data[1:], MOST)) <= MOST


def logins(data: bytes) -> None:
    """Tokens of a log-in, a byte of length before each; the first byte chooses the mechanism."""
    if not data:
        return
    login = _MECHANISMS.begin(_MECHANISMS.enabled[data[0] % 2])
    rest = data[1:]
    with suppress(AuthenticationFailed):
        while rest:
            step = login.respond(rest[1 : 1 + rest[0]])
            step = step if isinstance(step, Step) else step()
            assert step.user is None, "somebody got in"
            rest = rest[1 + rest[0] :]
    with suppress(ValueError):
        MappingRules(data.decode("latin-1")).user([[("commonName", "x")]])


def groups(data: bytes) -> None:
    """What members of a group tell each other through us."""
    for read in (subscription.read_subscription, subscription.read_assignment):
        with suppress(Malformed, BrokerError, ValueError):
            read(data)
    subscription.topics_of([data])


def files(data: bytes) -> None:
    """The files of a data folder; the first byte chooses which."""
    if not data:
        return
    readers: list[Callable[[bytes], object]] = [
        layout.parse_index,
        layout.parse_time_index,
        layout.parse_aborted,
        layout.parse_snapshot,
        layout.parse_offsets,
        layout.parse_epochs,
        layout.parse_partition_metadata,
        layout.parse_properties,
        layout.parse_clean_shutdown,
    ]
    with suppress(ValueError):
        readers[data[0] % len(readers)](data[1:])
    layout.parse_file_name(data.decode("latin-1"))
    layout.parse_folder_name(data.decode("latin-1"))


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (frames, requests, batches, message_sets, compressed, logins, groups, files)
}
