"""What the members of a consumer group read. Most of them read the same, so subscriptions are counted, not listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Subscription = tuple[tuple[str, ...], str]
"""Topics, and a pattern for more of them."""


def uncount(subscriptions: Counter[Subscription], one: Subscription) -> None:
    subscriptions[one] -= 1
    if not subscriptions[one]:
        del subscriptions[one]


def topics_of(subscription: Subscription, resolved: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """All names that are read, those the pattern fits included."""
    topics, pattern = subscription
    return resolved.get(pattern, frozenset()).union(topics) if pattern else frozenset(topics)


def names_in(subscriptions: Iterable[Subscription], resolved: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(topics_of(one, resolved) for one in subscriptions))
