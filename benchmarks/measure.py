"""The process that measures: one case in, one line of JSON out."""

from __future__ import annotations

import gc
import json
import platform
import sys

from benchmarks import growth, lateness, memory, purgatory_shape, request_timeouts

_WORKLOADS = {
    "request-timeouts": request_timeouts.measure,
    "purgatory": purgatory_shape.measure,
    "growth": growth.measure,
    "memory": memory.measure,
    "lateness": lateness.measure,
}


def main() -> None:
    workload, contender, params = json.loads(sys.argv[1])
    try:
        row = _WORKLOADS[workload](contender, params)
    except ImportError as error:
        row = {"skipped": str(error)}
    else:
        gc_setting = f"gc {gc.get_threshold()}" if gc.isenabled() else "gc off"
        row["runtime"] = f"Python {platform.python_version()}, {gc_setting}"
    print(json.dumps(row))


if __name__ == "__main__":
    main()
