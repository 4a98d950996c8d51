"""A live stream: how long after it is certain can an outcome be read?

A second process writes a file of operations and one of signals every 200 ms, as they happen, and
the stream begins a batch every second. An outcome is certain at its end plus the delay; it can be
read when the batch is in its place and noted as whole. What waits for the JVM to warm up is left
out.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from benchmarks.case import Row

DELAY_MS = 1000
_EVERY_MS = 200
_KEYS = 2_000


def measure(name: str, params: dict[str, Any]) -> Row:
    from sojourn import spark as sp

    assert name == "spark-stream"
    spark = sp.local_session("local[2]", shuffle_partitions=2)
    sp.stream_settings(spark)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        folder, out = Path(root, "in"), Path(root, "out")
        for table in ("operations", "signals"):
            (folder / table).mkdir(parents=True)
        writes = multiprocessing.get_context("spawn").Process(
            target=write, args=(str(folder), params["rows_per_s"], params["seconds"]), daemon=True
        )
        tables = [
            sp.read_files(spark, "parquet", str(folder / table), table)
            for table in ("operations", "signals")
        ]
        readable_ms: dict[int, float] = {}
        took = sp.resolve_stream(*tables, delay_ms=DELAY_MS, shards=4)
        query = took.write(
            str(out),
            str(Path(root, "checkpoint")),
            trigger="1 second",
            on_batch=lambda batch: readable_ms.setdefault(batch.number, time.time() * 1000),
        )
        writes.start()
        writes.join()
        last = max(readable_ms, default=-1) + 5  # the heartbeat never ends, so others neither
        while query.isActive and max(readable_ms, default=-1) < last:
            time.sleep(0.1)
        batch_ms = [b.durationMs["triggerExecution"] for b in query.recentProgress]
        query.stop()
        late_ms = latencies(out, readable_ms, params["warmup_s"])
    return {
        "outcomes": len(late_ms),
        "p50_ms": statistics.median(late_ms),
        "p99_ms": float(np.percentile(late_ms, 99)),
        "batch_ms": statistics.median(batch_ms),
    }


def latencies(out: Path, readable_ms: dict[int, float], warmup_s: int) -> list[float]:
    """Return how much later than certain each outcome could be read."""
    table = pq.read_table(out / "outcomes", columns=["at_ms", "batch"])
    at_ms, batch = table["at_ms"].to_numpy(), table["batch"].to_numpy()
    read_ms = np.array([readable_ms.get(int(n), np.nan) for n in batch])
    late_ms = read_ms - at_ms - DELAY_MS
    warm = at_ms >= at_ms.min() + 1000 * warmup_s
    # The end is left out too: when nothing comes any more, time waits for sources to be idle.
    busy = at_ms <= at_ms.max() - 3 * DELAY_MS - 5000
    found: list[float] = late_ms[warm & busy & ~np.isnan(late_ms)].tolist()
    return found


def write(folder: str, rows_per_s: int, seconds: int) -> None:
    """Write rows as they happen: half of them operations, half signals."""
    random = np.random.default_rng(7)
    each = rows_per_s * _EVERY_MS // 2000
    began_ms = time.time_ns() // 10**6
    for number in range(seconds * 1000 // _EVERY_MS):
        since_ms = began_ms + number * _EVERY_MS
        wait_s = (since_ms + _EVERY_MS) / 1000 - time.time()
        if wait_s > 0:
            time.sleep(wait_s)
        at_ms = since_ms + np.sort(random.integers(0, _EVERY_MS, each))
        # A key's offset is the time, so that about half of what is waited for comes in time.
        keys = [f"key-{n}" for n in random.integers(0, _KEYS, each)]
        wanted = at_ms + random.integers(0, 10_000, each)
        operations = {
            "id": [f"operation-{number}-{n}" for n in range(each)],
            "submitted_ms": at_ms,
            "timeout_ms": random.integers(500, 8_000, each),
            "requires": [
                [{"key": key, "offset": int(offset)}]
                for key, offset in zip(keys, wanted, strict=True)
            ],
        }
        signals = {
            "key": [f"key-{n}" for n in random.integers(0, _KEYS, each)],
            "offset": at_ms,
            "at_ms": at_ms,
        }
        for table, columns in (("operations", operations), ("signals", signals)):
            aside = Path(folder, table, f".{number:06}.parquet")
            pq.write_table(pa.table(columns), aside)
            aside.rename(aside.with_name(f"{number:06}.parquet"))
