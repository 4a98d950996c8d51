"""The direct way: workers read and write files by themselves, with the answer of `replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn.replay import files, rows
from tests.rows.traces import random_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

from sojourn.spark import broadcast, direct, strategies
from sojourn.spark.answers import KINDS
from sojourn.spark.tables import FileTable, open_table

TABLES = (rows.OPERATIONS, rows.SIGNALS, rows.CANCELS)


def write(folder: Path, until: bool) -> int | None:
    """A trace in several files, with bad rows and duplicates; some files have a column more."""
    trace = random_trace(21, 2000, extremes=False, until=until)
    for name, table in zip(TABLES, trace.tables(), strict=True):
        (folder / name).mkdir(parents=True)
        for n, at in enumerate(range(0, len(table), 700)):
            piece = table.slice(at, 700)
            if n == 1 and name == rows.OPERATIONS:
                piece = piece.append_column("amount", pa.array(range(len(piece))))
            pq.write_table(piece, folder / name / f"part-{n}.parquet", row_group_size=150)
    return trace.until_ms


def found_in(spark: SparkSession, folder: Path) -> dict[str, FileTable]:
    return {name: open_table(spark, folder / name, name) for name in TABLES}


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


@pytest.mark.parametrize("until", [False, True])
def test_files_become_files_with_the_answer_of_replay(
    spark: SparkSession, tmp_path: Path, until: bool
) -> None:
    until_ms = write(tmp_path, until)
    assert direct.resolve_files(found_in(spark, tmp_path), until_ms, tmp_path / "out")
    operations, signals, cancels = (tmp_path / name for name in TABLES)
    expected = files.resolve_files(operations, signals, cancels, until_ms)
    assert len(expected.rejected)
    assert bool(len(expected.pending)) == until
    for kind in KINDS.values():
        found = pq.read_table(tmp_path / "out" / kind.folder)
        right = getattr(expected, kind.folder)
        assert found.column_names == right.column_names
        assert sorted_rows(found) == sorted_rows(right)


def test_signals_that_are_too_many_are_left_to_the_shuffles(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, until=False)
    found = found_in(spark, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(broadcast, "LIMITS", broadcast.LIMITS._replace(steps=10))
        assert not direct.resolve_files(found, None, tmp_path / "out")
    monkeypatch.setattr(strategies, "_MOST_SIGNAL_BYTES", 10)
    assert not direct.resolve_files(found, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
def test_workers_on_other_machines_do_not_write_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    write(tmp_path, until=False)
    monkeypatch.setattr(spark.sparkContext, "master", master)
    assert not direct.resolve_files(found_in(spark, tmp_path), None, tmp_path / "out")


def test_what_python_makes_of_numbers_has_no_size_that_spark_knows(
    spark: SparkSession, tmp_path: Path
) -> None:
    from sojourn.spark.frames import known_bytes

    write(tmp_path, until=False)
    assert known_bytes(found_in(spark, tmp_path)[rows.SIGNALS].frame()) is None
    assert known_bytes(spark.range(1000)) == 8000
