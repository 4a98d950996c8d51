"""The driver is killed at random moments and started again: every operation once, and exact."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import replay
from tests.rows.traces import Trace, random_trace
from tests.seeds import seed
from tests.spark.driver_process import Driver
from tests.spark.stream_traces import arrivals, write_arrivals
from tests.test_one_answer import answer_of_tables, differs

PATIENCE_S = 600


def start(folder: Path) -> Driver:
    return Driver([sys.executable, "-m", "tests.spark.stream_driver", str(folder)], folder / "log")


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
        driver = start(folder)
        give_up_s = time.monotonic() + PATIENCE_S
        while driver.runs() and committed(folder) < target and time.monotonic() < give_up_s:
            time.sleep(0.02)
        # From the start of a batch into its end or the next: what is cut short is left to chance.
        time.sleep(rng.uniform(0, 2.0))
        driver.kill()
    driver = start(folder)
    assert driver.end(PATIENCE_S) == 0, (folder / "log").read_text()[-5000:]
    compare(folder, trace)


def compare(folder: Path, trace: Trace) -> None:
    """Row by row, as a user reads the sink, with a reader that knows nothing of Spark."""
    outcomes = pq.read_table(folder / "out" / "outcomes").drop_columns(["batch"])
    rejected = pq.read_table(folder / "out" / "rejected").drop_columns(["batch"])
    found = answer_of_tables(outcomes, pa.table({}), rejected)
    r = replay.resolve(*trace.tables())
    expected = answer_of_tables(r.outcomes, pa.table({}), r.rejected)
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
    kill_often(tmp_path, trace, 100, 50, rng)
