"""What our code does to the Python worker that Spark runs it in."""

from __future__ import annotations

import gc
import sys

_settled = False


def settle() -> None:
    """Spare this worker from looking at all its modules again after every task.

    Spark's workers collect garbage between tasks. Of the hundred thousands of objects that then
    are looked at nearly all belong to imported modules; for a short task, looking takes longer than
    the task. After the first call they are left out. Elsewhere, in a driver say, nothing is done.
    """
    global _settled
    if not _settled and _is_worker():
        _settled = True
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == "pyspark.daemon"
