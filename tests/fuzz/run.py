"""One target under atheris, guided by coverage.

    python -m tests.fuzz.run NAME [libFuzzer options] [corpus folders]

The readers of messages are made by `exec`, which atheris does not see by itself, so they are instrumented as they are
made.  `planted` is the self-check: a reader with a bug that needs four particular bytes, which only somebody who sees
inside the reader finds in time.  A crash file becomes a seed in `corpus/NAME`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["broker_lite"]):
    from broker_lite.wire import codec
    from tests.fuzz.targets import TARGETS

_BUG = """
def read(buf, pos, budget):
    if buf[0] == 66:
        if buf[1] == 85:
            if buf[2] == 71:
                if buf[3] == 33:
                    raise KeyError("the planted bug")
    return None, len(buf)
"""


def planted(data: bytes) -> None:
    if len(data) >= 4:
        codec.decode(Planted, 0, memoryview(data))


class Planted:
    pass


def main(arguments: list[str]) -> None:
    name, *options = arguments
    made = codec._compile

    def instrumented(filename: str, lines: list[str], names: dict[str, object], function: str) -> Callable[..., object]:
        return atheris.instrument_func(made(filename, lines, names, function))  # type: ignore[no-any-return]

    codec._compile = instrumented
    target = TARGETS.get(name, planted)
    if target is planted:
        codec._readers[Planted, 0] = codec._compile("<planted>", _BUG.splitlines(), {}, "read")
    atheris.Setup([f"fuzz {name}", *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
