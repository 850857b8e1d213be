"""What a reader was asked for: the options of Spark's Kafka connector, and `path`, `bootstrap` and `onCorrupt` of ours.

Names are those of the connector and mean what they mean there, so a job changes its format and nothing else.  An
option that nobody knows is an error, because a misspelt one would be a silent wrong answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker_lite.pipeline.entry import Entry, is_about_entry
from broker_lite.pipeline.errors import WrongOption

EARLIEST, LATEST = -2, -1
ON_CORRUPT = ("fail", "skip", "report")
_READING = (
    "path",
    "bootstrap",
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "onCorrupt",
    "kafka.isolation.level",
)
_WRITING = ("bootstrap", "kafka.bootstrap.servers", "topic", "compression", "kafka.compression.type")
_OF_THE_CONNECTOR = (
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Its options that say how it does its work, which is not how it is done here."""
_SPELLED = {name.lower(): name for name in (*_READING, *_WRITING, *_OF_THE_CONNECTOR)}
"""Spark hands over names in small letters; people are told what they have read in the documentation."""

ByPartition = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Where:
    """One edge of what is read: the same for all partitions, or told for each."""

    offset: int | None = None
    """EARLIEST or LATEST."""
    timestamp: int | None = None
    offsets: ByPartition = field(default_factory=dict)
    timestamps: ByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    path: str | None
    bootstrap: str | None
    topics: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, list[int]] | None
    start: Where
    end: Where
    no_later_is_an_error: bool
    committed: bool
    headers: bool
    fail_on_loss: bool
    on_corrupt: str
    max_offsets: int | None
    min_partitions: int | None
    entry: Entry = field(default_factory=Entry)


def read_options(given: Mapping[str, str], *, streaming: bool) -> Asked:
    told = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(told, _READING)
    path, bootstrap = told.get("path"), _bootstrap(told)
    if (path is None) == (bootstrap is None):
        raise WrongOption("give either path (a data folder) or bootstrap (HOST:PORT of a broker)")
    if path is not None and any(map(is_about_entry, told)):
        raise WrongOption("kafka.security.protocol, kafka.sasl.* and kafka.ssl.* are for a broker, not for a path")
    chosen = [name for name in ("subscribe", "subscribepattern", "assign") if name in told]
    if len(chosen) > 1:
        raise WrongOption(f"{' and '.join(map(_spelled, chosen))} are two ways to choose topics; give one")
    return Asked(
        path=path,
        bootstrap=bootstrap,
        topics=_topics(told),
        pattern=_pattern(told),
        assigned=_assigned(told),
        start=_edge(told, "starting", LATEST if streaming else EARLIEST, streaming=streaming),
        end=_edge(told, "ending", LATEST, streaming=streaming),
        no_later_is_an_error=_one_of(told, "startingoffsetsbytimestampstrategy", ("error", "latest")) == "error",
        committed=_one_of(told, "kafka.isolation.level", ("read_uncommitted", "read_committed")) == "read_committed",
        headers=_one_of(told, "includeheaders", ("false", "true")) == "true",
        fail_on_loss=_one_of(told, "failondataloss", ("true", "false")) == "true",
        on_corrupt=_one_of(told, "oncorrupt", ON_CORRUPT),
        max_offsets=_number(told, "maxoffsetspertrigger"),
        min_partitions=_number(told, "minpartitions"),
        entry=Entry.told(told),
    )


@dataclass(frozen=True, slots=True)
class WriteAsked:
    bootstrap: str
    topic: str | None
    codec: str
    entry: Entry = field(default_factory=Entry)


def write_options(given: Mapping[str, str]) -> WriteAsked:
    told = {name.lower(): value for name, value in given.items()}
    bootstrap = _bootstrap(told)
    if bootstrap is None or "path" in told:
        raise WrongOption("records are written to a broker: give bootstrap (HOST:PORT), not path")
    _refuse_unknown(told, _WRITING)
    name = _given(told, "compression", "kafka.compression.type")
    codec = _one_of(told, name, ("none", "gzip", "snappy", "lz4", "zstd"))
    return WriteAsked(bootstrap, told.get("topic"), codec, Entry.told(told))


