"""The driver is killed at random moments and started again: every operation once, and exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows_traces import Trace, random_trace
from stream_traces import arrivals, write_arrivals
from test_one_answer import answer_of_tables, differs

from sojourn import replay

DRIVER = Path(__file__).with_name("stream_driver.py")
PATIENCE_S = 600


class Driver:
    """A driver process with all that it has started."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, DRIVER, folder],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that the JVM goes with it, as when a machine fails
        )

    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def end(self) -> int:
        try:
            return self._process.wait(PATIENCE_S)
        finally:
            if self.runs():
                self.kill()
            self._log.close()


def committed(folder: Path) -> int:
    commits = folder / "checkpoint" / "commits"
    return (
        max((int(f.name) for f in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1
    )


def kill_often(folder: Path, trace: Trace, batches: int, kills: int, rng: random.Random) -> None:
    """Kill it in different batches, at any moment of them; then let it end."""
    write_arrivals(folder, arrivals(trace, batches, 190, seed=rng.randrange(10**6)))
    targets = sorted(rng.choices(range(-1, batches), k=kills))
    for target in targets:
        driver = Driver(folder)
        give_up_s = time.monotonic() + PATIENCE_S
        while driver.runs() and committed(folder) < target and time.monotonic() < give_up_s:
            time.sleep(0.02)
        # From the start of a batch into its end or the next: what is cut short is left to chance.
        time.sleep(rng.uniform(0, 2.0))
        driver.kill()
    driver = Driver(folder)
    assert driver.end() == 0, (folder / "log").read_text()[-5000:]
    compare(folder, trace)


def compare(folder: Path, trace: Trace) -> None:
    """As a user reads the sink, with a reader that knows nothing of Spark."""
    outcomes = pq.read_table(folder / "out" / "outcomes").drop_columns(["batch"])
    rejected = pq.read_table(folder / "out" / "rejected").drop_columns(["batch"])
    found = answer_of_tables(outcomes, pa.table({}), rejected)
    r = replay.resolve(*trace.tables())
    expected = answer_of_tables(r.outcomes, pa.table({}), r.rejected)
    assert differs(trace, expected, found, tells_condition=False) is None
    assert len(found.outcomes) == len(expected.outcomes)


@pytest.mark.usefixtures("java")
def test_killed_three_times_every_operation_ends_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOJOURN_SEED", random.randrange(10**6)))
    print(f"SOJOURN_SEED={seed}")
    rng = random.Random(seed)
    trace = random_trace(seed, 2000, extremes=False, ties_by_arrival=False, until=False)
    kill_often(tmp_path, trace, 9, 3, rng)


@pytest.mark.nightly
@pytest.mark.usefixtures("java")
def test_killed_fifty_times_every_operation_ends_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOJOURN_SEED", random.randrange(10**6)))
    print(f"SOJOURN_SEED={seed}")
    rng = random.Random(seed)
    trace = random_trace(
        seed, 20_000, span_ms=20_000, extremes=False, ties_by_arrival=False, until=False
    )
    kill_often(tmp_path, trace, 100, 50, rng)
