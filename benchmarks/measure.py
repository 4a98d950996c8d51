"""The process that measures: one case in, one line of JSON out."""

from __future__ import annotations

import gc
import json
import platform
import sys
from importlib import import_module

from benchmarks.case import Skipped
from sojourn import compiled

_MODULES = {
    "request-timeouts": "request_timeouts",
    "purgatory": "purgatory_shape",
    "one-key": "one_key",
    "async-waits": "async_waits",
    "growth": "growth",
    "memory": "memory",
    "lateness": "lateness",
    "rows": "rows",
    "stream": "stream",
    "stream-latency": "stream_latency",
    "steady": "steady",
    "cluster": "cluster",
}


def main() -> None:
    workload, contender, params = json.loads(sys.argv[1])
    try:
        row = import_module(f"benchmarks.{_MODULES[workload]}").measure(contender, params)
    except ImportError as error:
        row = {"skipped": str(error).partition(" (")[0]}
    except Skipped as error:
        row = {"skipped": str(error)}
    else:
        gc_setting = f"gc {gc.get_threshold()}" if gc.isenabled() else "gc off"
        build = "sojourn compiled" if compiled else "sojourn interpreted"
        row["runtime"] = f"Python {platform.python_version()}, {gc_setting}, {build}"
    print(json.dumps(row))


if __name__ == "__main__":
    main()
