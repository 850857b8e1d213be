"""What the broker says while it works: structlog events on stderr, pretty on a terminal and JSON elsewhere.

stdout is left to the one line that says it is ready, and to the answers of the other verbs.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up(wanted: str = "auto", *, level: str = "info", stream: TextIO | None = None) -> None:
    """From now on events go to `stream` (stderr) as `pretty` or `json`; `auto` asks whether it is a terminal."""
    out = stream or sys.stderr
    form = wanted if wanted != "auto" else "pretty" if out.isatty() else "json"
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=24
        )
        processors.append(renderer)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )
