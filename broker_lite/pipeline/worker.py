"""What a process that Spark started for its tasks does once, before the first of them.

*Garbage.*  Behind every task Spark has the process look through all its objects for garbage.  Most of them are modules,
functions and types that came with the imports, fifty thousand of them with Spark, numpy and Arrow: 22 ms for each task,
in which ten megabytes of log could be read.  They stay for as long as the process does, so they are set aside.

*The last word.*  Java hangs up on a process that has had nothing to do for a minute, and on all of them at the end.
Spark's daemon then writes a last word to nobody.  Over TCP that goes unnoticed; over a Unix socket, which is faster, it
is a broken pipe and a traceback on the user's terminal, for nothing.  So there the process ends at that word.
"""

from __future__ import annotations

import gc
import os
import signal
from functools import cache
from pathlib import Path
from types import FrameType


@cache
def settle() -> None:
    """What is loaded now is never looked at again; what a task makes from here on is."""
    end_quietly()
    gc.collect()
    gc.freeze()


@cache
def end_quietly() -> None:
    """For every process that Spark talks to over a Unix socket, also for one that only plans."""
    if os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true":
        signal.signal(signal.SIGPIPE, _a_pipe_broke)


def _a_pipe_broke(_: int, frame: FrameType | None) -> None:
    """A pipe that breaks elsewhere, as a connection to a broker does, is the error that it always was."""
    while frame is not None and "pyspark" not in Path(frame.f_code.co_filename).parts:
        frame = frame.f_back
    if frame is not None and Path(frame.f_code.co_filename).name == "daemon.py":
        os._exit(0)
