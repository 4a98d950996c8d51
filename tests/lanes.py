"""Which tests stay together when several workers run them, and which start first.

A lane is run by one worker, in order. It is a file, unless tests of several files share something
that takes long to start. Nothing here changes what a test does.
"""

from __future__ import annotations

from pathlib import PurePosixPath

# What the ids of the tests in a lane contain.
SHARED = {
    "spark session": (
        "test_spark_batch.py",
        "test_spark_stream.py",
        "test_cli_spark.py",
        "test_history_spark.py",
        "test_reading.py",
        "test_replay_columns.py",
        "test_spark_types.py",
        "test_spark_workers.py",
        "test_spark_direct.py",
        "[spark ",
        " on spark]",
    ),
}

# They take longest, so they start first; then what is left fits around them.
FIRST = (
    "spark session",
    "test_spark_kafka",
    "test_spark_stream_kill",
    "test_spark_cluster",
    "test_collections",
    "test_one_answer",
)


def lane_of(test_id: str) -> str:
    """`tests/test_wheel.py::test_a` is in the lane test_wheel."""
    for lane, parts in SHARED.items():
        if any(part in test_id for part in parts):
            return lane
    return PurePosixPath(test_id.split("::")[0]).stem


def rank(test_id: str) -> int:
    """Smaller ones start earlier; those of one rank stay in their order."""
    lane = lane_of(test_id)
    return FIRST.index(lane) if lane in FIRST else len(FIRST)
