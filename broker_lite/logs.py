"""What the broker says while it works: structlog events on stderr, pretty on a terminal and JSON elsewhere.

stdout is left to the one line that says it is ready, and to the answers of the other verbs.  A start that goes well
says nothing here, and structlog takes a tenth of its time to import: so it comes with the first event, or when
`prepare` is called.
"""

from __future__ import annotations

import logging
import select
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog.typing import FilteringBoundLogger, Processor

ROOT = "root"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Logger:
    """Of one module. It asks for its level at every event, so a change of level holds at once."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def is_enabled_for(self, level: int) -> bool:
        return level >= _levels.get(self.name, _levels[ROOT])

    def debug(self, event: str, **facts: object) -> None:
        if self.is_enabled_for(logging.DEBUG):
            _say("debug", event, facts)

    def info(self, event: str, **facts: object) -> None:
        if self.is_enabled_for(logging.INFO):
            _say("info", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        if self.is_enabled_for(logging.WARNING):
            _say("warning", event, facts)

    def error(self, event: str, **facts: object) -> None:
        if self.is_enabled_for(logging.ERROR):
            _say("error", event, facts)

    def exception(self, event: str, **facts: object) -> None:
        """An error with the traceback of what is being handled."""
        self.error(event, exc_info=True, **facts)


class _Forgiving:
    """A stream that may fail. A log on a full disk, one whose reader has left, or a pipe that is full because nobody
    reads it, costs the line and nothing else: whoever starts the broker from a test often forgets its stderr."""

    PIECE = 1024
    """Characters, at most a page of memory: where a pipe takes anything at all, it takes that without waiting."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.lost = 0
        """Lines that were not written, or not whole."""
        self._cut = False

    def write(self, text: str) -> None:
        if self._cut:
            text = f"\n{text}"
        try:
            for begin in range(0, len(text), self.PIECE):
                if not self._takes_more():
                    self.lost += 1
                    return
                self._out.write(text[begin : begin + self.PIECE])
                self._out.flush()
                self._cut = begin + self.PIECE < len(text)
        except (OSError, ValueError):  # the latter: it is closed
            self.lost += 1

    def _takes_more(self) -> bool:
        try:
            descriptor = self._out.fileno()
        except OSError:  # not of the system's files
            return True
        return bool(select.select([], [descriptor], [], 0)[1])

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._out.flush()


class _Wanted(NamedTuple):
    form: str
    out: TextIO


_loggers: dict[str, Logger] = {}
_levels: dict[str, int] = {ROOT: logging.INFO}
"""By logger name; one that is not here follows the root."""
_wanted: list[_Wanted] = []
"""What `set_up` was told and structlog has not heard yet."""
_streams: list[_Forgiving] = []
"""Where events go now."""


def get_logger(name: str) -> Logger:
    """The logger of a module, by its `__name__`."""
    return _loggers.setdefault(name, Logger(name))


def set_up(wanted: str = "auto", *, level: str = "info", stream: TextIO | None = None) -> None:
    """From now on events go to `stream` (stderr) as `pretty` or `json`; `auto` asks whether it is a terminal."""
    out = stream or sys.stderr
    form = wanted if wanted != "auto" else "pretty" if out.isatty() else "json"
    _wanted[:] = [_Wanted(form, out)]
    _levels.clear()
    _levels[ROOT] = LEVELS[level]


def prepare() -> None:
    """Import structlog now, where an event would do it otherwise."""
    with suppress(OSError):
        _structlog()


def loggers() -> dict[str, int]:
    """Every logger with its level: the root, and the modules of ours that log."""
    return {name: _levels.get(name, _levels[ROOT]) for name in (ROOT, *sorted(_loggers))}


def set_level(name: str, level: int | None) -> None:
    """From now on `name` logs from `level` on; None: it follows the root again."""
    if level is None:
        assert name != ROOT, "the root has a level"
        _levels.pop(name, None)
    else:
        _levels[name] = level


def _say(level: str, event: str, facts: dict[str, object]) -> None:
    """Where files have run out structlog cannot be imported; then the event is lost, as it is on a full disk."""
    with suppress(OSError):
        logger = _structlog()
        if lost := sum(stream.lost for stream in _streams):
            facts = {**facts, "lines_lost": lost}
        getattr(logger, level)(event, **facts)


def _structlog() -> FilteringBoundLogger:
    """structlog's own logger, which is told first where events go and how they look."""
    _import_without_rich()
    import structlog

    if _wanted:
        form, out = _wanted.pop()
        _streams[:] = [_Forgiving(out)]
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
            processors += [_harmless, renderer]
        structlog.configure(
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
            logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _streams[0])),
        )
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def _harmless(logger: object, method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """What a stranger wrote (an id of a transaction, a client's name) cannot speak to the terminal, nor begin a line.
    JSON has its own way to say so."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = value.encode("unicode_escape").decode("ascii")
    return event


def _import_without_rich() -> None:
    """structlog imports rich wherever it is installed, for tracebacks that we print plainly."""
    if "structlog" not in sys.modules and "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]  # for an import: it is not there
        try:
            import_module("structlog")
        finally:
            del sys.modules["rich"]
