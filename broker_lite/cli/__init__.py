"""The command line. `serve` is the default verb; each verb is a file, imported only when it is called."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

STARTED = time.monotonic()
"""When our first line ran."""

VERBS = {
    "serve": "run the broker (this is what happens without a verb)",
    "topics": "list, create, describe and delete topics",
    "produce": "write records from stdin or the command line",
    "consume": "print records",
    "groups": "list, describe, move and delete consumer groups",
    "configs": "show and change configuration of topics, brokers, groups",
    "quotas": "show and change what clients may do a second",
    "users": "show, add and remove users with a password",
    "transactions": "list, describe and abort transactions",
    "log-dirs": "print the size of each partition on disk",
    "cluster": "print the brokers of a cluster",
    "dump-log": "print what lies in segment and index files",
    "fsck": "check every byte of a stopped broker's logs",
    "api-versions": "print which APIs a broker speaks",
    "health": "exit with 0 if a broker is ready",
    "settings": "print every configuration key",
    "pipeline": "topics as tables, on Spark: archive, audit, replay, stream",
    "certs": "make throw-away certificates to try TLS with",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; return the exit code: 0, 1 for a refusal, 2 for a wrong command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    _without_gaps()
    if isinstance(sys.stdout, TextIOWrapper):
        # As stderr is: what a terminal or a locale cannot write, a path that is no UTF-8 say, is spelled out.
        sys.stdout.reconfigure(errors="backslashreplace")
    if words[:1] in (["--version"], ["-V"]):
        from broker_lite import __version__

        print(f"broker-lite {__version__}")
        return 0
    if words[:1] in (["-h"], ["--help"], ["help"]):
        print(_overview())
        return 0
    verb = words.pop(0) if words and words[0] in VERBS else "serve"
    if verb == "serve" and words and not words[0].startswith("-"):
        return _say(f"there is no verb {words[0]!r}; there are {', '.join(VERBS)}", 2)
    module = import_module(f"{__name__}.{verb.replace('-', '_')}")
    try:
        code = module.run(module.parser().read(words))
        sys.stdout.flush()
        return int(code)
    except SystemExit as left:  # argparse: --help, or a wrong command line that it has told of
        return int(left.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        nobody_reads()
        return 0
    except OSError as error:
        return _say(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except _refusals() as error:
        return _say(str(error), 1)


def _refusals() -> tuple[type[Exception], ...]:
    """What a verb may raise to end with one line. `Unreachable` exists only if a client was imported."""
    from broker_lite.errors import BrokerError, StartRefused

    client = sys.modules.get("broker_lite.client.connection")
    return (BrokerError, StartRefused, *((client.Unreachable,) if client else ()))


def _say(text: str, code: int) -> int:
    print(f"broker-lite: {text}", file=sys.stderr)
    return code


def nobody_reads() -> None:
    """`broker-lite consume … | head -1` is not an error; but Python would complain when it flushes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _without_gaps() -> None:
    """Started with stdin, stdout or stderr closed: what we say then goes nowhere. Their numbers are taken, so that no
    socket gets one: libuv ends the process when it closes such."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _overview() -> str:
    width = max(map(len, VERBS))
    lines = [
        "usage: broker-lite [VERB] [options]",
        "",
        "A Kafka broker for tests and laptops.",
        "",
        *(f"  {verb:{width}}  {about}" for verb, about in VERBS.items()),
        "",
        "broker-lite VERB --help tells the options of each; --version the version.",
    ]
    return "\n".join(lines)
