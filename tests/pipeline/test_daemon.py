"""Spark's daemon as Java starts it: told where to listen by its environment, it tells the address on stdout."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("pyspark")
if not Path("/proc/self").exists():
    pytest.skip("looks at /proc", allow_module_level=True)
pytestmark = pytest.mark.spark


@pytest.fixture
def short_path() -> Iterator[str]:
    """The name of a Unix socket has a hundred bytes at most."""
    with TemporaryDirectory() as folder:
        yield folder


@pytest.mark.parametrize(("module", "quiet"), [("broker_lite.pipeline.daemon", True), ("pyspark.daemon", False)])
def test_a_worker_whose_task_has_hung_up_ends_without_a_word(short_path: str, module: str, quiet: bool) -> None:
    environment = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": short_path,
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", module, "pyspark.worker"], env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as daemon:
        assert daemon.stdout is not None
        [length] = struct.unpack(">i", daemon.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as task:
            task.connect(daemon.stdout.read(length))
            [worker] = struct.unpack(">i", task.recv(4, socket.MSG_WAITALL))
        assert worker > 0
        while Path(f"/proc/{worker}").exists():  # it ends by itself
            os.sched_yield()
        _, said = daemon.communicate()
    assert ("BrokenPipeError" not in said.decode()) is quiet, said.decode()
