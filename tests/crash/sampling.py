"""Which points of a sweep are tried: all of them under `make torture`, some of them, by chance, otherwise.

The seed is in the message of a failed test and can be given as BROKER_LITE_SEED.
"""

from __future__ import annotations

import os
import random

WHOLE = int(os.environ.get("BROKER_LITE_TORTURE", "0")) > 0
SEED = int(os.environ.get("BROKER_LITE_SEED") or random.SystemRandom().randrange(1 << 31))


def points(count: int, at_most: int) -> list[int]:
    """Of 1 to `count`, in order."""
    print(f"BROKER_LITE_SEED={SEED}")
    if WHOLE or count <= at_most:
        return list(range(1, count + 1))
    return sorted(random.Random(SEED).sample(range(1, count + 1), at_most))
