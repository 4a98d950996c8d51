"""Both sides of the incremental engine alone, Arrow batches in and out: rows a second of one core.

    python -m benchmarks.replay_sides [--operations N] [--batch N]

Times are those of the processor, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sojourn.replay.progress import Progress
from sojourn.replay.schemas import REQUIREMENTS, SIGNALS, SUBMISSIONS
from sojourn.replay.waiting import Waiting

PER_OPERATION = 2  # requirements
SPAN_MS = 3_600_000
TIMEOUT_MS = 60_000
DELAY_MS = 10_000


class Rows:
    """Operations over an hour, two requirements each, and as many signals as requirements."""

    def __init__(self, operations: int, hot: bool) -> None:
        rng = np.random.default_rng(7)
        self.count = operations
        self.submitted_ms = np.sort(rng.integers(DELAY_MS, SPAN_MS, operations))
        self.owner = np.repeat(np.arange(operations), PER_OPERATION)
        keys = rng.integers(0, max(operations // 10, 1), len(self.owner))
        if hot:
            keys[rng.random(len(keys)) < 0.5] = 0
        self.keys = keys
        self.offsets = self.submitted_ms[self.owner] + rng.integers(0, 2 * TIMEOUT_MS, len(keys))
        self.signal_ms = np.sort(rng.integers(DELAY_MS, SPAN_MS, len(keys)))
        self.signal_keys = rng.permutation(keys)
        # Offsets rise with time, so that half of what is waited for comes in time.
        self.signal_offsets = self.signal_ms + rng.integers(0, TIMEOUT_MS, len(keys))

    def batches(
        self, size: int
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, pa.RecordBatch, int]]:
        """Yield requirements, signals, operations, and the time that is safe after them."""
        steps = max(1, 2 * len(self.owner) // size)
        for n in range(steps):
            ops = slice(n * self.count // steps, (n + 1) * self.count // steps)
            of = slice(ops.start * PER_OPERATION, ops.stop * PER_OPERATION)
            numbers = np.arange(ops.start, ops.stop)
            owner = self.owner[of]
            submitted_ms = self.submitted_ms[ops]
            requirements = pa.record_batch(
                [
                    names("op-", owner),
                    pa.array(owner),
                    pa.array(np.tile(np.arange(PER_OPERATION, dtype=np.int32), len(numbers))),
                    names("key-", self.keys[of]),
                    pa.array(self.offsets[of]),
                    pa.array(self.submitted_ms[owner]),
                    pa.array(self.submitted_ms[owner] + TIMEOUT_MS),
                ],
                schema=REQUIREMENTS,
            )
            signals = pa.record_batch(
                [
                    names("key-", self.signal_keys[of]),
                    pa.array(self.signal_offsets[of]),
                    pa.array(self.signal_ms[of]),
                ],
                schema=SIGNALS,
            )
            operations = pa.record_batch(
                [
                    names("op-", numbers),
                    pa.array(numbers),
                    pa.array(submitted_ms),
                    pa.array(submitted_ms + TIMEOUT_MS),
                    pa.array(np.full(len(numbers), 1, dtype=np.int32)),
                    pa.array(np.full(len(numbers), PER_OPERATION, dtype=np.int32)),
                    pa.array([b"sixteen bytes of"] * len(numbers), pa.binary()),
                ],
                schema=SUBMISSIONS,
            )
            latest_ms = min(submitted_ms[-1], self.signal_ms[of][-1])
            yield requirements, signals, operations, int(latest_ms) - DELAY_MS


def names(prefix: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array([f"{prefix}{n:08d}" for n in numbers.tolist()])


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def run(operations: int, size: int, hot: bool) -> None:
    progress, waiting = Progress(), Waiting(remember_ms=0)
    spent = {"progress": 0.0, "waiting": 0.0}
    count = {"progress": 0, "waiting": 0}
    for requirements, signals, waiters, now_ms in Rows(operations, hot).batches(size):
        candidates, s = _timed(partial(progress.apply, requirements, signals, now_ms))
        spent["progress"] += s
        count["progress"] += len(requirements) + len(signals)
        _, s = _timed(partial(waiting.apply, waiters, candidates, None, now_ms))
        spent["waiting"] += s
        count["waiting"] += len(waiters) + len(candidates)
    kind = "one key has half" if hot else "uniform"
    for side in spent:
        rate = count[side] / spent[side]
        print(f"{side:9} {kind:17} {count[side]:>10,} rows  {rate:>12,.0f} rows/s")


def state(operations: int) -> None:
    """What waits for long: its size in memory and in bytes, and the time to write and restore."""
    requirements, _, waiters, _ = next(Rows(operations, hot=False).batches(8 * operations))
    progress, waiting = Progress(), Waiting()
    _tell(progress, len(requirements), partial(progress.apply, requirements, None, None))
    _tell(waiting, len(waiters), partial(waiting.apply, waiters, None, None, None))


def _tell(side: Progress | Waiting, rows: int, fill: Callable[[], object]) -> None:
    tracemalloc.start()
    fill()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    data, write_s = _timed(side.snapshot)
    read_s = min(_timed(partial(type(side).restore, data))[1] for _ in range(3))
    print(
        f"{type(side).__name__.lower():9} {rows:>10,} waiting   {held / rows:.0f} bytes each "
        f"in memory, {len(data) / rows:.0f} in a snapshot; "
        f"written at {rows / write_s:,.0f}/s, restored at {rows / read_s:,.0f}/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--operations", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=50_000, help="rows for Progress at a time")
    asked = parser.parse_args()
    for hot in (False, True):
        run(asked.operations, asked.batch, hot)
    state(asked.operations)


if __name__ == "__main__":
    main()
