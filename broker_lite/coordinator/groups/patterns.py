"""A client's regular expression, in RE2: its time is linear in the text, so no pattern can stall the broker.

Python's own `re` is never used on what a client sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

from broker_lite.errors import InvalidRegularExpression

MAX_MEMORY = 1 << 20
"""Bytes that a compiled pattern may take. What needs more is refused."""


class _Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class _Options(Protocol):
    log_errors: bool
    max_mem: int


class _Re2(Protocol):
    Options: Callable[[], _Options]
    error: type[Exception]

    def compile(self, pattern: str, options: _Options) -> _Pattern: ...


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole pattern fits. 128 if it is not a pattern."""
    compiled = _compiled(pattern)
    return frozenset(name for name in names if compiled.fullmatch(name) is not None)


def check(pattern: str) -> None:
    _compiled(pattern)


@lru_cache(maxsize=100)
def _compiled(pattern: str) -> _Pattern:
    try:
        re2 = cast(_Re2, import_module("re2"))
    except ImportError:
        raise InvalidRegularExpression("patterns need the package google-re2, which is not installed") from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}"
        ) from None
