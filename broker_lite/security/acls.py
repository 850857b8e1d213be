"""ACLs: who may do what to which resource, as Kafka's StandardAuthorizer decides it.

A binding allows or denies one principal, from one host, one operation on the resources of one pattern.  Of all bindings
that apply to a question

    a denial counts before anything else;
    then an allowance;
    then, if no binding speaks of the resource at all, `allow_everyone`;
    else it is no.

READ, WRITE, DELETE and ALTER allow DESCRIBE too, ALTER_CONFIGS allows DESCRIBE_CONFIGS; a denial implies nothing.  A
pattern is a name, `*` for all, or a beginning of names (PREFIXED).  Super users are not asked about.

Answers are remembered until a binding changes, because a producer asks the same question for every batch.  Bindings are
looked up by name and by prefix, so that a request with a hundred thousand names takes no longer where there are a
thousand bindings: the first answer takes some 3 µs, the next 0.2 µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

from broker_lite.shapes import dataclass, field

CLUSTER_NAME = "kafka-cluster"
ANY_NAME = "*"
ANY_HOST = "*"
EVERY_USER = "User:*"
_REMEMBERED = 10_000
_REMEMBERED_BY_ONE = 1000
_LONGEST_REMEMBERED = 512
"""Characters of a name: clients may ask for names of 32 KB, and each is another one."""


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


@dataclass(frozen=True, slots=True)
class Binding:
    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def covers(self, name: str) -> bool:
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)

    def is_about(self, principal: str, host: str) -> bool:
        return self.principal in (principal, EVERY_USER) and (
            self.host in (host, ANY_HOST) or (":" in host and _same_address(self.host, host))
        )

    def speaks_of(self, operation: Operation) -> bool:
        if self.operation in (operation, Operation.ALL):
            return True
        return self.permission is Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ())


@dataclass(frozen=True, slots=True)
class Filter:
    """Which bindings are meant; None and ANY are all, MATCH is every pattern that covers the name."""

    resource: Resource = Resource.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, one: Binding) -> bool:
        return (
            self.resource in (Resource.ANY, one.resource)
            and self.pattern in (Pattern.ANY, Pattern.MATCH, one.pattern)
            and self._names(one)
            and self.principal in (None, one.principal)
            and self.host in (None, one.host)
            and self.operation in (Operation.ANY, one.operation)
            and self.permission in (Permission.ANY, one.permission)
        )

    def _names(self, one: Binding) -> bool:
        if self.name is None or self.name == one.name:
            return True
        return self.pattern is Pattern.MATCH and one.covers(self.name)


class _Patterns:
    """The bindings of one kind of resource, found by what they are about."""

    __slots__ = ("_lengths", "_literal", "_prefixed")

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._literal: dict[str, list[Binding]] = {}
        self._prefixed: dict[str, list[Binding]] = {}
        for one in bindings:
            of = self._prefixed if one.pattern is Pattern.PREFIXED else self._literal
            of.setdefault(one.name, []).append(one)
        self._lengths = sorted({len(prefix) for prefix in self._prefixed})

    def covering(self, name: str) -> list[Binding]:
        """Those that cover this name."""
        found = [*self._literal.get(name, ())]
        if name != ANY_NAME:
            found += self._literal.get(ANY_NAME, ())
        for length in self._lengths:
            if length > len(name):
                break
            found += self._prefixed.get(name[:length], ())
        return found


class AccessRules:
    def __init__(self, *, super_users: Iterable[str] = (), allow_everyone: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._bindings: dict[Resource, dict[Binding, None]] = {}
        """In the order in which they came."""
        self._patterns: dict[Resource, _Patterns] = {}
        """The same, made when they are first asked for after a change."""
        self._answers: dict[tuple[str, str, int, int, str], bool] = {}
        self.changes = 0

    def __iter__(self) -> Iterator[Binding]:
        for bindings in self._bindings.values():
            yield from bindings

    def __contains__(self, binding: Binding) -> bool:
        return binding in self._bindings.get(binding.resource, {})

    def add(self, binding: Binding) -> None:
        self._bindings.setdefault(binding.resource, {})[binding] = None
        self._changed()

    def remove(self, binding: Binding) -> None:
        self._bindings.get(binding.resource, {}).pop(binding, None)
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._answers.clear()
        self._patterns.clear()

    def matching(self, wanted: Filter) -> list[Binding]:
        return [one for one in self if wanted.matches(one)]

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        question = (principal, host, operation, resource, name)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._decide(principal, host, operation, resource, name)
            if len(name) <= _LONGEST_REMEMBERED:
                self._answers[question] = answer
        return answer

    def _decide(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        patterns = self._patterns.get(resource)
        if patterns is None:
            patterns = self._patterns[resource] = _Patterns(self._bindings.get(resource, ()))
        covering = patterns.covering(name)
        if not covering:
            return self._allow_everyone
        spoken = {one.permission for one in covering if one.is_about(principal, host) and one.speaks_of(operation)}
        return Permission.DENY not in spoken and Permission.ALLOW in spoken

    def allows_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether there may be any resource of the kind on which this is allowed."""
        if principal in self._super_users:
            return True
        said = [
            one
            for one in self._bindings.get(resource, ())
            if one.is_about(principal, host) and one.speaks_of(operation)
        ]
        denials = [one for one in said if one.permission is Permission.DENY]
        if any(one.name == ANY_NAME and one.pattern is Pattern.LITERAL for one in denials):
            return False
        if self._allow_everyone:
            return True
        return any(not self._denied(one, denials) for one in said if one.permission is Permission.ALLOW)

    def _denied(self, allowed: Binding, denials: list[Binding]) -> bool:
        for one in denials:
            if one.pattern is Pattern.PREFIXED and allowed.name.startswith(one.name) and allowed.name != ANY_NAME:
                return True
            if one.pattern is allowed.pattern is Pattern.LITERAL and one.name == allowed.name:
                return True
        return False


@dataclass(slots=True)
class Allowed:
    """Resources on which a principal was allowed something, kept by who asks often.

    It is worth nothing once `AccessRules.changes` is another number than it was.
    """

    principal: str
    changes: int
    names: set[str | bytes] = field(default_factory=set)

    def remember(self, name: str | bytes) -> None:
        if len(name) > _LONGEST_REMEMBERED:
            return
        if len(self.names) >= _REMEMBERED_BY_ONE:
            self.names.clear()
        self.names.add(name)


def _same_address(one: str, other: str) -> bool:
    """IPv6 has many spellings: Kafka's bindings say 0:0:0:0:0:0:0:1 where a socket says ::1."""
    from ipaddress import ip_address

    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False


def read_super_users(text: str) -> list[str]:
    """`User:admin;User:CN=ops`; ValueError for a name without its kind."""
    users = [part.strip() for part in text.split(";") if part.strip()]
    for user in users:
        if ":" not in user:
            raise ValueError(f"{user!r} is not a principal such as User:{user}")
    return users
