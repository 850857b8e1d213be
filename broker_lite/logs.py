"""What the broker says while it works: structlog events on stderr, pretty on a terminal and JSON elsewhere.

stdout is left to the one line that says it is ready, and to the answers of the other verbs.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import TextIO

import structlog
from structlog.typing import Processor

ROOT = "root"
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
    for name in list(_own):
        if name != ROOT:
            set_level(name, None)
    _own[ROOT] = LEVELS[level]


_own: dict[str, int] = {ROOT: logging.INFO}
"""Levels by logger name; a module that is not here follows the root."""


def loggers() -> dict[str, int]:
    """Every logger with its level: the root, and the modules of ours that log."""
    return {name: _own.get(name, _own[ROOT]) for name in (ROOT, *sorted(_modules()))}


def set_level(name: str, level: int | None) -> None:
    """From now on `name` logs from `level` on; None: it follows the root again.

    A logger remembers the level it had when it was first used, so a change of level is a new logger.
    """
    if name == ROOT:
        assert level is not None, "the root has a level"
        _own[ROOT] = level
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
        for other, module in _modules().items():
            if other not in _own:
                vars(module)["log"] = structlog.get_logger()
    elif level is None:
        _own.pop(name, None)
        vars(_modules()[name])["log"] = structlog.get_logger()
    else:
        _own[name] = level
        wrapper = structlog.make_filtering_bound_logger(level)
        vars(_modules()[name])["log"] = structlog.wrap_logger(None, wrapper_class=wrapper)


def _modules() -> dict[str, ModuleType]:
    package = __name__.partition(".")[0]
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.startswith(f"{package}.") and hasattr(getattr(module, "log", None), "bind")
    }
