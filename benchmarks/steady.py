"""Many micro-batches with steady live state: does a batch take longer, the checkpoint grow?

As many operations come as end, each with a fresh id, and with a fresh key beside one of a few that
are used all the time. Compared are the second quarter of the batches, when the JVM has warmed up
and as much waits as ever will, and the last one. The checkpoint is measured as it stands on the
disk, and the workers' memory as the system counts it, both at their largest within the quarter.
Processor time is a batch's, of all processes; on a busy machine it says more than the time taken.
Apart from the rest of the checkpoint is `sources`, Spark's own list of the files it has read: it
has a line for each file, for as long as the query lives, and old copies stay for ten minutes.

Batches follow one another at once, or `every` so often, for a run of half an hour and more.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rows import family, family_cpu_s

if TYPE_CHECKING:
    from benchmarks.case import Row

_SPAN_MS = 10_000  # of a batch
_STAYS = 10  # batches that an operation waits at most, and that an id is remembered for
_KEYS = 2_000


def measure(name: str, params: dict[str, Any]) -> Row:
    from sojourn import spark as sp

    assert name == "spark-stream"
    spark = sp.local_session(
        "local[2]",
        shuffle_partitions=2,
        settings={"spark.sql.streaming.numRecentProgressUpdates": str(params["batches"] + 10)},
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        folder, checkpoint = Path(root, "in"), Path(root, "checkpoint")
        write(folder, params["batches"], params["operations"])
        frames = [
            sp.read_files(spark, "parquet", str(folder / table), table, files_per_batch=1)
            for table in ("operations", "signals")
        ]
        sp.stream_settings(spark)
        out = sp.resolve_stream(
            *frames, delay_ms=_SPAN_MS, idle="event", remember_ms=_STAYS * _SPAN_MS
        )
        writer = out.rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        trigger = (
            {"processingTime": params["every"]} if "every" in params else {"availableNow": True}
        )
        query = writer.trigger(**trigger).start()
        sizes: list[tuple[int, int]] = []  # the batch that was last done, bytes
        logs: list[tuple[int, int]] = []
        workers: list[tuple[int, int]] = []
        spent_cpu_s: list[tuple[int, float]] = []
        while not query.awaitTermination(1):
            if query.lastProgress is not None:
                log_bytes = _bytes(checkpoint / "sources")
                sizes.append((query.lastProgress.batchId, _bytes(checkpoint) - log_bytes))
                logs.append((query.lastProgress.batchId, log_bytes))
                workers.append((query.lastProgress.batchId, _workers_bytes()))
                spent_cpu_s.append((query.lastProgress.batchId, family_cpu_s()))
                if query.lastProgress.batchId >= params["batches"]:
                    query.stop()
        took = [
            (batch.batchId, batch.durationMs["triggerExecution"])
            for batch in query.recentProgress
            if batch.numInputRows
        ]
        keys = [
            (batch.batchId, batch.observedMetrics["sojourn"]["keys"])
            for batch in query.recentProgress
            if "sojourn" in batch.observedMetrics
        ]
    quarter = params["batches"] // 4
    second, last = (quarter, 2 * quarter), (3 * quarter, 4 * quarter)
    return {
        "batches": len(took),
        "early_ms": statistics.median(_within(took, second)),
        "late_ms": statistics.median(_within(took, last)),
        "early_cpu_ms": _a_batch(spent_cpu_s, second) * 1000,
        "late_cpu_ms": _a_batch(spent_cpu_s, last) * 1000,
        "early_mb": max(_within(sizes, second)) / 1e6,
        "late_mb": max(_within(sizes, last)) / 1e6,
        "early_log_mb": max(_within(logs, second)) / 1e6,
        "late_log_mb": max(_within(logs, last)) / 1e6,
        "early_worker_mb": max(_within(workers, second)) / 1e6,
        "late_worker_mb": max(_within(workers, last)) / 1e6,
        "early_keys": max(_within(keys, second)),
        "late_keys": max(_within(keys, last)),
    }


def _within(measured: list[tuple[int, int]], bounds: tuple[int, int]) -> list[int]:
    return [value for batch, value in measured if bounds[0] <= batch < bounds[1]]


def _a_batch(measured: list[tuple[int, float]], bounds: tuple[int, int]) -> float:
    """How much a sum that grows has grown with each batch."""
    within = [(batch, value) for batch, value in measured if bounds[0] <= batch < bounds[1]]
    (first, before), (last, after) = within[0], within[-1]
    return (after - before) / max(1, last - first)


def _workers_bytes() -> int:
    """How much memory Spark's Python workers take, all together."""
    total = 0
    for number in family():
        try:
            if b"pyspark.daemon" in Path(f"/proc/{number}/cmdline").read_bytes():
                pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
                total += pages * os.sysconf("SC_PAGE_SIZE")
        except OSError:  # it has ended
            continue
    return total


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # cleared away meanwhile
            continue
    return total


def write(folder: Path, batches: int, operations: int) -> None:
    """Write a file of operations and one of signals for each batch."""
    random = np.random.default_rng(7)
    names = pa.array([f"key-{n:05}" for n in range(_KEYS)])
    for table in ("operations", "signals"):
        (folder / table).mkdir(parents=True)

    def keys(count: int) -> pa.Array:
        return names.take(pa.array(random.integers(0, _KEYS, count)))

    for batch in range(batches):
        since_ms = batch * _SPAN_MS
        submitted_ms = since_ms + np.sort(random.integers(0, _SPAN_MS, operations))
        # A key's offset is the time, so that about half of what is waited for comes in time.
        wanted = np.repeat(submitted_ms, 2) + random.integers(0, _STAYS * _SPAN_MS, 2 * operations)
        # The second key of each is its own, and no key of another's ever again.
        fresh = pa.array([f"payment/{batch}-{n}" for n in range(operations)])
        both = pa.concat_arrays([keys(operations), fresh])
        places = np.arange(2 * operations).reshape(2, operations).T.reshape(-1)
        named = both.take(pa.array(places))
        required = pa.StructArray.from_arrays([named, pa.array(wanted)], ["key", "offset"])
        ends = pa.array(np.arange(0, 2 * operations + 1, 2, dtype=np.int32))
        waits = {
            "id": [f"operation-{batch}-{n}" for n in range(operations)],
            "submitted_ms": submitted_ms,
            "timeout_ms": random.integers(0, _STAYS * _SPAN_MS, operations),
            "requires": pa.ListArray.from_arrays(ends, required),
            "needed": pa.array(random.integers(1, 3, operations).astype(np.int32)),
        }
        at_ms = since_ms + np.sort(random.integers(0, _SPAN_MS, operations))
        # Half of the signals are for the fresh keys of this batch.
        half = operations // 2
        news = pa.concat_arrays([keys(operations - half), fresh.slice(0, half)])
        comes = {
            "key": news.take(pa.array(random.permutation(operations))),
            "offset": at_ms,
            "at_ms": at_ms,
        }
        for table, columns in (("operations", waits), ("signals", comes)):
            pq.write_table(pa.table(columns), folder / table / f"{batch:04}.parquet")
        time.sleep(0.002)  # files are taken in the order of their times
