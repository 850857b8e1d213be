"""Messages made up from their declarations, by hypothesis or by a seeded random.

One walk over the layout asks `pick` for every scalar, `count` for the length of every array and
`null` for everything that may be null; who answers decides what kind of message comes out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from broker_lite.wire.layout import Array, Scalar, Struct, Type, layout
from broker_lite.wire.messages import ALL
from broker_lite.wire.schema import spec_of

EVERY_MESSAGE = [cls for pair in ALL.values() for cls in pair]
EVERY_VERSION = [(cls, version) for cls in EVERY_MESSAGE for version in spec_of(cls).versions]
NAMES = [f"{cls.__name__}-v{version}" for cls, version in EVERY_VERSION]

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

STRATEGIES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "bytes": st.binary(max_size=5),
    "records": st.binary(min_size=1, max_size=9).map(lambda data: memoryview(data)),
    "uuid": st.binary(min_size=16, max_size=16),
} | {name: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in BITS.items()}


@dataclass
class Maker:
    pick: Callable[[str], object]
    count: Callable[[], int]
    null: Callable[[], bool]

    def message(self, cls: type, version: int) -> Any:
        return self.struct(layout(cls, version))

    def struct(self, shape: Struct) -> Any:
        """Fields that the version does not have keep their defaults, so that nothing is lost in writing."""
        values = {slot.name: self.value(slot.type, slot.nullable) for slot in shape.slots if slot.present}
        for slot in shape.absent():
            values[slot.name] = [] if isinstance(slot.default, list) else slot.default
        return shape.cls(**values)

    def value(self, kind: Type, nullable: bool) -> object:
        if nullable and self.null():
            return None
        match kind:
            case Scalar(name):
                return self.pick(name)
            case Array(element):
                return [self.value(element, False) for _ in range(self.count())]
            case Struct():
                return self.struct(kind)


@st.composite
def messages(draw: Callable[[st.SearchStrategy[Any]], Any], cls: type, version: int) -> Any:
    maker = Maker(
        pick=lambda name: draw(STRATEGIES[name]),
        count=lambda: draw(st.integers(0, 2)),
        null=lambda: draw(st.booleans()),
    )
    return maker.message(cls, version)


def seeded(seed: int, *, at_most: int = 3) -> Maker:
    """The same messages for the same seed, with text that every encoder agrees on."""
    chance = random.Random(seed)

    def pick(name: str) -> object:
        match name:
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.uniform(-1e9, 1e9)
            case "string":
                return "".join(chance.choices("aZ09.-é€😀", k=chance.choice([0, 1, 7, 130])))
            case "uuid":
                return chance.randbytes(16)
            case "bytes":
                return chance.randbytes(chance.choice([0, 1, 7, 130]))
            case "records":
                return memoryview(chance.randbytes(chance.choice([1, 70, 300])))
            case "uint16":
                return chance.choice([0, 1, 2**16 - 1])
            case "uint32":
                return chance.choice([0, 1, 2**32 - 1])
            case _:
                bits = BITS[name]
                return chance.choice([0, -1, 1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1])

    return Maker(pick, lambda: chance.randint(0, at_most), lambda: chance.random() < 0.3)
