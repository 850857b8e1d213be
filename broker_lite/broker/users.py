"""Users with a SCRAM credential: what is kept of their passwords, in the journal."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from broker_lite.broker.journal import Change, Json
from broker_lite.security.scram import ScramCredential, ScramMechanism

KIND = "scram"
FIELDS = {"salt": str, "stored_key": str, "server_key": str, "iterations": int}


class Users:
    def __init__(self, write: Callable[[list[Change]], None]) -> None:
        self._write = write
        self._kept: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def __iter__(self) -> Iterator[str]:
        """Every user once, in the order of their names."""
        return iter(sorted({name for name, _ in self._kept}))

    def scram(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self._kept.get((name, mechanism))

    def of(self, name: str) -> dict[ScramMechanism, ScramCredential]:
        """All that one user has."""
        return {mechanism: kept for mechanism in ScramMechanism if (kept := self.scram(mechanism, name)) is not None}

    def set(self, mechanism: ScramMechanism, name: str, credential: ScramCredential) -> None:
        value: dict[str, Json] = {
            "salt": _text(credential.salt),
            "stored_key": _text(credential.stored_key),
            "server_key": _text(credential.server_key),
            "iterations": credential.iterations,
        }
        self._commit(Change(KIND, f"{mechanism.value}/{name}", value))

    def delete(self, mechanism: ScramMechanism, name: str) -> None:
        self._commit(Change(KIND, f"{mechanism.value}/{name}", None))

    def _commit(self, change: Change) -> None:
        self._write([change])
        self.apply(change)

    def apply(self, change: Change) -> None:
        number, _, name = change.name.partition("/")
        mechanism = ScramMechanism(int(number))
        if change.value is None:
            self._kept.pop((name, mechanism), None)
            return
        iterations = change.value["iterations"]
        assert isinstance(iterations, int)
        salt, stored, server = (_bytes(change.value[part]) for part in ("salt", "stored_key", "server_key"))
        self._kept[name, mechanism] = ScramCredential(salt, stored, server, iterations)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: Json) -> bytes:
    assert isinstance(text, str)
    return base64.b64decode(text)
