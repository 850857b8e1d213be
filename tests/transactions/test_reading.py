"""A reader that checks a whole partition must not take trouble for its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message

from tests.transactions.reading import to_the_end


@dataclass
class Said:
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class Script:
    """A consumer that says what it was told to say."""

    def __init__(self, *said: Said | None) -> None:
        self._said: Iterator[Said | None] = iter(said)

    def poll(self, timeout: float, /) -> Message | None:
        return cast("Message | None", next(self._said))


def test_only_the_end_of_the_partition_is_the_end() -> None:
    first, second = Said(), Said()
    down, end = Said(KafkaError._ALL_BROKERS_DOWN), Said(KafkaError._PARTITION_EOF)
    read: list[object] = [*to_the_end(Script(down, first, None, second, end))]
    assert read == [first, second]


def test_an_end_that_does_not_come_is_told() -> None:
    with pytest.raises(AssertionError, match="the end was not reached"):
        [*to_the_end(Script(Said(), Said(KafkaError._TRANSPORT)), seconds=-1)]
