"""The command's Spark session: its chatter goes to a file, and it ends with the command."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(args: argparse.Namespace, settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session as `--master`, `--driver-memory` and `--conf` want it.

    What the JVM and Spark's workers write on stderr would come between our lines. It goes to a
    file, which is kept and named if something fails.
    """
    from pyspark import SparkContext

    from sojourn.spark.session import local_session

    ours = SparkContext._active_spark_context is None
    log = _log()
    try:
        with _stderr_to(log) if ours else contextlib.nullcontext():
            spark = local_session(
                args.master or "local[*]",
                driver_memory=args.driver_memory,
                settings=settings | dict(args.conf),
            )
    except Exception as error:
        raise _did_not_start(error, log) from error
    try:
        with _stopped_in_one_line():
            yield spark
    except Exception:
        print(f"Spark's own messages are in {log}", file=sys.stderr)
        raise
    except BaseException:
        log.unlink(missing_ok=True)
        raise
    else:
        log.unlink(missing_ok=True)
    finally:
        if ours:
            _stop(spark)


@contextmanager
def _stopped_in_one_line() -> Iterator[None]:
    """Let Ctrl-C raise where we are, and py4j keep the traceback of that to itself.

    PySpark's own handler asks the JVM something in the middle of another answer, which fails.
    """

    def is_not_of_py4j(record: logging.LogRecord) -> bool:
        return "while sending command" not in record.getMessage()

    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    root, py4j = logging.getLogger(), logging.getLogger("py4j")  # it uses both
    level = py4j.level
    root.addFilter(is_not_of_py4j)
    py4j.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(is_not_of_py4j)
        py4j.setLevel(level)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _stop(spark: SparkSession) -> None:
    """Stop the session; what is to be said about its end was said by whatever ended it."""
    with contextlib.suppress(Exception):
        spark.stop()


def _did_not_start(error: Exception, log: Path) -> SojournError:
    if isinstance(error, SojournError):
        return error
    if "unresolved dependency" in log.read_text(errors="replace"):
        return SojournError(
            "Spark could not fetch what spark.jars.packages asks for from Maven Central; see "
            f"{log}. Where there is no way to it, give the jars: --conf spark.jars=FILE,FILE"
        )
    return SojournError(f"Spark did not start: {error} Its own messages are in {log}")


def _log() -> Path:
    number, name = tempfile.mkstemp(prefix="sojourn-spark-", suffix=".log")
    os.close(number)
    return Path(name)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let processes that are started meanwhile write there; they keep it, we get ours back."""
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
