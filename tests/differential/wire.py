"""One connection to any broker, which writes down every answer in a form that two brokers can be compared in.

What must differ is replaced: ids, addresses, times, throttling and texts for people.  An id is named by the order in
which it was first seen, so that two answers that tell the same id still have to do so.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import TypeVar

from broker_lite.records.batch import walk
from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import request_is_flexible, response_is_flexible
from broker_lite.wire.messages import response_class
from broker_lite.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker_lite.wire.schema import fields_of, is_struct, spec_of

R = TypeVar("R")
CLOSED = "the connection is closed"
_DIFFERS = frozenset(
    {
        "throttle_time_ms",
        "host",
        "port",
        "cluster_id",
        "error_message",
        "batch_index_error_message",
        "log_append_time_ms",
        "leader_epoch",
        "session_id",
        "finalized_features_epoch",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "replica_directory_id",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    }
)
_IDS = frozenset({"topic_id", "producer_id", "member_id", "leader", "client_instance_id"})
_SETS = frozenset({"resources", "acls", "matching_acls", "entries", "configs", "config_resources", "credential_infos"})
"""Lists that Kafka keeps as sets and tells in any order."""


class Wire:
    def __init__(self, bootstrap: str, *, client_id: str = "differential") -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._client_id = client_id.encode()
        self._socket: socket.socket | None = None
        self._names: dict[object, str] = {}
        self.seen: list[tuple[str, object]] = []
        """What was asked, in short, and the answer, comparable."""
        self.asked: set[tuple[int, int]] = set()
        """Key and version of each question whose answer was noted."""
        answer = self.ask("versions", ApiVersionsRequest(), 0, ApiVersionsResponse, note=False)
        assert answer is not None
        self.offered = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, label: str, request: object, version: int, kind: type[R], *, note: bool = True) -> R | None:
        """The answer, noted under `label`. None: the broker closed the connection."""
        key = spec_of(type(request)).key
        assert key is not None
        assert response_class(key) is kind
        head = struct.pack(">hhih", key, version, 7, len(self._client_id)) + self._client_id
        if request_is_flexible(key, version):
            head += b"\0"
        frame = head + encode_bytes(request, version)
        reply = self._exchange(frame)
        label = f"{kind.__name__.removesuffix('Response')} v{version} {label}"
        if reply is None:
            self.note(key, version, label, CLOSED)
            return None
        start = 5 if response_is_flexible(key, version) else 4
        response, _ = decode(kind, version, memoryview(reply), start, max_elements=1_000_000)
        if note:
            self.note(key, version, label, self._comparable(response))
        return response

    def note(self, key: int, version: int, label: str, answer: object) -> None:
        self.asked.add((key, version))
        self.seen.append((label, answer))

    def _exchange(self, frame: bytes) -> bytes | None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=30)
        try:
            self._socket.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", self._receive(4))
            return self._receive(size)
        except (ConnectionError, EOFError):
            self.close()
            return None

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    # ---- comparable

    def _comparable(self, value: object, name: str = "") -> object:
        if is_struct(type(value)):
            names = [field for field in fields_of(type(value)) if field not in _DIFFERS]
            return {field: self._comparable(getattr(value, field), field) for field in names}
        if isinstance(value, list):
            inside = [self._comparable(inner, name) for inner in value]
            return sorted(inside, key=repr) if name in _SETS else inside
        if name in _IDS and value not in (None, "", -1, 0, bytes(16)):
            return self._names.setdefault((name, value), f"<{name} {len(self._names)}>")
        if name == "records" and isinstance(value, (bytes, memoryview)):
            return list(_outline(bytes(value)))
        if isinstance(value, (bytes, memoryview)):
            return bytes(value).hex()
        return value


def _outline(records: bytes) -> Iterator[dict[str, object]]:
    """What readers see of batches, without what the broker alone decides."""
    for batch in walk(memoryview(records)):
        yield {
            "base_offset": batch.base_offset,
            "count": batch.count,
            "last_offset_delta": batch.last_offset_delta,
            "attributes": batch.attributes,
            "base_sequence": batch.base_sequence,
            "producer_epoch": batch.producer_epoch,
            "crc_ok": batch.crc_ok(),
            "payload": "" if batch.is_control else bytes(batch.buf[61:]).hex(),
        }


def differences(ours: object, theirs: object, path: str = "") -> Iterator[str]:
    """Where two comparable answers part, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {_short(ours)} and not {_short(theirs)}"


def _short(value: object) -> str:
    text = f"{len(value)} entries" if isinstance(value, list) else repr(value)
    return text if len(text) <= 100 else text[:100] + "…"
