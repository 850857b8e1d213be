"""A member of a classic group, what it asks, and what it is told."""

from __future__ import annotations

from collections.abc import Collection

from broker_lite.coordinator.decision import Ticket
from broker_lite.errors import ErrorCode
from broker_lite.shapes import dataclass, field

Protocols = list[tuple[str, bytes]]
"""What a member can speak, best first: name and metadata, which only the leader reads."""


@dataclass(slots=True, kw_only=True)
class Join:
    """A JoinGroup, whatever its version."""

    group: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    new_member_id: str
    """The id to give to a newcomer. It is random, and chance is made outside of this room."""
    id_first: bool = False
    """Version 4 and later: a newcomer gets its id and asks again with it (KIP-394)."""
    may_skip_assignment: bool = False
    """Version 9 and later: a returning leader can be told to assign nothing (KIP-814)."""


@dataclass(slots=True, kw_only=True)
class Sync:
    group: str
    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class JoinedMember:
    id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class Joined:
    """The answer to a JoinGroup."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: list[JoinedMember] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Synced:
    """The answer to a SyncGroup."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    joining: Ticket | None = None
    """The parked JoinGroup of this member."""
    syncing: Ticket | None = None
    """The parked SyncGroup of this member."""
    is_new: bool = False
    """Has never been answered a JoinGroup: it does not know its own id and cannot send heartbeats."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """A parked request is as good as a heartbeat, unless nobody may be at the other end any more."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """The first of its protocols that is among the candidates."""
        return next((name for name, _ in self.protocols if name in candidates), None)
