"""The shards are dealt out to Spark's tasks in turn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sojourn.spark.labels import labels, shard_with, spark_hash


def counts(shards: int, tasks: int) -> list[int]:
    """How many shards each task gets."""
    found = Counter((spark_hash(np.array(labels(shards))) % tasks).tolist())
    return [found[task] for task in range(tasks)]


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 32])
def test_tasks_get_equally_many_shards(tasks: int) -> None:
    for shards in (tasks, 32, 64, 120):
        dealt = counts(shards, tasks)
        assert max(dealt) - min(dealt) <= 1


@pytest.mark.parametrize("shards", [1, 7, 4096])
def test_every_shard_has_a_label_of_its_own(shards: int) -> None:
    assert len(set(labels(shards))) == shards
    assert labels(shards) == labels(4096)[:shards]


def test_labels_are_those_in_checkpoints() -> None:
    assert labels(4) == (50468, 37917, 960, 29429)


def test_spark_reckons_likewise(spark: SparkSession) -> None:
    table = spark.createDataFrame([(n, label) for n, label in enumerate(labels(32))])
    found = table.repartition(4, "_2").select(
        "_1", shard_with(F.col("_2")), F.spark_partition_id(), F.hash("_2")
    )
    rows = found.collect()
    assert all(number == shard for number, shard, _, _ in rows)
    assert Counter(task for _, _, task, _ in rows) == dict.fromkeys(range(4), 8)
    hashed = spark_hash(np.array(labels(32))).tolist()
    assert {number: hashed[number] for number, *_ in rows} == {row[0]: row[3] for row in rows}
