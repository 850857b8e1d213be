"""Random histories of a group, held against what must be true of every history.

The model is small: who was last told which generation and assignment, and what was last committed.  Hypothesis plays
clients that join, sync, beat, commit, die and return, a clock that goes on and a broker that restarts; after each step
no partition has two owners in one generation, no offset is lost, and at the end the group settles.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker_lite.coordinator.groups.members import Joined, Synced
from broker_lite.coordinator.groups.settings import GroupSettings
from broker_lite.coordinator.groups.state import State
from broker_lite.errors import ErrorCode
from tests.coordinator.playbook import GROUP, Playbook, commit, heartbeat, join, leave, sync

PARTITIONS = 4
NAMES = st.sampled_from(["a", "b", "c", "d"])


class Client:
    """A consumer as clients are written: it does what the answers tell it to."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.restarts = 0
        """How many there had been when it heard of its generation."""
        self.leads: list[str] | None = None
        self.owned: frozenset[int] = frozenset()
        self.asks: str | None = None
        """The request that is under way: `join` or `sync`."""
        self.next = "join"


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = Playbook(GroupSettings(max_size=3))
        self.clients: dict[str, Client] = {}
        self.committed: dict[int, int] = {}
        self.starts = 0
        self.tickets: dict[str, Client] = {}
        self.owners: dict[tuple[int, int], str] = {}
        """(generation, partition) -> the member that was told it owns it."""
        self.highest = 0
        self.restarts = 0

    # What clients do

    @rule(name=NAMES, static=st.booleans())
    def start(self, name: str, static: bool) -> None:
        """Also when it runs already: then it was killed before."""
        self.clients[name] = Client(name if static else None)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        client = self.clients[name]
        if client.asks is None:
            self._ask(client)
            self._hear()

    @rule(seconds=st.integers(1, 6))
    def everybody_runs(self, seconds: int) -> None:
        for _ in range(seconds):
            self._run_all()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        del self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        client = self.clients.pop(name)
        if client.member_id:
            self.book >> leave((client.member_id, client.instance))
            self.book.heard.pop()
        self._hear()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), partition=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 99))
    def commit(self, data: st.DataObject, partition: int, offset: int) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        if client.asks is not None or partition not in client.owned:
            return
        self.book >> commit(
            offset, partition=partition, who=client.member_id, generation=client.generation, instance=client.instance
        )
        if self.book.heard.pop()[1] is ErrorCode.NONE:
            self.committed[partition] = offset
        self._hear()

    # What the world does

    @rule(seconds=st.sampled_from([0.01, 0.05, 1.0, 3.0, 8.0, 30.0]))
    def time_goes_by(self, seconds: float) -> None:
        for client in self.clients.values():
            self._beat(client)
        self.book.wait(seconds)
        self._hear()

    @rule()
    def restart(self) -> None:
        """Connections break: whoever waited asks again. A generation that nobody had synced is forgotten."""
        self.book.restart()
        self.restarts += 1
        self.tickets.clear()
        for client in self.clients.values():
            if client.asks is not None:
                client.asks, client.next = None, "join"

    def _run_all(self) -> None:
        """Two seconds of everybody doing what it should."""
        for step in ("join", "sync"):
            for client in self.clients.values():
                if client.asks is None and client.next == step and not client.owned:
                    self._ask(client)
                    self._hear()
        for client in self.clients.values():
            self._beat(client)
        self.book.wait(2)
        self._hear()

    def _ask(self, client: Client) -> None:
        self.starts += 1
        ticket = f"m{self.starts}"
        client.asks = client.next
        self.tickets[ticket] = client
        if client.next == "join":
            self.book >> join(ticket, member=client.member_id, instance=client.instance, session=10, rebalance=20)
            return
        told = {}
        if client.leads is not None:
            told = {member: bytes(range(at, PARTITIONS, len(client.leads))) for at, member in enumerate(client.leads)}
        self._sync(client, ticket, told)

    def _sync(self, client: Client, ticket: str, told: dict[str, bytes]) -> None:
        self.tickets[client.member_id] = self.tickets.pop(ticket)
        self.book >> sync(client.member_id, told, generation=client.generation, instance=client.instance)

    def _beat(self, client: Client) -> None:
        if client.member_id and client.asks is None:
            self.book >> heartbeat(client.member_id, generation=client.generation, instance=client.instance)
            self._obey(client, self.book.heard.pop()[1])

    def _hear(self) -> None:
        heard, self.book.heard = self.book.heard, []
        for ticket, answer in heard:
            client = self.tickets.pop(ticket, None)
            if client is None or client not in self.clients.values():
                continue
            client.asks = None
            self._obey(client, answer)

    def _obey(self, client: Client, answer: object) -> None:
        match answer:
            case Joined(error=ErrorCode.NONE):
                fresh = not client.member_id or client.restarts != self.restarts
                assert answer.generation >= client.generation or fresh
                client.member_id, client.generation, client.owned = answer.member_id, answer.generation, frozenset()
                client.restarts = self.restarts
                client.leads = [m.id for m in answer.members] if answer.leader == answer.member_id else None
                client.next = "sync"
            case Synced(error=ErrorCode.NONE):
                client.owned, client.next = frozenset(answer.assignment), "join"
                for partition in client.owned:
                    name = client.instance or client.member_id
                    owner = self.owners.setdefault((client.generation, partition), name)
                    assert owner == name, f"{partition} of generation {client.generation}: {owner} and {name}"
            case Joined(error=code) | Synced(error=code) | (ErrorCode() as code) if code is not ErrorCode.NONE:
                client.next, client.owned = "join", frozenset()
                if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
                    client.member_id, client.generation = "", -1

    # What is always true

    @invariant()
    def no_offset_is_lost(self) -> None:
        for partition, offset in self.committed.items():
            assert self.book.committed(partition).offset == offset

    @invariant()
    def generations_only_rise(self) -> None:
        group = self.book.groups.groups.get(GROUP)
        if group is not None and group.state in (State.STABLE, State.EMPTY):
            assert group.generation >= self.highest
            self.highest = group.generation

    @invariant()
    def counts_agree(self) -> None:
        if GROUP not in self.book.groups.groups:
            return
        group = self.book.classic()
        assert group.joining == sum(member.joining is not None for member in group.members.values())
        assert set(group.static.values()) == {m.id for m in group.members.values() if m.is_static}
        assert group.leader in group.members or not group.members
        assert not group.replacing
        if group.state is State.STABLE:
            assert all(member.syncing is None for member in group.members.values())

    def teardown(self) -> None:
        """With three clients that behave, the group settles: every partition has one owner and keeps it."""
        self.clients = dict(list(self.clients.items())[:3])
        if not self.clients:
            return
        for _ in range(60):
            self._run_all()
        owned = sorted(partition for client in self.clients.values() for partition in client.owned)
        assert owned == list(range(PARTITIONS)), "the group did not settle"
        assert self.book.groups.group(GROUP).state is State.STABLE


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
