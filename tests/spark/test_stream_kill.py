"""The driver is killed at random moments and started again: every operation once, and exact."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.rows import oracle
from tests.rows.traces import Trace, random_trace
from tests.seeds import seed
from tests.spark.driver_process import Driver
from tests.spark.stream_driver import STARTED
from tests.spark.stream_traces import arrivals, write_arrivals
from tests.test_one_answer import answer_of_tables, differs

PATIENCE_S = 600


def start(folder: Path) -> Driver:
    (folder / STARTED).unlink(missing_ok=True)
    return Driver([sys.executable, "-m", "tests.spark.stream_driver", str(folder)], folder / "log")


def last(folder: Path, log: str) -> int:
    """The last batch in a log of the checkpoint: `offsets` has those begun, `commits` those done"""
    found = (folder / "checkpoint" / log).glob("[0-9]*")
    return max((int(path.name) for path in found), default=-1)


def kill_often(folder: Path, trace: Trace, batches: int, kills: int, rng: random.Random) -> None:
    """Kill it so often, each time while the query runs; then let it end."""
    write_arrivals(folder, arrivals(trace, batches, 190, seed=rng.randrange(10**6)))
    inside = 0
    for _ in range(kills):
        done = last(folder, "commits")
        driver = start(folder)
        # In the batch that it begins with, often one that was cut short before, or in a later one.
        more = rng.choice((0, 0, 1, 2))
        give_up_s = time.monotonic() + PATIENCE_S
        while not (folder / STARTED).exists() or last(folder, "commits") < done + more:
            if not driver.runs():  # on a busy machine: Spark gives a Python process 10 s to start
                driver.end(PATIENCE_S)
                driver = start(folder)
            assert time.monotonic() < give_up_s, (folder / "log").read_text()[-5000:]
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 2.0))  # anywhere in it: what is cut short is left to chance
        assert driver.runs(), f"all is read after {kills} kills at most; give it more batches"
        driver.kill()
        inside += last(folder, "commits") < last(folder, "offsets")
    driver = start(folder)
    assert driver.end(PATIENCE_S) == 0, (folder / "log").read_text()[-5000:]
    compare(folder, trace)
    print(f"{len(trace.operations)} operations, {kills} kills, {inside} of them inside a batch")


def compare(folder: Path, trace: Trace) -> None:
    """Row by row, as a user reads the sink, with a reader that knows nothing of Spark."""
    outcomes = pq.read_table(folder / "out" / "outcomes").drop_columns(["batch"])
    rejected = pq.read_table(folder / "out" / "rejected").drop_columns(["batch"])
    found = answer_of_tables(outcomes, pa.table({}), rejected)
    expected = oracle.resolve(trace.operations, trace.signals, trace.cancels)
    assert differs(trace, expected, found, tells_condition=False) is None
    assert len(found.outcomes) == len(expected.outcomes)


@pytest.mark.usefixtures("java")
def test_killed_twice_every_operation_ends_once(tmp_path: Path) -> None:
    rng = random.Random(seed())
    trace = random_trace(seed(), 2000, extremes=False, ties_by_arrival=False, until=False)
    kill_often(tmp_path, trace, 12, 2, rng)


@pytest.mark.nightly
@pytest.mark.usefixtures("java")
def test_killed_fifty_times_every_operation_ends_once(tmp_path: Path) -> None:
    rng = random.Random(seed())
    trace = random_trace(
        seed(), 20_000, span_ms=20_000, extremes=False, ties_by_arrival=False, until=False
    )
    assert len(trace.operations) >= 20_000
    kill_often(tmp_path, trace, 200, 50, rng)
