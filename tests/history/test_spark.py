"""A history on Spark: read as it is, and verified with the same findings as in process."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sojourn import history
from sojourn.replay import rows
from tests import seeds
from tests.history.kills import check_notes, simulate_hour
from tests.history.world import World, abandon, change, parts, read, remove_first_hour
from tests.history.world import unsynced as unsynced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


COLUMNS = {
    "operations": rows.OPERATION_COLUMNS,
    "signals": rows.SIGNAL_COLUMNS,
    "cancels": rows.CANCEL_COLUMNS,
    "outcomes": rows.OUTCOME_COLUMNS[:5],
}


def test_findings_on_spark_are_those_in_process(
    tmp_path: Path, spark: SparkSession, unsynced: None
) -> None:
    """Of a history with forgotten keys, ids that came again, and faults; whole, and cut."""
    world = World(12, tmp_path, hour_rate=0.02)
    world.run(250)
    abandon(world.recorder)
    world.waits.close()
    for table, columns in COLUMNS.items():  # it is read as it is
        frame = spark.read.parquet(str(world.folder / table))
        assert frame.columns[: len(columns)] == list(columns)
        assert frame.schema["hour"].dataType.simpleString() == "string"
        assert frame.count() == len(read(world.folder, table))
    for path in parts(tmp_path, "outcomes")[-3:]:
        change(path, lambda rows: [{**row, "at_ms": row["at_ms"] + 1} for row in rows[:1]] + rows)
    change(parts(tmp_path, "operations")[-2], lambda rows: rows[1:] + rows[-1:])
    check_same(world, spark)
    remove_first_hour(tmp_path)
    remove_first_hour(tmp_path)
    check_same(world, spark)


def check_same(world: World, spark: SparkSession) -> None:
    here = history.verify(world.data, world.folder, show=1_000)
    there = history.verify(world.data, world.folder, spark=spark, show=1_000)
    assert here.counts
    assert (there.proven, there.waiting, there.unproven, there.counts) == (
        here.proven,
        here.waiting,
        here.unproven,
        here.counts,
    )
    assert sorted(map(str, there.differences)) == sorted(map(str, here.differences))


@pytest.mark.nightly
def test_an_hour_with_kills_is_proven_in_process_and_on_spark(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hour is simulated; the kills are not."""
    kills = simulate_hour(tmp_path, 60, 20, random.Random(seeds.seed()))
    counts = check_notes(tmp_path)
    assert kills >= 10
    for session in (None, spark):
        verification = history.verify(tmp_path / "waits.db", tmp_path / "history", spark=session)
        with capsys.disabled():
            print(f"\n{kills} kills, acknowledged {counts}: {verification}")
        assert verification.counts == {}, verification.differences
        assert verification.is_complete
        assert verification.proven == verification.rows["operations"]
        assert verification.waiting == 0
        assert verification.last_ms - verification.first_ms >= 3_590_000
