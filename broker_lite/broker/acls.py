"""The ACLs of the broker: in the journal, and asked before every request if an authorizer is configured."""

from __future__ import annotations

import json
from collections.abc import Callable

from broker_lite.broker.journal import Change
from broker_lite.config import security as keys
from broker_lite.config.sources import Settings
from broker_lite.errors import StartRefused
from broker_lite.security.acls import (
    AccessRules,
    Binding,
    Filter,
    Operation,
    Pattern,
    Permission,
    Resource,
    read_super_users,
)

KIND = "acl"
FIELDS: dict[str, type] = {}
"""The name says it all."""


class Acls:
    """`on` says whether anybody is asked; bindings are kept either way, and loaded at start."""

    def __init__(self, settings: Settings, write: Callable[[list[Change]], None]) -> None:
        self._write = write
        self.on = settings.get(keys.AUTHORIZER_CLASS_NAME) != ""
        try:
            super_users = read_super_users(settings.get(keys.SUPER_USERS))
        except ValueError as error:
            raise StartRefused(f"{keys.SUPER_USERS.name}: {error}") from None
        everyone = settings.get(keys.ALLOW_EVERYONE_IF_NO_ACL_FOUND)
        self._rules = AccessRules(super_users=super_users, allow_everyone=everyone)
        self.allows = self._rules.allows
        self.allows_some = self._rules.allows_some
        self.matching = self._rules.matching

    @property
    def changes(self) -> int:
        """A number that is another one after every change."""
        return self._rules.changes

    def add(self, bindings: list[Binding]) -> None:
        self._commit([_change(one, there=True) for one in dict.fromkeys(bindings) if one not in self._rules])

    def remove(self, wanted: Filter) -> list[Binding]:
        """Those that were there."""
        gone = self._rules.matching(wanted)
        self._commit([_change(one, there=False) for one in gone])
        return gone

    def _commit(self, changes: list[Change]) -> None:
        if changes:
            self._write(changes)
            for change in changes:
                self.apply(change)

    def apply(self, change: Change) -> None:
        resource, name, pattern, principal, host, operation, permission = json.loads(change.name)
        binding = Binding(
            Resource(resource), name, Pattern(pattern), principal, host, Operation(operation), Permission(permission)
        )
        if change.value is None:
            self._rules.remove(binding)
        else:
            self._rules.add(binding)


def _change(one: Binding, *, there: bool) -> Change:
    parts = [one.resource, one.name, one.pattern, one.principal, one.host, one.operation, one.permission]
    return Change(
        KIND, json.dumps([int(part) if isinstance(part, int) else part for part in parts]), {} if there else None
    )
