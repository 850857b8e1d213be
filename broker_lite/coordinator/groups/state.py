"""Classic groups: the theory of operation.

A group is a set of consumers that share topics.  The broker does not assign partitions in this protocol: it picks
one member as leader, shows it what everybody is interested in, and hands round what the leader decides.  That takes
two rounds, and each finished pair of rounds is a *generation*:

    join   every member says what it can do (protocols) and wants (metadata, opaque to us); the request is parked
           until all known members are there or the longest rebalance time-out is over; then all are answered with the
           generation, and the leader also with the members
    sync   the leader brings the assignment, the others come empty-handed and are parked until it did

                 first member joins                       all joined, or time is over
        EMPTY ───────────────────────► PREPARING_REBALANCE ───────────────► COMPLETING_REBALANCE
          ▲                              │  ▲        ▲                          │        │
          │       nobody came (back)     │  │        │  a member comes, goes,   │        │ the leader's assignment
          └──────────────────────────────┘  │        │  dies or changes         │        │ is written down
                                            │        └──────────────────────────┘        ▼
                                            └────────────────────────────────────────  STABLE

What is always true:
- A generation number is never used twice, and a member that names another one is refused.
- STABLE and EMPTY are what the last record of the group says; the two states between are only in memory.  After a
  restart the group is in the last written generation and a rebalance that was going on is forgotten.
- Whoever is parked is answered exactly once: by the end of the round, by the error that ended it, or by being fenced.
- Members that wait are alive by definition; all others have a session that a heartbeat prolongs.

Static members (KIP-345) come with a name of their own, `group.instance.id`.  A restart gets a new member id under the
old name; the seat and its assignment are kept, the generation too, and the old id is fenced.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The values are the names Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MAY_BECOME: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}
"""The picture above as a table; `ClassicGroup.become` asserts it."""
