"""A classic group: its members, its leader, its generation. The rounds are in `joining`, `rebalance` and `syncing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from broker_lite.coordinator.decision import Record, Ticket
from broker_lite.coordinator.groups.members import Joined, JoinedMember, Member, Protocols, Synced
from broker_lite.coordinator.groups.state import MAY_BECOME, State
from broker_lite.coordinator.groups.subscription import CONSUMER, topics_of
from broker_lite.coordinator.groups.turn import Turn
from broker_lite.coordinator.schemas import GroupMetadataKey, GroupMetadataValue, MemberMetadata, record, tombstone
from broker_lite.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)


class ClassicGroup:
    kind = "classic"

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.previous = State.DEAD
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.since_ms: int | None = now_ms
        """When the group came into its state. None: a record of long ago did not say."""
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending_join: set[str] = set()
        """Ids given out with MEMBER_ID_REQUIRED whose owners did not come back yet."""
        self.pending_sync: set[str] = set()
        self.replacing: dict[str, Member] = {}
        """Returning static members between the decision and its record."""
        self.subscribed: frozenset[str] | None = None
        """The topics its members read. None: we do not know."""
        self.grew = False
        """Somebody new came while the first generation was being gathered."""
        self.gather_until = 0.0
        """The instant until which the first generation may be gathered."""
        self._speakers: Counter[str] = Counter()
        self.joining = 0
        """How many members have a JoinGroup parked."""

    # Questions

    @property
    def is_simple(self) -> bool:
        """Only a name under which offsets are kept: made by a commit, without members ever."""
        return self.protocol_type is None and self.state is State.EMPTY and not self.pending_join

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY and not self.pending_join

    @property
    def everybody_joined(self) -> bool:
        return len(self.members) == self.joining and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member, or 25 if there is none, or 82 if its place is taken by a later start of the same instance."""
        if instance_id is not None:
            seated = self.static.get(instance_id)
            if seated is None:
                raise UnknownMemberId(f"group {self.id} has no member with the instance id {instance_id!r}")
            if seated != member_id:
                raise FencedInstanceId(f"instance {instance_id!r} of group {self.id} is {seated}, not {member_id}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.id} has no member {member_id!r}")
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(f"group {self.id} is in generation {self.generation}, not {generation}")

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool) -> None:
        if self.state is State.DEAD:
            raise CoordinatorNotAvailable(f"group {self.id} is gone")
        if generation < 0 and self.state is State.EMPTY:
            return  # an admin client, or a consumer that assigns its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(generation)
        elif not transactional:
            raise UnknownMemberId(f"group {self.id} has members; a commit must name one")
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"group {self.id} waits for the assignment of generation {self.generation}")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Everybody may ask how far a classic group has come."""

    def check_deletable(self) -> None:
        if self.state not in (State.EMPTY, State.DEAD):
            raise NonEmptyGroup(f"group {self.id} has {len(self.members)} members")

    def check_offsets_deletable(self) -> None:
        if self.protocol_type != CONSUMER:
            self.check_deletable()

    def reads(self, topic: str) -> bool:
        """Whether a member may be reading this topic; when we cannot know, a consumer group is taken to read all."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols has one in common with all others."""
        if not self.members:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return any(self._speakers[name] == len(self.members) for name in names)

    def elected_protocol(self) -> str | None:
        """Among those that everybody speaks, the one that most members name first."""
        candidates = {name for name, count in self._speakers.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name], default=None)

    def expires_from(self, commit_ms: int) -> int | None:
        """The instant from which an offset committed at `commit_ms` ages; None while it does not age."""
        if self.protocol_type is None:
            return commit_ms
        if self.state is State.EMPTY:
            return commit_ms if self.since_ms is None else self.since_ms
        if self.protocol_type == CONSUMER and self.subscribed is not None and self.state is State.STABLE:
            return commit_ms
        return None

    # Changes in memory

    def become(self, state: State, now_ms: int) -> None:
        assert state in MAY_BECOME[self.state], f"group {self.id}: {self.state} -> {state}"
        self.previous, self.state, self.since_ms = self.state, state, now_ms

    def add(self, member: Member) -> None:
        assert member.id not in self.members
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.id
        if member.instance_id is not None:
            assert member.instance_id not in self.static
            self.static[member.instance_id] = member.id
        self.members[member.id] = member
        self._speakers.update(name for name, _ in member.protocols)
        self.joining += member.joining is not None
        self.pending_join.discard(member.id)

    def remove(self, member_id: str, turn: Turn) -> None:
        """The member is gone; if it has a request parked, it is told so and may start again as a newcomer."""
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        turn.cancel_timer("session", self.id, member_id)
        member = self.members.get(member_id)
        if member is None:
            return
        self.answer_join(member, turn, Joined(error=ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, turn, Synced(error=ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(member)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def _forget(self, member: Member) -> None:
        del self.members[member.id]
        self._speakers.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]

    def update(self, member: Member, protocols: Protocols, session_ms: int, rebalance_ms: int) -> None:
        self._speakers.subtract(name for name, _ in member.protocols)
        self._speakers.update(name for name, _ in protocols)
        member.protocols = protocols
        member.session_timeout_ms, member.rebalance_timeout_ms = session_ms, rebalance_ms

    def replace(self, old: Member, new: Member, turn: Turn) -> None:
        """The same instance under a new member id. Whoever still speaks with the old one is fenced."""
        self.answer_join(old, turn, Joined(error=ErrorCode.FENCED_INSTANCE_ID, member_id=old.id))
        self.answer_sync(old, turn, Synced(error=ErrorCode.FENCED_INSTANCE_ID))
        turn.cancel_timer("session", self.id, old.id)
        self.pending_sync.discard(old.id)
        was_leader = self.leader == old.id
        self._forget(old)
        self.add(new)
        if was_leader:
            self.leader = new.id

    def park_join(self, member: Member, ticket: Ticket, turn: Turn) -> None:
        """The member waits for the end of the round. An older request of it, from a lost connection, is let go."""
        self.answer_join(member, turn, Joined(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id))
        member.joining = ticket
        self.joining += 1

    def answer_join(self, member: Member, turn: Turn, answer: Joined) -> bool:
        if member.joining is None:
            return False
        turn.answer(member.joining, answer)
        member.joining = None
        self.joining -= 1
        return True

    def answer_sync(self, member: Member, turn: Turn, answer: Synced) -> bool:
        if member.syncing is None:
            return False
        turn.answer(member.syncing, answer)
        member.syncing = None
        return True

    def joined(self, member_id: str) -> Joined:
        """What a member is told about the current generation; the leader also hears who the members are."""
        members: list[JoinedMember] = []
        if self.leader == member_id:
            members = [JoinedMember(m.id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()]
        return Joined(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=members,
        )

    def learn_topics(self) -> None:
        if self.protocol_type != CONSUMER:
            self.subscribed = None
        else:
            self.subscribed = topics_of(member.metadata(self.protocol) for member in self.members.values())

    # What is written down

    def birth_record(self) -> Record:
        """The group before its first round, whose members may be waiting by now."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=-1 if self.since_ms is None else self.since_ms,
            members=[],
        )
        born = record(GroupMetadataKey(group=self.id), value)
        born.is_news = False
        return born

    def empty_record(self, now_ms: int) -> Record:
        """The next generation has no members. `adopt` makes it true."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            current_state_timestamp=now_ms,
            members=[],
        )
        return record(GroupMetadataKey(group=self.id), value)

    def metadata_record(
        self, members: Collection[Member], assignments: Mapping[str, bytes], *, leader: str | None
    ) -> Record:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=leader,
            current_state_timestamp=-1 if self.since_ms is None else self.since_ms,
            members=[
                MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.id, b""),
                )
                for member in members
            ],
        )
        return record(GroupMetadataKey(group=self.id), value)

    def tombstones(self) -> list[Record]:
        return [tombstone(GroupMetadataKey(group=self.id))]

    def adopt(self, value: GroupMetadataValue) -> None:
        """Become what the record says. Members we know keep what only memory holds: tickets and all protocols."""
        known = self.members | self.replacing
        self.members, self.static, self.replacing = {}, {}, {}
        self._speakers.clear()
        self.joining = 0
        self.state = State.STABLE if value.members else State.EMPTY
        self.generation, self.protocol, self.leader = value.generation, value.protocol, value.leader
        self.protocol_type = value.protocol_type or None
        self.since_ms = None if value.current_state_timestamp < 0 else value.current_state_timestamp
        for line in value.members:
            member = known.get(line.member_id)
            if member is None:
                member = self._member_of(line, value)
            member.assignment = bytes(line.assignment)
            self.add(member)
        self.learn_topics()

    def _member_of(self, line: MemberMetadata, value: GroupMetadataValue) -> Member:
        return Member(
            id=line.member_id,
            instance_id=line.group_instance_id,
            client_id=line.client_id,
            client_host=line.client_host,
            session_timeout_ms=line.session_timeout,
            rebalance_timeout_ms=line.session_timeout if line.rebalance_timeout == -1 else line.rebalance_timeout,
            protocol_type=value.protocol_type,
            protocols=[(value.protocol or "", bytes(line.subscription))],
        )
