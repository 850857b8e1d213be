"""Kafka's own definitions of its messages, read from the jars that carry them."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.jars import jar

NEWEST = "org.apache.kafka:kafka-clients:4.3.1"
BEFORE_4 = "org.apache.kafka:kafka-clients:3.9.2"
"""Still has the versions that 4.0 dropped."""


@cache
def definitions(coordinates: str) -> Mapping[str, Any]:
    """Message name to definition."""
    found = {}
    with zipfile.ZipFile(jar(coordinates)) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                parsed = json.loads(re.sub(r"(?<=[,{}\[\]])\s*//.*$", "", text, flags=re.MULTILINE))
                found[parsed["name"]] = parsed
    return found


def versions(text: str | None) -> range:
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), 1 << 15)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def snake(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


@dataclass(frozen=True, order=True)
class Line:
    """One field of one version, so that two definitions can be compared as lists."""

    path: str
    type: str
    nullable: bool
    tag: int
    default: str


def lines(definition: Mapping[str, Any], version: int) -> list[Line]:
    """Every field the definition has at this version, in the order of the wire, structs unfolded."""
    common = {one["name"]: one["fields"] for one in definition.get("commonStructs", [])}
    return list(_lines(definition["fields"], version, "", common))


def _lines(fields: list[Any], version: int, prefix: str, common: Mapping[str, Any]) -> list[Line]:
    found = []
    for one in fields:
        if version not in versions(one["versions"]):
            continue
        path = prefix + snake(one["name"])
        tag = one["tag"] if version in versions(one.get("taggedVersions")) else -1
        nullable = version in versions(one.get("nullableVersions"))
        found.append(Line(path, one["type"], nullable, tag, _default(one)))
        inner = one.get("fields") or common.get(one["type"].removeprefix("[]"))
        found += _lines(inner or [], version, path + ".", common)
    return found


def _default(one: Mapping[str, Any]) -> str:
    """A definition without a default means the zero of its type."""
    told, kind = one.get("default"), one["type"]
    if told == "null" or kind == "records":
        return "None"
    if kind.startswith("[]"):
        return "[]"
    if kind[0].isupper():
        return "its own"
    match kind:
        case "string":
            return repr(told or "")
        case "bytes":
            return repr(b"")
        case "uuid":
            return repr(bytes(16))
        case "bool":
            return repr(str(told).lower() == "true")
        case "float64":
            return repr(float(told or 0))
        case _:
            return repr(int(str(told or 0), 0))
