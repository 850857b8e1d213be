"""Spark's daemon of Python workers, without a traceback where a task ends before its worker has said its last word.

Spark's own writes that word into a socket that Java may have closed.  Over TCP it goes unnoticed; over a Unix socket,
which is faster, it is a broken pipe and twenty lines on the user's terminal, for nothing: nobody waits for it.

    spark.python.daemon.module=broker_lite.pipeline.daemon
"""

from __future__ import annotations

import socket

from pyspark import daemon

_serve = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return _serve(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