def _refuse_unknown(told: Mapping[str, str], known: tuple[str, ...]) -> None:
    small = {name.lower() for name in known}
    for name in told:
        if name in small or is_about_entry(name):
            continue
        there = ", ".join([*known, "kafka.security.protocol", "kafka.sasl.*", "kafka.ssl.*"])
        if name.startswith("kafka.") or _SPELLED.get(name) in _OF_THE_CONNECTOR:
            raise WrongOption(f"the connector's option {_spelled(name)} is not supported here; there are {there}")
        raise WrongOption(f"there is no option {_spelled(name)!r} here; there are {there}")


def _spelled(name: str) -> str:
    return _SPELLED.get(name, name)


def _topics(told: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(name.strip() for name in told.get("subscribe", "").split(",") if name.strip())
    if not found and "subscribe" in told:
        raise WrongOption("subscribe names no topic")  # it does not mean all of them
    return found


def _bootstrap(told: Mapping[str, str]) -> str | None:
    return told.get(_given(told, "bootstrap", "kafka.bootstrap.servers"))


def _given(told: Mapping[str, str], ours: str, theirs: str) -> str:
    """By which of its two names an option was given."""
    if ours in told and theirs in told:
        raise WrongOption(f"{ours} and {theirs} are the same option; give one")
    return theirs if theirs in told else ours


def _pattern(told: Mapping[str, str]) -> str | None:
    pattern = told.get("subscribepattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise WrongOption(f"subscribePattern {pattern!r} is no pattern: {error}") from None
    return pattern


def _assigned(told: Mapping[str, str]) -> dict[str, list[int]] | None:
    if "assign" not in told:
        return None
    found = _json(told, "assign")
    if not found or not all(
        isinstance(parts, list) and all(isinstance(one, int) for one in parts) for parts in found.values()
    ):
        raise WrongOption("""assign must look like {"orders": [0, 1]}""")
    return {topic: list(parts) for topic, parts in found.items() if isinstance(parts, list)}


def _edge(told: Mapping[str, str], which: str, default: int, *, streaming: bool) -> Where:
    if streaming and which == "ending":
        for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
            if name in told:
                raise WrongOption(f"{_spelled(name)} means nothing in a stream, which has no end")
        return Where(offset=LATEST)
    if f"{which}timestamp" in told:
        return Where(timestamp=_number(told, f"{which}timestamp"))
    if f"{which}offsetsbytimestamp" in told:
        return Where(timestamps=_by_partition(told, f"{which}offsetsbytimestamp"))
    text = told.get(f"{which}offsets")
    if text is None:
        return Where(offset=default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        wrong = None if streaming else {"starting": "latest", "ending": "earliest"}[which]
        if word == wrong:
            raise WrongOption(f"{which}Offsets cannot be {word} in a batch: there would be nothing between")
        return Where(offset=EARLIEST if word == "earliest" else LATEST)
    offsets = _by_partition(told, f"{which}offsets")
    nothing, word = (LATEST, "latest (-1)") if which == "starting" else (EARLIEST, "earliest (-2)")
    for topic, parts in offsets.items():
        for part, offset in parts.items():
            if offset == nothing and not streaming:
                raise WrongOption(f"{which}Offsets of {topic}-{part} cannot be {word} in a batch")
            if offset < EARLIEST:
                raise WrongOption(f"{which}Offsets of {topic}-{part} is {offset}, which is no offset")
    return Where(offsets=offsets)


def _json(told: Mapping[str, str], name: str) -> dict[str, object]:
    try:
        found = json.loads(told[name])
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise WrongOption(f"{_spelled(name)} is no JSON object: {told[name]!r}")
    return found


def _by_partition(told: Mapping[str, str], name: str) -> ByPartition:
    out: ByPartition = {}
    for topic, parts in _json(told, name).items():
        if not isinstance(parts, dict) or not all(
            part.isdecimal() and isinstance(at, int) for part, at in parts.items()
        ):
            raise WrongOption(f"""{_spelled(name)} must look like {{"orders": {{"0": 23, "1": -2}}}}""")
        out[topic] = {int(part): at for part, at in parts.items()}
    return out


def _one_of(told: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """The first of the allowed is the default."""
    value = told.get(name, allowed[0]).lower()
    if value not in allowed:
        raise WrongOption(f"{_spelled(name)} is {value!r}, but must be one of {', '.join(allowed)}")
    return value


def _number(told: Mapping[str, str], name: str) -> int | None:
    if name not in told:
        return None
    if not told[name].isdecimal() or (int(told[name]) == 0 and "timestamp" not in name):
        raise WrongOption(f"{_spelled(name)} is {told[name]!r}, but must be a number above 0")
    return int(told[name])
