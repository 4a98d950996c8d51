"""Which tests stay together when several workers run them, and which start first.

A lane is run by one worker, in order. It is a file, unless tests of several files share something
that takes long to start. Nothing here changes what a test does.
"""

from __future__ import annotations

from pathlib import PurePosixPath

# What the ids of the tests in a lane contain; the first lane that fits. Spark has two sessions, a
# lane each: with one, everything else would have ended long before.
SHARED = {
    "spark streams": (
        "spark/test_stream.py",
        "spark/test_stream_fork.py",
        "[spark streaming]",
        "history/test_spark.py",
    ),
    "spark session": (
        "spark/test_batch.py",
        "cli/test_spark.py",
        "test_reading.py",
        "replay/test_columns.py",
        "spark/test_types.py",
        "spark/test_workers.py",
        "spark/test_direct.py",
        "[spark ",
        " on spark]",
    ),
}

# They take longest, so they start first; then what is left fits around them.
FIRST = (
    "spark streams",
    "spark session",
    "spark/test_kafka",
    "spark/test_stream_kill",
    "spark/test_spark_cluster",
    "core/test_collections",
    "core/test_sweep",
    "service/test_dashboard_page",
    "test_one_answer",
    "core/test_races",
    "core/test_random_programs",
    "core/test_wheel",
    "core/test_progress_races",
)


def lane_of(test_id: str) -> str:
    """`tests/core/test_wheel.py::test_a` is in the lane core/test_wheel."""
    for lane, parts in SHARED.items():
        if any(part in test_id for part in parts):
            return lane
    path = PurePosixPath(test_id.split("::")[0]).with_suffix("")
    return path.as_posix().removeprefix("tests/")


def rank(test_id: str) -> int:
    """Smaller ones start earlier; those of one rank stay in their order."""
    lane = lane_of(test_id)
    return FIRST.index(lane) if lane in FIRST else len(FIRST)
