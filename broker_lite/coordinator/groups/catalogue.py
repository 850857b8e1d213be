"""What a group coordinator needs to know of topics: their ids and how many partitions they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from broker_lite.ids import TopicId
from broker_lite.shapes import dataclass


class TopicFacts(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def id(self) -> TopicId: ...

    @property
    def partition_count(self) -> int: ...


class Catalogue(Protocol):
    def get(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: TopicId) -> TopicFacts | None: ...

    def __iter__(self) -> Iterator[TopicFacts]: ...


@dataclass(frozen=True, slots=True)
class Eyes:
    """Which topics somebody sees; `rules` changes when that may have changed."""

    sees: Callable[[str], bool] = lambda name: True
    rules: int = 0


class NoTopics:
    """For those who keep groups without topics."""

    def get(self, name: str) -> TopicFacts | None:
        return None

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        return None

    def __iter__(self) -> Iterator[TopicFacts]:
        return iter(())
