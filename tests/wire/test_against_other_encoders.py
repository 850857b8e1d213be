"""Our bytes are the bytes that encoders of other people write for the same message.

kio knows every version that Kafka 4 serves; aiokafka knows the old ones that Kafka 4 dropped.
"""

from __future__ import annotations

import datetime
import importlib
import io
import re
import typing
import uuid
from dataclasses import fields
from pkgutil import iter_modules
from typing import Any

import aiokafka.protocol
import kio.schema
import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from broker_lite.wire.codec import encode_bytes
from broker_lite.wire.layout import Array, Struct, Type, layout
from broker_lite.wire.schema import spec_of
from tests.wire.samples import EVERY_VERSION, Maker, seeded

FOLDERS = {one.name.replace("_", ""): one.name for one in iter_modules(kio.schema.__path__)}


def kio_type(cls: type, version: int) -> Any:
    name, kind = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()  # type: ignore[union-attr]
    try:
        module = importlib.import_module(f"kio.schema.{FOLDERS[name.lower()]}.v{version}.{kind.lower()}")
    except (ImportError, KeyError):
        return None
    return getattr(module, cls.__name__)


KIO = [(cls, version) for cls, version in EVERY_VERSION if kio_type(cls, version) is not None]


def as_kio(kind: Any, shape: Struct, message: object) -> Any:
    """The same message as kio spells it: its fields by order, units and error codes as its own types."""
    hints = typing.get_type_hints(kind)
    present = [slot for slot in shape.slots if slot.present]
    theirs = fields(kind)
    values = {}
    for one, slot in zip(theirs, present, strict=True):
        kafka_type = str(one.metadata.get("kafka_type"))
        assert one.name == (slot.name.removesuffix("_ms") if "time" in kafka_type else slot.name)
        values[one.name] = _kio_value(hints[one.name], kafka_type, slot.type, getattr(message, slot.name))
    return kind(**values)


def _kio_value(hint: Any, kafka_type: str, kind: Type, value: Any) -> Any:
    if value is None:
        return None
    inner = next((part for part in typing.get_args(hint) if part is not type(None) and part is not ...), hint)
    if isinstance(kind, Array):
        element = next((part for part in typing.get_args(inner) if part is not ...), inner)
        return tuple(_kio_value(element, kafka_type, kind.element, one) for one in value)
    if isinstance(kind, Struct):
        return as_kio(inner, kind, value)
    match kafka_type:
        case "error_code":
            return ErrorCode(value)
        case "uuid":
            return uuid.UUID(bytes=value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        case "records":
            return bytes(value)
        case _:
            return value


def modest(seed: int) -> Maker:
    """Numbers that are good error codes, durations and dates as well."""
    maker = seeded(seed)
    pick = maker.pick

    def small(name: str) -> object:
        value = pick(name)
        return abs(value) % 100 if name.startswith("int") and isinstance(value, int) else value

    maker.pick = small
    return maker


@pytest.mark.parametrize(("cls", "version"), KIO, ids=[f"{cls.__name__}-v{version}" for cls, version in KIO])
def test_kio_writes_the_same_bytes(cls: type, version: int) -> None:
    kind = kio_type(cls, version)
    for seed in range(3):
        message = modest(seed).message(cls, version)
        out = io.BytesIO()
        entity_writer(kind)(out, as_kio(kind, layout(cls, version), message))
        assert encode_bytes(message, version) == out.getvalue()


def aiokafka_types() -> dict[tuple[int, int, bool], Any]:
    """(key, version, is it a response) to the class that stands for it."""
    found = {}
    for module in iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        for name, one in vars(importlib.import_module(module.name)).items():
            if isinstance(getattr(one, "API_VERSION", None), int):
                found[one.API_KEY, one.API_VERSION, "Response_" in name] = one
    return found


AIOKAFKA = aiokafka_types()
OLD = [
    (cls, version)
    for cls, version in EVERY_VERSION
    if (cls, version) not in KIO and (spec_of(cls).key, version, cls.__name__.endswith("Response")) in AIOKAFKA
]


def as_tuple(shape: Struct, message: object) -> tuple[Any, ...]:
    return tuple(_plain(slot.type, getattr(message, slot.name)) for slot in shape.slots if slot.present)


def _plain(kind: Type, value: Any) -> Any:
    if isinstance(kind, Array):
        return None if value is None else [_plain(kind.element, one) for one in value]
    if isinstance(kind, Struct):
        return as_tuple(kind, value)
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize(("cls", "version"), OLD, ids=[f"{cls.__name__}-v{version}" for cls, version in OLD])
def test_aiokafka_writes_the_same_bytes_at_versions_that_kafka_4_dropped(cls: type, version: int) -> None:
    kind = AIOKAFKA[spec_of(cls).key or 0, version, cls.__name__.endswith("Response")]
    for seed in range(5):
        message = seeded(seed).message(cls, version)
        assert encode_bytes(message, version) == kind(*as_tuple(layout(cls, version), message)).encode()


def test_only_these_versions_have_no_second_encoder() -> None:
    """They are compared with Kafka's definitions all the same."""
    alone = {one for one in EVERY_VERSION if one not in KIO + OLD}
    names = {(cls.__name__.removesuffix("Request"), version) for cls, version in alone}
    assert {one for one in names if not one[0].endswith("Response")} == {
        ("AlterReplicaLogDirs", 0),
        ("CreateDelegationToken", 0),
        ("DescribeDelegationToken", 0),
        ("DescribeLogDirs", 0),
        ("ExpireDelegationToken", 0),
        ("OffsetForLeaderEpoch", 0),
        ("OffsetForLeaderEpoch", 1),
        ("RenewDelegationToken", 0),
        ("WriteTxnMarkers", 0),
    }
