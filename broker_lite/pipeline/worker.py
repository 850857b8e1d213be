"""What a process that Spark started for its tasks does once, before the first of them.

Behind every task Spark has the process look through all its objects for garbage.  Most of them are modules, functions
and types that came with the imports, fifty thousand of them with Spark, numpy and Arrow: 22 ms for each task, in which
ten megabytes of log could be read.  They stay for as long as the process does, so they are set aside.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """What is loaded now is never looked at again; what a task makes from here on is."""
    gc.collect()
    gc.freeze()
