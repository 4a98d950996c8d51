"""A trace in files: all at once, or as it arrives, no row later than the delay allows."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rows.traces import Row, Trace

TIMES = {"operations": "submitted_ms", "signals": "at_ms", "cancels": "at_ms"}
FLUSH_MS = 10**12  # later than everything


def write_batch(folder: Path, trace: Trace) -> None:
    """Write each table as a Parquet file, and beside them when the rows end."""
    folder.mkdir()
    (folder / "until_ms").write_text(str(trace.until_ms))
    for name, table in zip(TIMES, trace.tables(), strict=True):
        pq.write_table(table, folder / f"{name}.parquet")


def arrivals(trace: Trace, batches: int, delay_ms: int, seed: int = 0) -> list[dict[str, pa.Table]]:
    """Cut the trace into batches; a row arrives up to `delay_ms` after its time.

    The last batch is a row of each table, so late that everything has ended before: a signal and
    a cancel for nobody, and an operation that does not end, as time stays a delay behind it.
    """
    rng = random.Random(seed)
    span_ms = max(_time_ms(row, "at_ms") for row in trace.signals) + delay_ms
    tables = dict(zip(TIMES, trace.tables(), strict=True))
    found: list[dict[str, pa.Table]] = [{} for _ in range(batches)]
    for name, table in tables.items():
        numbers: list[list[int]] = [[] for _ in range(batches)]
        for n, row in enumerate(getattr(trace, name)):
            arrives_ms = _time_ms(row, TIMES[name]) + rng.randrange(max(1, delay_ms))
            number = arrives_ms * batches // (span_ms + 1)
            numbers[min(max(number, 0), batches - 1)].append(n)
        for batch, chosen in zip(found, numbers, strict=True):
            rng.shuffle(chosen)
            batch[name] = table.take(pa.array(chosen, pa.int64()))
    last: dict[str, Row] = {
        "operations": {
            "id": "the last",
            "submitted_ms": FLUSH_MS,
            "timeout_ms": 0,
            "requires": [{"key": "nobody", "offset": 1}],
        },
        "signals": {"key": "nobody", "offset": 0, "at_ms": FLUSH_MS},
        "cancels": {"id": "nobody", "at_ms": FLUSH_MS},
    }
    flush = {name: pa.Table.from_pylist([last[name]], tables[name].schema) for name in TIMES}
    return [*found, flush]


def _time_ms(row: Row, column: str) -> int:
    """A row's time; a bad one's is anything."""
    time_ms = row[column]
    return time_ms if isinstance(time_ms, int) and abs(time_ms) < 10**9 else 0


def write_arrivals(folder: Path, batches: list[dict[str, pa.Table]]) -> None:
    """Write each table of each batch as a Parquet file, with times in the order of the batches."""
    schemas = {name: table.schema for batch in batches for name, table in batch.items()}
    for name, schema in schemas.items():
        (folder / name).mkdir(parents=True)
        for n, batch in enumerate(batches):
            # One file of each table a batch, so that they stay in step.
            path = folder / name / f"{n:04}.parquet"
            pq.write_table(batch.get(name, schema.empty_table()), path)
            os.utime(path, (1_000_000_000 + n, 1_000_000_000 + n))
