"""Names for the numbers that travel through the house, and what a topic may be called."""

from __future__ import annotations

import base64
import os
import re
from typing import NamedTuple, NewType

from broker_lite.errors import InvalidTopic

Offset = NewType("Offset", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)

TopicId = NewType("TopicId", bytes)
"""Sixteen raw bytes, as they travel; all zero means none."""

NO_TOPIC_ID = TopicId(bytes(16))
MAX_TOPIC_NAME = 249
KRAFT_TOPIC = "__cluster_metadata"
"""Kafka's controllers keep their log under this name; nobody else's topic may be called that."""
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def new_topic_id() -> TopicId:
    """A random id. Kafka keeps the first hundred values for itself and never lets one start with '-'."""
    while True:
        raw = os.urandom(16)
        if raw[:15] != bytes(15) and not format_topic_id(TopicId(raw)).startswith("-"):
            return TopicId(raw)


def format_topic_id(topic_id: TopicId) -> str:
    """As Kafka prints ids: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(text: str) -> TopicId:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a topic id: {len(raw)} bytes instead of 16")
    return TopicId(raw)


def check_topic_name(name: str) -> str:
    """The fence before the file system: a name that passes is safe as part of a folder's name."""
    if not name:
        raise InvalidTopic("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopic(f"the topic name cannot be {name!r}")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopic(f"the topic name has {len(name)} characters, at most {MAX_TOPIC_NAME} are allowed")
    if not _LEGAL_TOPIC.fullmatch(name):
        raise InvalidTopic(
            f"the topic name {name[:64]!r} has a character other than ASCII letters and digits, '.', '_' and '-'"
        )
    return name
