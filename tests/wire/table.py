"""All declarations as one table that a reviewer can read: python -m tests.wire.table"""

from __future__ import annotations

from collections.abc import Iterator

from broker_lite.shapes import MISSING
from broker_lite.wire.layout import Array, Scalar, Struct, Type, layout
from broker_lite.wire.messages import ALL
from broker_lite.wire.schema import ZERO_UUID, FieldSpec, fields_of, spec_of


def schema() -> str:
    blocks = ["\n".join(_message(cls)) for pair in ALL.values() for cls in pair]
    return "\n\n".join(blocks) + "\n"


def _message(cls: type) -> Iterator[str]:
    spec = spec_of(cls)
    flexible = f", flexible {spec.flexible[0]}+" if spec.flexible else ""
    yield f"{spec.key} {cls.__name__} {spec.versions[0]}-{spec.versions[-1]}{flexible}"
    yield from _fields(layout(cls, spec.versions[-1]), 1)


def _fields(shape: Struct, depth: int) -> Iterator[str]:
    for slot in shape.slots:
        one = fields_of(shape.cls)[slot.name]
        nullable = slot.nullable or one.nullable is not None
        name = "  " * depth + slot.name
        yield f"{name:<44} {spelled(slot.type) + ('?' if nullable else ''):<32} {_details(one)}".rstrip()
        inner = slot.type.element if isinstance(slot.type, Array) else slot.type
        if isinstance(inner, Struct):
            yield from _fields(inner, depth + 1)


def _details(one: FieldSpec) -> str:
    said = [one.versions or "all"]
    if one.nullable is not None:
        said.append(f"null {one.nullable}")
    if one.tag is not None:
        said.append(f"tag {one.tag}")
    if one.default is not MISSING:
        said.append("= zero" if one.default == ZERO_UUID else f"= {one.default!r}")
    if one.ignorable:
        said.append("ignorable")
    return ", ".join(said)


def spelled(kind: Type) -> str:
    match kind:
        case Scalar(name):
            return name
        case Array(element):
            return "[]" + spelled(element)
        case Struct(cls):
            return cls.__name__


if __name__ == "__main__":
    print(schema(), end="")
