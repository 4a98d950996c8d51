"""How a batch on Spark grows: millions of operations, as many signals, on one core, two, and more.

    python -m benchmarks.scale [--operations 1M 10M 100M] [--masters 'local[2]' …] [--strategy auto]

Operations have two requirements each; rows go from Parquet into a sink that drops them. Each size
runs once in a fresh process, so the JVM warms up within it. `local-cluster[2,1,4096]` is a
standalone cluster on this machine: two workers of one core, each a process of its own. Traces are
made part by part and kept in the folder, so that they are not made again.

The last column is what 1,000 million operations would take at that rate, in hours of one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.inputs import SEED
from benchmarks.rows import Peak, family_cpu_s

_FILE_ROWS = 1_000_000
_SPAN_MS = 86_400_000
_SIGNALS_PER_KEY = 10
_MASTERS = ("local[1]", "local[2]", "local-cluster[2,1,4096]")
_TITLES = (
    "operations", "master", "way", "s", "CPU s", "operations/CPU s", "peak GB", "1B, core hours",
)  # fmt: skip


def write_trace(folder: Path, operations: int) -> None:
    """Write as many signals as operations, a file for each million, each a stretch of time."""
    keys = max(1, operations // _SIGNALS_PER_KEY)
    counts = np.zeros(keys, dtype=np.int64)
    files = -(-operations // _FILE_ROWS)
    for name in ("operations", "signals"):
        (folder / name).mkdir(parents=True)
    for n in range(files):
        random = np.random.default_rng([SEED, n])
        rows = min(_FILE_ROWS, operations - n * _FILE_ROWS)
        begin_ms, end_ms = n * _SPAN_MS // files, (n + 1) * _SPAN_MS // files
        signal_keys = random.integers(0, keys, rows)
        at_ms = np.sort(random.integers(begin_ms, end_ms, rows))
        signals = {
            "key": _names("key-", signal_keys),
            "offset": _counted(signal_keys, counts),
            "at_ms": at_ms,
        }
        pq.write_table(pa.table(signals), folder / "signals" / f"part-{n:05}.parquet")
        submitted_ms = np.sort(random.integers(begin_ms, end_ms, rows))
        share = np.repeat(submitted_ms / _SPAN_MS, 2) + random.normal(0, 0.02, 2 * rows)
        offsets = np.maximum(0, share * _SIGNALS_PER_KEY).astype(np.int64)
        wanted = _names("key-", random.integers(0, keys, 2 * rows))
        needed = random.integers(1, 3, rows).astype(np.int32)
        waiting = {
            "id": _names("operation-", n * _FILE_ROWS + random.permutation(rows)),
            "submitted_ms": submitted_ms,
            "timeout_ms": random.integers(0, 3_600_000, rows),
            "requires": pa.ListArray.from_arrays(
                pa.array(np.arange(0, 2 * rows + 1, 2, dtype=np.int32)),
                pa.StructArray.from_arrays([wanted, pa.array(offsets)], ["key", "offset"]),
            ),
            "needed": pa.array(needed, mask=needed == 2),
        }
        pq.write_table(pa.table(waiting), folder / "operations" / f"part-{n:05}.parquet")


def _counted(keys: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number the rows of each key, on from `counts`, which go up."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(keys)])
    offsets = np.empty(len(keys), dtype=np.int64)
    offsets[order] = counts[ordered] + np.arange(len(keys)) - np.repeat(starts, sizes)
    counts[ordered[starts]] += sizes
    return offsets


def _names(prefix: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    return pc.binary_join_element_wise(prefix, digits, "")


def measure(folder: Path, master: str, strategy: str, driver_memory: str) -> dict[str, Any]:
    from sojourn.spark import local_session, resolve

    settings = {}
    if master.startswith("local-cluster"):
        # Its workers do not inherit this process's environment.
        paths = os.pathsep.join(path for path in sys.path if path)
        settings = {"spark.executor.memory": "2g", "spark.executorEnv.PYTHONPATH": paths}
    spark = local_session(master, driver_memory=driver_memory, settings=settings)
    with Peak() as peak:
        started, started_cpu_s = perf_counter(), family_cpu_s()
        asked, heard = (spark.read.parquet(str(folder / n)) for n in ("operations", "signals"))
        found = resolve(asked, heard, strategy=strategy)
        found.rows.write.format("noop").mode("overwrite").save()
        seconds, cpu_s = perf_counter() - started, family_cpu_s() - started_cpu_s
    return {"way": found.strategy, "s": seconds, "cpu_s": cpu_s, "peak_gb": peak.bytes / 1e9}


def line(operations: int, master: str, row: dict[str, Any]) -> str:
    rate = operations / row["cpu_s"]
    cells = (
        f"{operations:,}", f"`{master}`", row["way"], f"{row['s']:,.0f}", f"{row['cpu_s']:,.0f}",
        f"{rate:,.0f}", f"{row['peak_gb']:.1f}", f"{1e9 / rate / 3600:.1f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def number(text: str) -> int:
    """20M, 500k or 1000."""
    units = {"k": 1_000, "M": 1_000_000}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--operations", type=number, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--masters", nargs="+", default=list(_MASTERS))
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--driver-memory", default="6g")
    parser.add_argument("--folder", type=Path, default=Path("build/scale"), help="for the traces")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.here:
        print(f"| {' | '.join(_TITLES)} |\n|{'---|' * len(_TITLES)}")
    for operations in asked.operations:
        folder = asked.folder / str(operations)
        if not folder.exists():
            write_trace(folder, operations)
        for master in asked.masters:
            how = (asked.strategy, asked.driver_memory)
            if asked.here:
                print(json.dumps(measure(folder, master, *how)))
                return
            command = [
                sys.executable, "-m", "benchmarks.scale", "--here", "--folder", str(asked.folder),
                "--operations", str(operations), "--masters", master,
                "--strategy", how[0], "--driver-memory", how[1],
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{operations:,} on {master}: {done.stderr.strip()[-2000:]}", file=sys.stderr)
            else:
                row = json.loads(done.stdout.splitlines()[-1])
                print(line(operations, master, row), flush=True)


if __name__ == "__main__":
    main()
