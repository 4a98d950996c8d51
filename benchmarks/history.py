"""The history of a durable purgatory: `python -m benchmarks.history [--operations 200000]`.

What recording costs beside the purgatory, in processor time for an operation with two requirements,
its signal and its outcome; how many bytes that takes in the history; and how long `verify` takes in
process. Nothing is synced, and the clock is moved by hand: it is the work that is measured.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from sojourn import ManualClock, compiled, durable, history
from sojourn.durable import schema

BATCH = 1_000


class Unsynced:
    """A connection that does not wait for the disk."""

    def __init__(self, path: str) -> None:
        self._connection = schema.connect(path)
        self.executemany = self._connection.executemany
        self.close = self._connection.close

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        return self._connection.execute(statement.replace("= FULL", "= OFF"), parameters)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="where to write")
    options = parser.parse_args()
    print(f"{'compiled' if compiled else 'interpreted'}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sojourn-history-") as folder:
        measure(Path(folder), options.operations)


def measure(folder: Path, operations: int) -> None:
    clock = ManualClock(1_763_244_000_000)
    taking_s = recording_s = 0.0
    count = 0
    rng = random.Random(1)
    with (
        durable.Purgatory(folder / "waits.db", clock=clock, connect=Unsynced) as waits,
        history.Recorder(waits, folder / "history") as recorder,
    ):
        for _ in range(0, operations, BATCH):
            names = [f"order-{rng.getrandbits(64):016x}" for _ in range(BATCH)]
            began_s = time.process_time()
            waits.submit_many(
                [
                    (name, [(f"{name}/paid", 1), ("stock/mug", 1)], 60_000, None, "order", "ann@…")
                    for name in names
                ]
            )
            waits.signal_many([("stock/mug", 1), *((f"{name}/paid", 1) for name in names)])
            taking_s += time.process_time() - began_s
            count += BATCH
            if count % (50 * BATCH) == 0:  # as a minute of traffic would
                began_s = time.process_time()
                recorder.flush()
                recording_s += time.process_time() - began_s
        began_s = time.process_time()
        recorder.flush()
        recording_s += time.process_time() - began_s
    size = sum(path.stat().st_size for path in (folder / "history").rglob("*.parquet"))
    print(f"taking an operation and its signal: {1e6 * taking_s / count:.1f} us of processor time")
    print(f"recording them and the outcome: {1e6 * recording_s / count:.1f} us")
    print(f"in the history: {size / count:.0f} bytes an operation")
    began_s = time.process_time()
    found = history.verify(folder / "waits.db", folder / "history")
    took_s = time.process_time() - began_s
    assert found.is_proven
    print(f"verify, in process: {1e6 * took_s / found.proven:.1f} us an outcome")


if __name__ == "__main__":
    main()
