"""Where the last record of each key lies: what compaction has to remember, in bounded memory.

A short key is its own name; a long one goes by its 256-bit digest, so two keys never share a place.  At about 200 bytes
an entry the map takes 80 MB when it is full; then the round ends at the batch before, and the next round goes on there.
"""

from __future__ import annotations

from hashlib import blake2b

MAX_KEYS = 400_000
_SHORT = 31


class KeyMap:
    __slots__ = ("_last", "latest", "max_keys")

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self.max_keys = max_keys
        self.latest = -1
        """Up to this offset every record is known. What lies behind it is nobody's business in this round."""
        self._last: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def has_room_for(self, records: int) -> bool:
        """The first batch always fits, however large, or a round would get nowhere."""
        return not self._last or len(self._last) + records <= self.max_keys

    def put(self, key: bytes, offset: int) -> None:
        self._last[key if len(key) <= _SHORT else blake2b(key, digest_size=32).digest()] = offset

    def last(self, key: bytes) -> int:
        """The last offset of the key, -1 if it has none in the part that was read."""
        return self._last.get(key if len(key) <= _SHORT else blake2b(key, digest_size=32).digest(), -1)
