"""What each workload is called, and the figures it gives, in the order they are shown."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """A number in a workload's rows.

    `better` is empty for what a comparison does not judge: counts, what is all noise, and what
    another figure says already. `cpu` names the number with the processor time of the same.
    """

    title: str
    name: str
    digits: int
    better: Literal["less", "more", ""] = "less"
    cpu: str = ""

    def spell(self, value: float) -> str:
        return f"{value:,.{self.digits}f}"


TITLES = {
    "request-timeouts": "Request timeouts: add all, cancel 90 % at random, expire the rest",
    "purgatory": "Purgatory: 3 keys, completion log-normal (p50 20 ms, p75 60 ms), timeout 30 s",
    "one-key": "One key that many operations wait on, each for an offset of its own",
    "async-waits": "Coroutines that wait: make the tasks, let them rest, complete each, gather",
    "growth": "Growth: add and cancel with many already pending",
    "memory": "Memory per pending timer or operation",
    "rows": "Operations as data: 2 requirements each, as many signals; the second round",
    "stream": "A stream of operations and as many signals; rows of both",
    "stream-latency": "A live stream with a batch a second: from when an outcome is certain until "
    "it can be read",
    "steady": "A stream with steady live state: second quarter of the batches, and the last",
    "cluster": "A Kafka cluster in the process: a waiting consumer; 100-byte messages, acks=all",
    "lateness": "Lateness: ran − deadline rounded up to its tick (ms)",
}
FIGURES = {
    "request-timeouts": [
        Figure("add ns", "add_ns", 0, cpu="add_cpu_ns"),
        Figure("cancel ns", "cancel_ns", 0, cpu="cancel_cpu_ns"),
        Figure("expire ns", "expire_ns", 0, cpu="expire_cpu_ns"),
        Figure("total ms", "total_ms", 0, cpu="cpu_ms"),
        Figure("CPU ms", "cpu_ms", 0),
    ],
    "purgatory": [
        Figure("ops/s", "ops_per_s", 0, "more", cpu="cpu_us_per_op"),
        Figure("CPU µs/op", "cpu_us_per_op", 2),
        Figure("behind ms", "behind_ms", 1, ""),
    ],
    "one-key": [
        Figure("submit µs", "submit_us", 2, cpu="submit_cpu_us"),
        Figure("signal µs", "signal_us", 2, cpu="signal_cpu_us"),
        Figure("its CPU µs", "signal_cpu_us", 2),
        Figure("completions/s", "completions_per_s", 0, ""),
    ],
    "async-waits": [
        Figure("µs each", "each_us", 1, cpu="cpu_us"),
        Figure("CPU µs", "cpu_us", 1),
        Figure("until it rests µs", "park_us", 1, cpu="park_cpu_us"),
        Figure("peak MB", "peak_mb", 0, ""),
        Figure("bytes each", "bytes_each", 0),
    ],
    "growth": [
        Figure("add ns", "add_ns", 0, cpu="add_cpu_ns"),
        Figure("cancel ns", "cancel_ns", 0, cpu="cancel_cpu_ns"),
        Figure("CPU ns of both", "cpu_ns", 0, ""),
    ],
    "memory": [Figure("bytes each", "bytes_each", 0), Figure("total MB", "total_mb", 0, "")],
    "rows": [
        Figure("s", "seconds", 2, cpu="cpu_s"),
        Figure("CPU s", "cpu_s", 2),
        Figure("operations/s", "rows_per_s", 0, "more", cpu="cpu_s"),
        Figure("peak MB", "peak_mb", 0),
    ],
    "stream": [
        Figure("rows/s", "rows_per_s", 0, "more", cpu="cpu_s"),
        Figure("CPU s", "cpu_s", 1),
        Figure("rows", "rows", 0, ""),
        Figure("batches", "batches", 0, ""),
        Figure("s", "seconds", 1, ""),
        Figure("peak MB", "peak_mb", 0),
    ],
    "stream-latency": [
        Figure("p50 ms", "p50_ms", 0),
        Figure("p99 ms", "p99_ms", 0),
        Figure("ms a batch", "batch_ms", 0),
        Figure("outcomes", "outcomes", 0, ""),
    ],
    "steady": [
        Figure("ms a batch, then", "early_ms", 0),
        Figure("at last", "late_ms", 0),
        Figure("CPU ms, then", "early_cpu_ms", 0),
        Figure("at last", "late_cpu_ms", 0),
        Figure("checkpoint MB, then", "early_mb", 2),
        Figure("at last", "late_mb", 2),
        Figure("list of files MB, then", "early_log_mb", 2),
        Figure("at last", "late_log_mb", 2),
        Figure("workers MB, then", "early_worker_mb", 0),
        Figure("at last", "late_worker_mb", 0),
        Figure("keys, then", "early_keys", 0, ""),
        Figure("at last", "late_keys", 0, ""),
    ],
    "cluster": [
        Figure("delivery p50 ms", "delivery_p50_ms", 2),
        Figure("max ms", "delivery_max_ms", 1, ""),
        Figure("produced/s", "produced_per_s", 0, "more", cpu="produce_cpu_us"),
        Figure("consumed/s", "consumed_per_s", 0, "more", cpu="consume_cpu_us"),
    ],
    "lateness": [
        Figure("p50", "p50_ms", 3),
        Figure("p99", "p99_ms", 3),
        Figure("max", "max_ms", 3, ""),
        Figure("exact p50", "exact_p50_ms", 3),
        Figure("exact p99", "exact_p99_ms", 3),
    ],
}
