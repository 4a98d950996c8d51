"""Workers: check that Spark's Python workers can run our code; tune their garbage collector."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_settled = False
_able: set[str] = set()  # applications whose workers were asked


def check_workers(spark: SparkSession) -> None:
    """Raise SojournError, before a job starts, if a session's workers cannot import this package.

    Workers that run this very Python, as children of this process, are not asked. Else a job of
    one row asks one of them, once for each application.
    """
    from sojourn.spark.session import is_one_process, quiet_pyspark  # of no use in a worker

    context: Any = getattr(spark, "_sc", None)
    if context is not None and is_one_process(context.master):
        python = shutil.which(context.pythonExec) or context.pythonExec
        if os.path.abspath(python) == os.path.abspath(sys.executable):
            return
    key = context.applicationId + context.pythonExec if context else str(spark)
    if key in _able:
        return
    try:
        with quiet_pyspark():
            spark.range(1).mapInArrow(_tell_version, "version string").collect()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        cause = next((line for line in reversed(lines) if "Error: " in line), lines[0])
        python = f" ({context.pythonExec})" if context else ""
        raise SojournError(
            f"the Python of this session's workers{python} cannot run sojourn: {cause}; set "
            f"PYSPARK_PYTHON to one that has it, here {sys.executable}, before the session is "
            "started, or start it with sojourn.spark.local_session"
        ) from error
    _able.add(key)


def _tell_version(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch([pa.array([sys.version] * batch.num_rows)], names=["version"])


def settle() -> None:
    """Exempt this worker's imported modules from garbage collection.

    Spark's workers collect garbage between tasks. Nearly all of the hundreds of thousands of
    objects that are looked at belong to imported modules, and for a short task that takes longer
    than the task. Only the first call in a worker does anything; elsewhere, as in a driver, none.
    """
    global _settled
    if not _settled and _is_worker():
        _settled = True
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == "pyspark.daemon"
