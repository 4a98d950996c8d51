"""Bytes per pending timer or operation: growth of the process's resident memory, over n.

The list of handles that the user holds is taken off; the delays, the keys and the callback exist
beforehand. What a progress condition requires is made for each operation, and dropped by the user
as soon as it is submitted. Kafka's figure is heap in use after full collections, on the same terms.
"""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs

if TYPE_CHECKING:
    from benchmarks.case import Row


def measure(name: str, params: dict[str, Any]) -> Row:
    if params["of"] == "operations":
        from benchmarks import purgatory_shape

        contender: Any = purgatory_shape.PENDING[name]()
    else:
        contender = contenders.create(name)
    prepared = contender.prepare(inputs.read(params["delays"]))
    gc.collect()
    before = resident_bytes()
    handles = contender.add(prepared)
    gc.collect()
    grown = resident_bytes() - before - sys.getsizeof(handles)
    contender.close()
    return {"bytes_each": grown / len(prepared), "total_mb": grown / 1e6}


def resident_bytes() -> int:
    """Resident memory of this process; where /proc is missing, its peak so far."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return _peak_by_rusage()


def peak_bytes() -> int:
    """The most resident memory this process has had.

    Not `ru_maxrss` if it can be helped: that one begins with what the parent had.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return _peak_by_rusage()


def _peak_by_rusage() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
