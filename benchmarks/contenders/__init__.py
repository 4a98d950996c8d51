"""Who takes part, by the name the command line and `results.json` use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.contenders.contender import Contender

LABELS = {
    "timer": "sojourn Timer",
    "timer-system": "sojourn Timer, system clock",
    "wheel": "sojourn TimingWheel",
    "deadline-wheel": "sojourn DeadlineWheel",
    "purgatory": "sojourn Purgatory",
    "progress": "sojourn Purgatory, progress",
    "progress-plain": "sojourn Purgatory, progress, no __init__",
    "progress-bulk": "sojourn Purgatory, progress, bulk",
    "aio-purgatory": "sojourn aio.Purgatory, predicate",
    "aio-progress": "sojourn aio.Purgatory, progress",
    "aio-timer": "sojourn aio.Timer + dict of futures",
    "asyncio-timeout": "asyncio.timeout + dict of futures",
    "bare-futures": "dict of futures, no timeout",
    "asyncio": "asyncio",
    "uvloop": "uvloop",
    "heapq": "heapq, lazy deletion",
    "apscheduler": "APScheduler",
    "sleep": "a bare sleeping thread",
    "replay": "sojourn.replay",
    "spark": "sojourn.spark, batch",
    "spark-direct": "sojourn.spark, files to files",
    "spark-shuffle": "sojourn.spark, batch, shuffled",
    "spark-floor": "Spark's floor",
    "spark-stream": "sojourn.spark, stream",
    "cluster": "sojourn.kafka",
    "mock": "librdkafka's mock cluster",
    "textbook": "state for each key and id",
    "window-sql": "window SQL on Spark",
    "duckdb": "DuckDB, ASOF join",
    "polars": "polars, join_asof",
    "kafka": "Kafka (JVM)",
    "kafka-presized": "Kafka (JVM), heap pre-sized",
    "kafka-system": "Kafka (JVM), system clock",
}

_CLASSES = {
    "timer": "sojourn_timers:ManualTimer",
    "timer-system": "sojourn_timers:SystemTimer",
    "wheel": "sojourn_timers:Wheel",
    "deadline-wheel": "deadlines:Deadlines",
    "asyncio": "loops:Asyncio",
    "uvloop": "loops:Uvloop",
    "heapq": "heap:Heap",
    "apscheduler": "scheduler:Scheduler",
}


def create(name: str) -> Contender:
    """Build the contender; ImportError if what it needs is not installed."""
    module, _, class_name = _CLASSES[name].partition(":")
    contender: Contender = getattr(import_module(f"{__name__}.{module}"), class_name)()
    return contender
