"""Session: a local Spark session with settings that suit Sojourn, quiet and off the network."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET_LOG = Path(__file__).with_name("quiet-log4j2.properties")
_EXTRA_OPTIONS, _DEFAULT_OPTIONS = (
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
)
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
# Where Java and Spark look for options of Java's, beside the settings.
_JAVA_OPTIONS = (
    "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
)  # fmt: skip
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

# What a stream needs; see stream.py.
STREAM_SETTINGS = {
    STATE_STORE: ROCKSDB,
    # A batch writes what changed, not all files of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # How far back a checkpoint reaches, and how often what is older is cleared away.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    # "What is there now, then stop" works although the heartbeat's source does not know of it.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
}


def local_session(
    master: str = "local[*]",
    *,
    app_name: str = "sojourn",
    driver_memory: str = "2g",
    shuffle_partitions: int | None = None,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Start a session, or get the one that runs; Java is found or brought by itself.

    `master` may be that of a cluster too; then the driver can be reached from it, and
    `driver_memory` is still the driver's. `shuffle_partitions` is twice the number of cores by
    default. `settings` are Spark's own and win over ours. If a session runs already, it is given
    back with those of the settings that can be changed while it runs.

    Raises NoJava where there is no Java 17 or newer.
    """
    # Java is looked for when it is needed; importing this package starts nothing.
    from sojourn.spark.java import use_java

    use_java()
    # Workers run this very Python: the one that has sojourn and its compiled modules.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with quiet_pyspark():
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(app_name)
        chosen = _settings(master, driver_memory, shuffle_partitions) | (settings or {})
        for name, value in _with_collector(chosen).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


@contextmanager
def quiet_pyspark() -> Iterator[None]:
    """Keep to ourselves what PySpark warns of when its Arrow functions are used.

    It says that pandas 3 is new to it; of pandas we use nothing. Python's warning filters belong
    to the whole process, so other threads are without those warnings meanwhile. Several may be
    here at once, as batches of a stream come in a thread of Spark's: the first changes the filters,
    and the last puts them back.
    """
    _QUIET.enter()
    try:
        yield
    finally:
        _QUIET.leave()


class _Quiet:
    """How many are inside `quiet_pyspark`, and what puts the filters back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters = warnings.catch_warnings()

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._filters = warnings.catch_warnings()
            self._filters.__enter__()
            ignore = partial(warnings.filterwarnings, "ignore")
            ignore(category=FutureWarning, message="PySpark does not yet")
            ignore(category=DeprecationWarning)
            ignore(category=ResourceWarning)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


_QUIET = _Quiet()


def _settings(master: str, driver_memory: str, shuffle_partitions: int | None) -> dict[str, str]:
    settings = STREAM_SETTINGS | {
        "spark.driver.memory": driver_memory,
        _EXTRA_OPTIONS: f"-Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        # A Python worker that takes long to start, on a busy machine, has not failed.
        "spark.python.authenticate.socketTimeout": "120s",
        # Otherwise Spark adds up the size of an Arrow batch after every row of it, which takes
        # longer than filling it. A batch then ends after so many rows, however large they are;
        # it must stay below 2 GiB.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    if master.startswith("local"):
        # Nobody else needs to reach us; and a laptop's own name often leads nowhere.
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Checkpoints are on a local disk then. Spark's default starts four processes, chmod and
        # readlink, for each file that a batch writes there.
        settings[FILE_MANAGER] = LOCAL_FILE_MANAGER
        # Over TCP a task waits 40 ms for Python: one side holds back a small packet, the other its
        # answer to the packet before.
        settings[UNIX_SOCKETS] = str(hasattr(socket, "AF_UNIX")).lower()
    if shuffle_partitions is None and master.startswith("local"):
        shuffle_partitions = 2 * local_cores(master)
    if shuffle_partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    return settings


def _with_collector(settings: dict[str, str]) -> dict[str, str]:
    """The same with a garbage collector for the driver, unless one is named somewhere already.

    Rows are short-lived and nobody waits for a single one: the collector with the least work.
    Java refuses to start with two of them.
    """
    home = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    with suppress(OSError):
        if _COLLECTOR.search(Path(home, "spark-defaults.conf").read_text()):
            return settings
    places = [os.environ.get(name, "") for name in _JAVA_OPTIONS]
    places += [settings.get(name, "") for name in (_DEFAULT_OPTIONS, _EXTRA_OPTIONS)]
    if any(map(_COLLECTOR.search, places)):
        return settings
    return settings | {_EXTRA_OPTIONS: f"{settings[_EXTRA_OPTIONS]} -XX:+UseParallelGC"}


def is_one_process(master: str) -> bool:
    """Whether tasks run in the driver: `local`, `local[4]`, but not `local-cluster[2,1,1024]`."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def local_cores(master: str) -> int:
    """How many cores a local master asks for: local, local[4], local[4,2], local[*]."""
    if cluster := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(cluster[1]) * int(cluster[2])
    cores = master.removeprefix("local").strip("[]").split(",")[0]
    if cores == "*":
        return os.cpu_count() or 1
    return int(cores) if cores.isdigit() else 1
