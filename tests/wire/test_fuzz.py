"""Damaged and hostile requests: nothing but Malformed, and no more memory than promised.

The seed is fixed and the time is bounded, so this is the same test on every machine that is fast
enough, and a shorter one elsewhere; BROKER_LITE_FUZZ_SECONDS makes it longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import tracemalloc
from typing import Any

import pytest

from broker_lite.errors import Malformed
from broker_lite.wire.codec import BUDGET, decode, encode_bytes, reader
from broker_lite.wire.headers import read_request_header, request_is_flexible
from broker_lite.wire.layout import UNIT, Array, Scalar, Struct, Type, layout
from broker_lite.wire.messages import ALL
from broker_lite.wire.schema import spec_of
from tests.wire.samples import seeded

SECONDS = float(os.environ.get("BROKER_LITE_FUZZ_SECONDS", "4"))
MIB = 1 << 20
REQUESTS = [(request, version) for request, _ in ALL.values() for version in spec_of(request).versions]
HOSTILE = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\xff\x7f", b"\x00"]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bits flipped, a stretch cut out, repeated or made hostile; now and then all noise."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(out))
        match chance.randrange(6):
            case 0 if out:
                out[at % len(out)] ^= 1 << chance.randrange(8)
            case 1:
                del out[at : at + chance.randint(1, 8)]
            case 2:
                out[at:at] = chance.choice(HOSTILE)
            case 3:
                out[at : at + 4] = chance.choice(HOSTILE)
            case 4:
                out[at:at] = out[at : at + 64] * chance.randint(1, 20)
            case _:
                del out[at:]
    return bytes(out) if chance.random() < 0.98 else chance.randbytes(chance.randint(0, 300))


def test_damaged_requests_raise_nothing_but_malformed() -> None:
    chance = random.Random(20_26)
    until = time.monotonic() + SECONDS
    tried = refused = 0
    while time.monotonic() < until and tried < 60_000:
        request, version = chance.choice(REQUESTS)
        whole = encode_bytes(seeded(chance.randrange(1 << 30)).message(request, version), version)
        for _ in range(20):
            data = memoryview(damaged(whole, chance))
            tried += 1
            try:
                read: tuple[object, int] = decode(request, version, data)
            except Malformed:
                refused += 1
            else:
                assert isinstance(read[0], request)
                assert read[1] <= len(data)
    assert refused > tried / 20, f"only {refused} of {tried} were refused: the damage is too mild to prove anything"


def test_damaged_headers_raise_nothing_but_malformed() -> None:
    chance = random.Random(7)
    for _ in range(5000):
        with contextlib.suppress(Malformed):
            read_request_header(
                memoryview(damaged(b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x03abc\x00", chance)), request_is_flexible
            )


def peak_of(request: type, version: int, data: bytes, max_elements: int = BUDGET) -> int:
    """Most memory in use while reading, beside the frame itself."""
    view = memoryview(data)
    reader(request, version)
    tracemalloc.start()
    try:
        with contextlib.suppress(Malformed):
            decode(request, version, view, max_elements=max_elements)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_damage_makes_a_reader_greedy() -> None:
    chance = random.Random(20_27)
    until = time.monotonic() + SECONDS
    for request, version in chance.sample(REQUESTS, len(REQUESTS)):
        if time.monotonic() > until:
            break
        whole = encode_bytes(seeded(version).message(request, version), version)
        for _ in range(10):
            data = damaged(whole, chance)
            # So small a frame holds few elements, so the promise without the budget must hold.
            assert peak_of(request, version, data) < MIB + len(data)


def greedy(shape: Struct, depth: int, count: int) -> Any:
    """A message whose arrays at this depth are as long as told, of elements as costly as their bytes allow."""
    costly = {"string": "\u20ac", "bytes": b"x", "uuid": bytes(range(16)), "bool": True, "float64": 1.5}
    costly["records"] = memoryview(b"r")

    def value(kind: Type, depth: int) -> object:
        match kind:
            case Scalar(name):
                return costly.get(name, 127 if name == "int8" else 30_000 if name.endswith("16") else 2**31 - 1)
            case Array(element):
                return [value(element, depth - 1) for _ in range(count if depth == 0 else 1 if depth > 0 else 0)]
            case Struct():
                return greedy(kind, depth, count)

    values = {slot.name: value(slot.type, depth) for slot in shape.slots if slot.present}
    return shape.cls(**values)


def depth_of(shape: Struct) -> int:
    inner = [slot.type.element for slot in shape.slots if slot.present and isinstance(slot.type, Array)]
    return max((1 + (depth_of(one) if isinstance(one, Struct) else 0) for one in inner), default=0)


@pytest.mark.slow
def test_the_costliest_elements_cost_what_the_budget_reckons() -> None:
    budget = 400
    for request, _ in ALL.values():
        version = spec_of(request).versions[-1]
        shape = layout(request, version)
        for depth in range(depth_of(shape)):
            for share in (1, 2, 3):
                data = encode_bytes(greedy(shape, depth, budget // share - 5), version)
                peak = peak_of(request, version, data, max_elements=budget)
                assert peak < 16_384 + len(data) + UNIT * budget, f"{request.__name__} v{version} at depth {depth}"
            with pytest.raises(Malformed):
                decode(request, version, memoryview(data), max_elements=budget // 3 - 6)
