"""Under which conditions each side of a table ran: its clock, who runs expiries, what differs."""

from __future__ import annotations

from benchmarks.contenders import LABELS

_INLINE = "hand-moved clock; expiries run inline, in the thread that moves it"
_KAFKA_TIMER = "hand-moved clock; expiries run on Kafka's executor thread and are waited for"
_REAPER = "system clock, its own reaper thread"

#: What holds for a whole workload.
_OF_ALL = {
    "request-timeouts": "One thread adds, cancels and moves the clock; the second round counts.",
    "purgatory": "One thread plays the same schedule for all; system clock, each with its own "
    "reaper thread; nothing expires. “paced” is in real time, the others as fast as they can.",
    "one-key": "One thread submits and signals; system clock, each with its own reaper thread; "
    "timeout 10 min, nothing expires. Kafka and check_and_complete try every operation at every "
    "signal: one by one they are measured with fewer.",
    "async-waits": "asyncio's own loop, system clock; a process for each, which starts on fresh "
    "memory; timeout 30 s, nothing expires. Memory: growth of the peak of resident memory.",
    "growth": "One thread; batches of 10k are added and cancelled on top of the pending ones.",
    "memory": "Python: growth of resident memory. Nothing expires.",
    "rows": "From Parquet files; after one round to warm up.",
    "stream": "Spark on local[2]; after queries to warm up.",
    "stream-latency": "Spark on local[2], a batch a second, delay 1 s; another process writes a "
    "file of each table every 200 ms; the first third is to warm up.",
    "steady": "Spark on local[2].",
    "cluster": "librdkafka is the client of both, in one process with the cluster; system clock.",
    "lateness": "System clock; all timers are added ahead.",
}
_OF_CONTENDER = {
    "request-timeouts": {
        "timer": _INLINE,
        "wheel": "told the time; no clock, no lock; the caller runs what is due",
        "deadline-wheel": "told the time; one call a batch, no callbacks",
        "timer-system": f"{_REAPER}; add and cancel only",
        "asyncio": f"{_INLINE}; sweeps its dead in expire",
        "uvloop": "system clock; expiry on a second loop with delays ÷ 1000, run inline",
        "heapq": f"{_INLINE}; sweeps its dead in expire",
        "apscheduler": "system clock, put 30 s ahead to expire; one worker thread; small n only",
        "kafka": f"{_KAFKA_TIMER}; the heap grows as the JVM likes",
        "kafka-presized": f"{_KAFKA_TIMER}; -Xms = -Xmx",
        "kafka-system": f"{_REAPER}; add and cancel only",
    },
    "purgatory": {
        "purgatory": "watch keys; try_complete and on_complete in Python",
        "progress": "an offset on any one of its 3 keys; __init__ and on_complete in Python",
        "progress-plain": "the same, with a class that has no __init__ of its own",
        "kafka": "purge interval 1000; the heap grows as the JVM likes",
        "kafka-presized": "purge interval 1000; -Xms = -Xmx",
    },
    "one-key": {
        "progress": "progress conditions; on_complete in Python",
        "progress-bulk": "one submit_many, one signal_many; on_complete in Python",
        "purgatory": "check_and_complete; try_complete in Python compares two numbers",
        "kafka": "checkAndComplete; tryComplete compares two numbers; the heap grows as it likes",
    },
    "async-waits": {
        "aio-purgatory": "a predicate in Python, one check_and_complete for each",
        "aio-progress": "one signal for each",
        "asyncio-timeout": "one set_result for each; cancelled timeouts stay until swept",
        "aio-timer": "one set_result for each",
        "bare-futures": "one set_result for each; what the tasks themselves cost",
    },
    "growth": {
        "timer": "hand-moved clock",
        "deadline-wheel": "told the time; one call a batch",
        "asyncio": "hand-moved clock; sweeps its dead in cancel",
        "uvloop": "system clock",
        "heapq": "hand-moved clock; sweeps its dead in cancel",
        "kafka": "hand-moved clock",
    },
    "memory": {
        "timer": "hand-moved clock",
        "deadline-wheel": "told the time",
        "asyncio": "hand-moved clock",
        "uvloop": "system clock",
        "heapq": "hand-moved clock",
        "purgatory": f"3 watch keys each; {_REAPER}",
        "progress": f"an offset on each of 3 keys; {_REAPER}",
        "kafka": "heap in use after full collections; operations with 3 keys each; "
        "hand-moved clock",
    },
    "rows": {
        "replay": "one process; checks rows and ids",
        "spark": "local[2]; checks rows and ids",
        "spark-direct": "local[2]; workers read and write the files; outcomes are written",
        "spark-shuffle": "local[2]; the same with no broadcast",
        "spark-floor": "local[2]; both inputs to Python, as many outcomes back, nothing else",
        "window-sql": "local[2]",
        "duckdb": "one process",
        "polars": "one process",
    },
    "stream": {
        "spark-stream": "checks rows and ids, tells of late ones",
        "textbook": "the first batches, until its time is up",
    },
    "cluster": {"cluster": "three replicas", "mock": "no replicas"},
    "lateness": {
        "timer": "tasks run on its executor thread",
        "asyncio": "the loop has a thread of its own; timers run inline",
        "kafka": "tasks run on Kafka's executor thread; rounds down, so it may be early",
        "sleep": "the machine's own share",
    },
}


def of(workload: str, contenders: list[str]) -> list[str]:
    """Sentences: one about all, then one about each contender that has its own."""
    own = _OF_CONTENDER.get(workload, {})
    named = [f"{LABELS[name]}: {own[name]}." for name in contenders if name in own]
    return [_OF_ALL[workload], *named]


def of_contender(workload: str, contender: str) -> str:
    return _OF_CONTENDER.get(workload, {}).get(contender, "")
