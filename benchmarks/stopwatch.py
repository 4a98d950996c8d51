"""Wall time, and beside it processor time, which a busy machine spoils less."""

from __future__ import annotations

from time import perf_counter_ns, process_time_ns


class Stopwatch:
    """Adds up the stretches spent inside `with`; processor time is that of all our threads."""

    def __init__(self) -> None:
        self.wall_ns = 0
        self.cpu_ns = 0
        self._wall_started = 0
        self._cpu_started = 0

    def __enter__(self) -> Stopwatch:
        self._cpu_started = process_time_ns()
        self._wall_started = perf_counter_ns()
        return self

    def __iadd__(self, other: Stopwatch) -> Stopwatch:
        self.wall_ns += other.wall_ns
        self.cpu_ns += other.cpu_ns
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_ns += perf_counter_ns() - self._wall_started
        self.cpu_ns += process_time_ns() - self._cpu_started
