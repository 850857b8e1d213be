"""A Spark session with quiet settings, and one clear line where there cannot be one.

Under spark-submit everything is Spark's business and nothing is set here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from broker_lite.pipeline.errors import PipelineError, WrongOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDS_JAVA = 17
NEEDED = ("pyarrow", "numpy", "crc32c", "broker_lite")
"""What a worker imports."""
_INSTALL = "pip install 'broker-lite[spark]'"
_LOGGING = Path(__file__).with_name("log4j2.properties")
_TRUSTING = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark asks Arrow only for rows that there are, and for none that is null: Arrow need not look again at each."""
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.buffer.size": str(256 << 10),  # rows go from Python to Java in larger pieces than 64 KiB
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dlog4j2.configurationFile=file:{_LOGGING} {_TRUSTING}",
}
_ON_ONE_MACHINE = {"spark.python.unix.domain.socket.enabled": "true"}
"""Rows go from Python to Java without TCP in between, which is a seventh of the time that large ones take."""


class CannotRun(PipelineError):
    """Java, PySpark or a module on a worker is missing."""


def check_here() -> None:
    """Raises CannotRun if this machine cannot start Spark."""
    try:
        import pyspark
    except ImportError:
        raise CannotRun(f"PySpark is missing; to have it: {_INSTALL}") from None
    if tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2])) < (4, 2):
        raise CannotRun(f"PySpark {pyspark.__version__} is too old, 4.2 is needed; to have it: {_INSTALL}")
    for module in ("numpy", "pyarrow"):
        try:
            __import__(module)
        except ImportError:
            raise CannotRun(f"{module} is missing; to have it: {_INSTALL}") from None
    java = java_program()
    if java is None:
        raise CannotRun(f"Java is missing: install Java {NEEDS_JAVA} or newer, or set JAVA_HOME")
    version = java_version(java)
    if version is not None and version < NEEDS_JAVA:
        raise CannotRun(f"Java {version} at {java} is too old, {NEEDS_JAVA} is needed; set JAVA_HOME to a newer one")


def java_program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return str(program) if program.exists() else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """Its major number; None if it does not tell."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    jars: str | None = None,
    packages: str | None = None,
) -> SparkSession:
    """The session, with both data sources registered and every worker asked whether it can do the work."""
    check_here()
    from pyspark.sql import SparkSession

    from broker_lite.pipeline.source import register

    builder = SparkSession.builder.appName(f"broker-lite {name}")
    if not is_submitted():
        master = master or "local[*]"
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            # Spark looks up its host's name even where it needs none, and a laptop's or container's may lead nowhere.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = dict(_QUIET)
        if cores := cores_of(master):
            settings |= _ON_ONE_MACHINE
            settings["spark.sql.shuffle.partitions"] = str(cores)  # 200 tasks for each window's count, otherwise
        if not master.startswith("local"):
            del settings["spark.driver.host"], settings["spark.driver.bindAddress"]
        if jars:
            settings["spark.jars"] = jars
        if packages:
            settings["spark.jars.packages"] = packages
        settings |= conf or {}
        for key, value in settings.items():
            builder = builder.config(key, value)
        builder = builder.master(master)
    try:
        spark = builder.getOrCreate()
    except (OSError, RuntimeError) as error:  # no gateway
        raise CannotRun(f"Spark does not start: {first_line(error)}") from None
    except spark_errors() as error:
        raise CannotRun(f"Spark does not start: {first_line(error)}") from None
    if not is_submitted():
        _look_for_no_other_sources(spark)
    register(spark)
    check_workers(spark)
    return spark


def _look_for_no_other_sources(spark: SparkSession) -> None:
    """Before the first data source is registered, Spark starts two processes to look for packages that bring some of
    their own: a second of each job, and over a Unix socket processes that nobody can teach to end quietly (worker.py).
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    with suppress(*spark_errors(), TypeError):  # another Spark may have it elsewhere; then it looks
        known = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        none = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        getattr(getattr(known, "MODULE$"), "dataSourceBuilders_$eq")(jvm.scala.Some(none))


def cores_of(master: str) -> int | None:
    """How many tasks a machine of its own runs at a time; None for a cluster, which knows better."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises when a job fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (Py4JError, PySparkException)


def check_workers(spark: SparkSession) -> None:
    """Raises CannotRun that names the module and the host, if a worker cannot import what the work needs."""
    context = spark.sparkContext
    if (context.master or "").startswith("local[") or context.master == "local":
        return
    needed = NEEDED

    def missing_here(_: int) -> tuple[str, str | None]:
        # A function inside a function travels as it is: one of a module would need that module on the worker.
        import importlib
        import socket

        for module in needed:
            try:
                importlib.import_module(module)
            except ImportError:
                return socket.gethostname(), module
        return socket.gethostname(), None

    tasks = max(context.defaultParallelism, 1)
    for host, missing in context.parallelize(range(tasks), tasks).map(missing_here).collect():
        if missing:
            raise CannotRun(f"worker {host} has no module {missing}; install broker-lite[spark] there")


_OURS = re.compile(r"broker_lite\.pipeline\.\w+\.(\w+): (.+)")
_ABOUT_NOTHING = ("An exception was thrown from the Python worker", "An error occurred while calling")


def first_line(error: BaseException) -> str:
    """What a person wants to know of an error that came through Java: our own line if there is one in it."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return ours[2].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or not lines[0].startswith(_ABOUT_NOTHING):
        return lines[0] if lines else type(error).__name__
    # What Java or Python call it stands at the beginning of a line, with dots in its name or as Python's own do.
    found = re.search(r"^(?:: )?((?:[\w.]+\.)?[A-Z]\w+(?:: .*)?)$", text.partition("\n")[2], re.MULTILINE)
    return found[1] if found else lines[0]


def told_by(error: BaseException) -> PipelineError:
    """The same as an error of ours: one that says that an option is wrong still does so behind Java."""
    ours = _OURS.search(str(error))
    return (WrongOption if ours and ours[1] == "WrongOption" else PipelineError)(first_line(error))
