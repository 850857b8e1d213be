"""Bytes that real clients and a real Apache Kafka exchanged: we read them whole and write them again, identically.

One file per client, API and version; who spoke is its first line.  `capture.py` is how they were taken.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker_lite.wire.codec import decode, encode_bytes
from broker_lite.wire.headers import (
    read_request_header,
    request_header,
    request_is_flexible,
    response_header,
    response_is_flexible,
)
from broker_lite.wire.messages import request_class, response_class

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*/k*.txt"))
TOO_LONG = {"confluent/k51_alter_user_scram_credentials.v0.txt": 1}
"""librdkafka ends this request with one empty list of tags too many.  Kafka does not look past the end, nor may we."""


def spoken(path: Path) -> tuple[int, int, memoryview, memoryview]:
    """Key, version, request and response of a file."""
    name = re.fullmatch(r"k(\d\d)_\w+\.v(\d+)\.txt", path.name)
    assert name, f"{path.name} does not say which API and version it holds"
    who, request, response = re.split(r"\n\n(?:request|response):\n", path.read_text())
    assert who.startswith("who: "), f"{path.name} does not say who spoke"
    return int(name[1]), int(name[2]), memoryview(bytes.fromhex(request)), memoryview(bytes.fromhex(response))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_real_request_is_read_whole_and_written_again(path: Path) -> None:
    key, version, frame, _ = spoken(path)
    header, start = read_request_header(frame, request_is_flexible)
    assert (header.api_key, header.api_version) == (key, version)
    assert request_header(header, flexible=request_is_flexible(key, version)) == frame[:start]
    request, end = decode(request_class(key), version, frame, start)
    assert end == len(frame) - TOO_LONG.get(f"{path.parent.name}/{path.name}", 0)
    assert encode_bytes(request, version) == frame[start:end]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_real_response_is_read_whole_and_written_again(path: Path) -> None:
    key, version, _, frame = spoken(path)
    head = response_header(int.from_bytes(frame[:4], "big"), flexible=response_is_flexible(key, version))
    assert frame[: len(head)] == head
    response, end = decode(response_class(key), version, frame, len(head))
    assert end == len(frame)
    assert encode_bytes(response, version) == frame[len(head) :]


def test_every_client_spoke() -> None:
    spoke = {path.parent.name for path in FILES}
    assert spoke >= {"aiokafka", "confluent", "java", "kafka_python"}
