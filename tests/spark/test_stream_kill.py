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
from tests.spark.stream_driver import ENDLESS, STARTED
from tests.spark.stream_traces import TIMES, arrivals, write_arrivals
from tests.test_one_answer import answer_of_tables, differs
from tests.until import until

PATIENCE_S = 600


def start(folder: Path) -> Driver:
    (folder / STARTED).unlink(missing_ok=True)
    return Driver([sys.executable, "-m", "tests.spark.stream_driver", str(folder)], folder / "log")


def last(folder: Path, log: str) -> int:
    """The last batch in a log of the checkpoint: `offsets` has those begun, `commits` those done"""
    found = (folder / "checkpoint" / log).glob("[0-9]*")
    return max((int(path.name) for path in found), default=-1)


def kill_often(folder: Path, trace: Trace, batches: int, kills: int, rng: random.Random) -> None:
    """Kill it so often, each time while the query runs; then let it end.

    It gets a few files more for each kill, and never ends before that, however late the kill comes.
    """
    write_arrivals(folder / "later", arrivals(trace, batches, 190, seed=rng.randrange(10**6)))
    (folder / ENDLESS).touch()
    inside = 0
    for number in range(kills):
        hand_out(folder, range(number * batches // kills, (number + 1) * batches // kills))
        done = last(folder, "commits")
        # In the batch that it begins with, often one that was cut short before, or in a later one.
        more = rng.choice((0, 0, 1, 2))
        while not killed(folder, done + more, rng):
            continue
        inside += last(folder, "commits") < last(folder, "offsets")
    (folder / ENDLESS).unlink()
    hand_out(folder, range(batches, batches + 1))
    driver = start(folder)
    while status := driver.end(PATIENCE_S):
        assert driver.was_too_slow(), (status, said(folder))
        driver = start(folder)
    compare(folder, trace)
    print(f"{len(trace.operations)} operations, {kills} kills, {inside} of them inside a batch")


def killed(folder: Path, batch: int, rng: random.Random) -> bool:
    """Start the driver, and kill it after this batch; False if it did not live that long."""
    driver = start(folder)

    def is_far_enough() -> bool:
        begun = (folder / STARTED).exists() and last(folder, "commits") >= batch
        return begun or not driver.runs()

    until(is_far_enough, lambda: f"batch {batch}: {said(folder)}", PATIENCE_S)
    time.sleep(rng.uniform(0, 2.0))  # anywhere in it: what is cut short is left to chance
    if driver.runs():
        driver.kill()
        return True
    assert driver.was_too_slow(), said(folder)
    return False


def said(folder: Path) -> str:
    return (folder / "log").read_text()[-5000:]


def hand_out(folder: Path, numbers: range) -> None:
    """Give these files to the driver, which does not run."""
    for name in TIMES:
        (folder / name).mkdir(exist_ok=True)
        for n in numbers:
            path = folder / "later" / name / f"{n:04}.parquet"
            path.rename(folder / name / path.name)


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
    kill_often(tmp_path, trace, 6, 2, rng)


@pytest.mark.nightly
@pytest.mark.usefixtures("java")
def test_killed_fifty_times_every_operation_ends_once(tmp_path: Path) -> None:
    rng = random.Random(seed())
    trace = random_trace(
        seed(), 20_000, span_ms=20_000, extremes=False, ties_by_arrival=False, until=False
    )
    assert len(trace.operations) >= 20_000
    kill_often(tmp_path, trace, 200, 50, rng)
