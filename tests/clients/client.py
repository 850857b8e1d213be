"""What a Kafka client can do, in the words of the scenarios.

Every client of the matrix, whatever its language, is asked with the same few verbs: make a topic, write these records,
read that many from there, join a group, run a transaction.  A scenario is written once against these verbs; a client
that has no such verb says `NotOffered`, and the table shows that instead of a failure.

Each verb that talks to a broker opens its own producer, consumer or admin and closes it again, so no state of one
scenario reaches the next; only group members and transactional producers live longer, under a name from the scenario.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

Headers = tuple[tuple[str, bytes | None], ...]


class NotOffered(Exception):
    """The client has no such function; nobody's fault."""


class ClientError(Exception):
    """The client refused or was refused; the text is its own."""


class Fenced(ClientError):
    """The producer was told that a younger one owns its transactional id."""


@dataclass(slots=True, frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        """What must come back as it was written."""
        return self.key, self.value, self.headers


@dataclass(slots=True, frozen=True)
class Start:
    """Where to read from: an offset, or the first record at or after a time."""

    offset: int | None = None
    timestamp: int | None = None


@dataclass(slots=True, frozen=True)
class Door:
    """How to get in, where a listener asks for more than its address."""

    protocol: str
    ca: str = ""
    """The certificate to trust, where the protocol is one with TLS."""
    mechanism: str = ""
    user: str = ""
    password: str = ""

    @property
    def is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def librdkafka(self) -> dict[str, str]:
        """In the words of librdkafka's settings."""
        named = {
            "security.protocol": self.protocol,
            "ssl.ca.location": self.ca,
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }
        return {name: value for name, value in named.items() if value}

    def keywords(self) -> dict[str, object]:
        """In the words that clients in Python share."""
        named: dict[str, object] = {"security_protocol": self.protocol}
        if self.is_tls:
            named["ssl_context"] = ssl.create_default_context(cafile=self.ca)
        if self.mechanism:
            named |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return named

    def properties(self) -> dict[str, str]:
        """In the words of Java's settings."""
        named = {"security.protocol": self.protocol}
        if self.is_tls:
            named |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.mechanism:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            who = f'username="{self.user}" password="{self.password}"'
            login = f"org.apache.kafka.common.security.{module} required {who};"
            named |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        return named


BEGINNING = Start(offset=0)
EARLIEST, LATEST = -2, -1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_SECONDS = 20.0
"""How long a read waits for its records before it gives back what it has."""


class Client:
    """The verbs.  What a subclass does not override it does not offer."""

    name = "client"
    lacks: frozenset[str] = frozenset()
    """Abilities a scenario may ask for that this client does not have: binary, headers, timestamps, codec-zstd …"""
    reads_in_groups = False
    """It can only read as a member of a group, so reading needs the group keys."""
    more_keys: Mapping[str, frozenset[int]] = MappingProxyType({})
    """Keys that this client needs for a scenario beyond those that everybody needs."""
    exchanged: tuple[str, ...] = CODECS
    """Codecs to exchange records in with another client."""
    costly = False
    """Each verb costs the start of a program, so what others do often it does once."""
    bootstrap = ""
    door: Door | None = None
    """What the listener asks for; it counts for reading and writing."""

    def version(self) -> str:
        return ""

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        raise NotOffered("create topic")

    def delete_topic(self, topic: str) -> None:
        raise NotOffered("delete topic")

    def list_topics(self) -> list[str]:
        raise NotOffered("list topics")

    def partitions_of(self, topic: str) -> int:
        raise NotOffered("describe topic")

    def grow_topic(self, topic: str, partitions: int) -> None:
        raise NotOffered("add partitions")

    def set_config(self, topic: str, name: str, value: str) -> None:
        raise NotOffered("alter topic config")

    def get_config(self, topic: str, name: str) -> str:
        raise NotOffered("describe topic config")

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int]:
        """Write all, in order, and give back their offsets (nothing with acks=0)."""
        raise NotOffered("produce")

    def read(
        self, topic: str, start: Start, count: int, *, partition: int = 0, committed: bool = False
    ) -> list[Record]:
        """Up to `count` records by assignment; fewer when no more came within READ_SECONDS."""
        raise NotOffered("read by assignment")

    def offset_of(self, topic: str, at: int, *, partition: int = 0) -> int:
        """The offset at EARLIEST, LATEST or a time; -1 when no record is that young."""
        raise NotOffered("look up offsets")

    def join(self, member: str, *, group: str, topic: str, protocol: str = "classic") -> None:
        raise NotOffered("groups")

    def take(self, member: str, count: int) -> list[Record]:
        raise NotOffered("groups")

    def assigned(self, member: str) -> list[int]:
        raise NotOffered("watch an assignment")

    def commit(self, member: str, topic: str, offsets: Mapping[int, int]) -> None:
        raise NotOffered("groups")

    def leave(self, member: str) -> None:
        raise NotOffered("groups")

    def groups(self) -> list[str]:
        raise NotOffered("list groups")

    def committed(self, group: str, topic: str) -> dict[int, int]:
        raise NotOffered("read a group's offsets")

    def delete_group(self, group: str) -> None:
        raise NotOffered("delete group")

    def open_producer(self, producer: str, transactional_id: str) -> None:
        raise NotOffered("transactions")

    def begin(self, producer: str) -> None:
        raise NotOffered("transactions")

    def send(self, producer: str, topic: str, records: Sequence[Record], *, partition: int = 0) -> None:
        raise NotOffered("transactions")

    def send_offsets(self, producer: str, member: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        raise NotOffered("offsets in transactions")

    def end(self, producer: str, *, commit: bool) -> None:
        raise NotOffered("transactions")

    def close_producer(self, producer: str) -> None:
        raise NotOffered("transactions")

    def close(self) -> None:
        """Let go of everything that is still open."""
