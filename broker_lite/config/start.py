"""Everything that a start needs to know, in one object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from broker_lite.config import broker
from broker_lite.config.bounds import check_bounds
from broker_lite.config.listeners import Listener, advertised, opened
from broker_lite.config.sources import Settings, topic_config
from broker_lite.errors import BrokerError, StartRefused
from broker_lite.ids import check_topic_name
from broker_lite.shapes import dataclass, field

_TOPIC = re.compile(r"(?P<name>[^:,=]*)(?::(?P<partitions>[^,=]*))?(?:,(?P<rest>.*))?", re.DOTALL)
_COUNT = re.compile(r"[1-9][0-9]{0,8}")

MOST_PARTITIONS = 10_000
"""Kafka's controller makes no more in one request."""


class Durability(Enum):
    """What an acknowledged write survives."""

    MEMORY = "memory"
    OS = "os"
    FSYNC = "fsync"


@dataclass(frozen=True, slots=True)
class TopicAtStart:
    name: str
    partitions: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class StartOptions:
    settings: Settings
    listeners: list[Listener]
    advertised: dict[str, Listener]
    data: Path
    durability: Durability
    node_id: int
    cluster_id: str | None = None
    topics: list[TopicAtStart] = field(default_factory=list)
    ready_file: Path | None = None
    log_format: str | None = None


def start_options(
    settings: Settings,
    *,
    data: Path | None = None,
    topics: list[TopicAtStart] | None = None,
    ready_file: Path | None = None,
    log_format: str | None = None,
) -> StartOptions:
    """What `settings` mean for a start. StartRefused names what is wrong with them."""
    folders = settings.get(broker.LOG_DIRS)
    if data is None and len(folders) != 1:
        raise StartRefused(
            f"log.dirs names {len(folders)} folders ({', '.join(folders)}); this broker keeps its data in one"
        )
    check_bounds(settings)
    listeners = opened(settings)
    for topic in topics or []:
        try:
            topic_config(topic.configs, settings)
        except BrokerError as error:
            raise StartRefused(f"--topic {topic.name}: {error}") from None
    return StartOptions(
        settings=settings,
        listeners=listeners,
        advertised=advertised(settings, listeners),
        data=data or Path(folders[0]),
        durability=Durability(settings.get(broker.DURABILITY)),
        node_id=settings.get(broker.NODE_ID),
        cluster_id=settings.get(broker.CLUSTER_ID) or None,
        topics=topics or [],
        ready_file=ready_file,
        log_format=log_format,
    )


def parse_topic(text: str) -> TopicAtStart:
    """`NAME[:PARTITIONS][,key=value…]`; a part without `=` belongs to the value before it."""
    found = _TOPIC.fullmatch(text)
    if found is None:
        raise StartRefused(f"--topic {text!r} is not NAME[:PARTITIONS][,key=value…]")
    try:
        check_topic_name(found["name"])
    except BrokerError as error:
        raise StartRefused(f"--topic {text!r}: {error}") from None
    partitions: int | None = None
    if found["partitions"] is not None:
        if not _COUNT.fullmatch(found["partitions"]):
            raise StartRefused(f"--topic {text!r}: {found['partitions']!r} is not a number of partitions")
        partitions = int(found["partitions"])
        if partitions > MOST_PARTITIONS:
            raise StartRefused(f"--topic {text!r}: at most {MOST_PARTITIONS} partitions can be made at once")
    configs: dict[str, str] = {}
    key = ""
    for part in (found["rest"] or "").split(",") if found["rest"] is not None else ():
        if "=" in part:
            key, _, value = part.partition("=")
            key = key.strip()
            configs[key] = value
        elif key:
            configs[key] += f",{part}"
        else:
            raise StartRefused(f"--topic {text!r}: {part!r} has no key before it; expected key=value")
    return TopicAtStart(found["name"], partitions, configs)
