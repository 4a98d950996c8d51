"""A session whose workers cannot run our code is noticed before a job, in one sentence."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import FreshPython


def test_workers_without_the_package_are_noticed_before_the_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.spark import resolve

    operations = spark.createDataFrame(
        [],
        "id string, submitted_ms long, timeout_ms long, "
        "requires array<struct<key: string, offset: long>>",
    )
    signals = spark.createDataFrame([], "key string, offset long, at_ms long")
    (tmp_path / "sojourn.py").write_text("raise ModuleNotFoundError(\"No module named 'sojourn'\")")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(
        SojournError, match="No module named 'sojourn'; set PYSPARK_PYTHON"
    ) as caught:
        resolve(operations, signals)
    said = str(caught.value)
    assert str(python) in said
    assert sys.executable in said
    assert "\n" not in said


def test_workers_that_run_this_python_are_not_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.spark.workers import check_workers

    monkeypatch.setattr(type(spark), "range", lambda *_: pytest.fail("a job was run"))
    check_workers(spark)


def test_workers_that_are_no_children_of_this_process_are_asked(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sojourn.spark.workers import check_workers

    monkeypatch.setattr(spark.sparkContext, "master", "local-cluster[2,1,1024]")
    monkeypatch.setattr(type(spark), "range", lambda *_: 1 / 0)
    with pytest.raises(SojournError, match="cannot run sojourn: division by zero"):
        check_workers(spark)


def test_warnings_are_put_back_by_the_last_of_several_threads() -> None:
    from sojourn.spark.session import quiet_pyspark

    before = list(warnings.filters)
    first, second = quiet_pyspark(), quiet_pyspark()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # another thread may come later, and leave later
    warnings.warn("PySpark's own", DeprecationWarning, stacklevel=1)  # would be an error here
    second.__exit__(None, None, None)
    assert list(warnings.filters) == before


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local-cluster[2,3,1024]", 6)]
)
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    from sojourn.spark.session import local_cores

    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("package", "missing", "extra"),
    [("spark", "pyspark", "spark"), ("kafka", "kio", "kafka"), ("replay", "numpy", "replay")],
)
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(
    package: str, missing: str, extra: str, fresh_python: FreshPython
) -> None:
    run = fresh_python(f"import sys; sys.modules[{missing!r}] = None; import sojourn.{package}")
    assert f"sojourn.{package} needs" in run.stderr
    assert missing in run.stderr
    assert f"pip install sojourn[{extra}]" in run.stderr
