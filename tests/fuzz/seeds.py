"""Where the fuzzers begin: valid bytes of every kind, made anew for each run, and what once was a crash."""

from __future__ import annotations

import struct
from base64 import b64encode
from pathlib import Path

from broker_lite.ids import TopicPartition, new_topic_id
from broker_lite.log import layout
from broker_lite.records import legacy
from broker_lite.records.build import NewRecord, build_batch
from broker_lite.records.compression import Codec, deflate
from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.messages import request_class
from broker_lite.wire.schema import spec_of
from tests.fuzz.targets import KEYS
from tests.wire.samples import seeded

KEPT = Path(__file__).parent / "corpus"


def write(name: str, folder: Path) -> None:
    """Seeds of one target, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]()):
        (folder / f"seed-{number}").write_bytes(seed)
    for kept in (KEPT / name).glob("*") if (KEPT / name).exists() else ():
        (folder / f"kept-{kept.name}").write_bytes(kept.read_bytes())


def _bodies() -> list[tuple[int, int, bytes]]:
    """(place of the key, place of the version, body) of one request of each API at its newest version."""
    found = []
    for place, key in enumerate(KEYS):
        request = request_class(key)
        versions = spec_of(request).versions
        body = encode_bytes(seeded(place).message(request, versions[-1]), versions[-1])
        found.append((place, len(versions) - 1, body[:2000]))
    return found


def _frames() -> list[bytes]:
    header = struct.pack(">hhih", 18, 3, 7, 4) + b"test\0"
    return [struct.pack(">i", len(header) + len(body)) + header + body for _, _, body in _bodies()[:10]]


def _batches() -> list[bytes]:
    records = [NewRecord(key=b"k", value=b"v" * 20, headers=(("h", b"x"),)) for _ in range(3)]
    return [bytes(build_batch(records, timestamp=0, codec=one)) for one in Codec]


def _message_sets() -> list[bytes]:
    plain = b"".join(
        bytes(legacy.write_message(offset, magic=magic, timestamp=0, key=b"k", value=b"value"))
        for offset, magic in enumerate((0, 1))
    )
    return [plain]


def _logins() -> list[bytes]:
    first, final = b"n,,n=user,r=abc", b"c=biws,r=abc,p=" + b64encode(b"p" * 32)
    token = b"n,,\x01auth=Bearer " + b"e30.e30." + b"\x01\x01"
    return [
        b"\0" + bytes([len(first)]) + first + bytes([len(final)]) + final,
        b"\1" + bytes([len(token)]) + token + b"\1\1",
        b"RULE:^CN=(.*)$/$1/L,DEFAULT",
    ]


def _groups() -> list[bytes]:
    subscription = struct.pack(">hi", 1, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">ii", -1, 0)
    assignment = struct.pack(">hi", 0, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">iii", 1, 0, -1)
    return [subscription, assignment]


def _files() -> list[bytes]:
    bodies = [
        struct.pack(">ii", 1, 100),
        struct.pack(">qi", 1000, 1),
        layout.format_aborted([]) + bytes(34),
        layout.format_snapshot([]),
        layout.format_offsets({TopicPartition("t", 0): 5}),
        layout.format_epochs([(0, 0), (1, 5)]),
        layout.format_partition_metadata(new_topic_id()),
        layout.format_properties({"version": "1"}),
        layout.format_clean_shutdown(1),
    ]
    return [bytes([number]) + body for number, body in enumerate(bodies)]


SEEDS = {
    "frames": _frames,
    "requests": lambda: [bytes([place, version]) + body for place, version, body in _bodies()],
    "batches": _batches,
    "message_sets": _message_sets,
    "compressed": lambda: [bytes([one - 1]) + bytes(deflate(one, b"hello" * 50)) for one in Codec if one],
    "logins": _logins,
    "groups": _groups,
    "files": _files,
}
