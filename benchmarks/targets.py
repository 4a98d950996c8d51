"""What we set out to reach, and whether this run reached it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.plan import count

if TYPE_CHECKING:
    from benchmarks.plan import Size
    from benchmarks.results import Results


@dataclass(frozen=True)
class Target:
    """A goal and the figure of this run; None if something needed was skipped."""

    claim: str
    goal: float
    unit: str
    measured: float | None
    at_least: bool = True

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        reached = self.measured >= self.goal if self.at_least else self.measured <= self.goal
        return "reached" if reached else "missed"

    @property
    def goal_text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.goal:g}{self.unit}"


def targets(results: Results, size: Size) -> list[Target]:
    """Every target of the workloads that ran; ratios are how many times better sojourn is."""
    return [
        target
        for workload, part in _PARTS.items()
        if results.of(workload)
        for target in part(results, size)
    ]


def _request_timeouts(results: Results, size: Size) -> list[Target]:
    n = count(size.timers)

    def faster(ours: str, theirs: str, name: str = "total_ms") -> float | None:
        mine = results.number("request-timeouts", n, ours, name)
        other = results.number("request-timeouts", n, theirs, name)
        return other / mine if mine and other else None

    found = [
        Target(f"{n} request timeouts, Timer vs asyncio", 8, "×", faster("timer", "asyncio")),
    ]
    for theirs, label in _KAFKAS:
        found += [
            Target(f"{n} request timeouts, Timer vs {label}", 1.3, "×", faster("timer", theirs)),
            Target(f"add, Timer vs {label}", 1.5, "×", faster("timer", theirs, "add_ns")),
            Target(
                f"{n} request timeouts, DeadlineWheel vs {label}",
                10, "×", faster("deadline-wheel", theirs),
            ),
        ]  # fmt: skip
    found.append(
        Target(
            "add on the system clock, Timer vs Kafka",
            1.5, "×", faster("timer-system", "kafka-system", "add_ns"),
        )
    )  # fmt: skip
    return found


def _purgatory(results: Results, _size: Size) -> list[Target]:
    def faster(scenario: str, ours: str, theirs: str) -> float | None:
        mine = results.number("purgatory", scenario, ours, "ops_per_s")
        other = results.number("purgatory", scenario, theirs, "ops_per_s")
        return mine / other if mine and other else None

    tried = [
        Target(f"{scenario}, vs {label}", 0.8, "×", faster(scenario, "purgatory", theirs))
        for scenario in ("force 10k/s", "force 100k/s", "signal 10k/s", "signal 100k/s")
        for theirs, label in _KAFKAS
    ]
    progress = [
        Target(f"{scenario}, progress vs Kafka", 1.2, "×", faster(scenario, "progress", "kafka"))
        for scenario in ("shared 10k/s", "shared 100k/s", "signal 10k/s", "signal 100k/s")
    ]
    return tried + progress


def _one_key(results: Results, size: Size) -> list[Target]:
    def signal_us(contender: str, n: int) -> float | None:
        return results.number("one-key", f"{count(n)} not ready", contender, "signal_us")

    found = [
        Target(
            f"one signal, {count(n)} not ready", 3, " µs", signal_us("progress", n), at_least=False
        )
        for n in size.waiters
    ]
    most = size.waiters[-1]
    for theirs, label in (("purgatory", "check_and_complete"), ("kafka", "Kafka")):
        mine, other = signal_us("progress", most), signal_us(theirs, most)
        ratio = other / mine if mine and other else None
        found.append(Target(f"one signal, {count(most)} not ready, vs {label}", 1_000, "×", ratio))
    for order in ("in order", "shuffled"):
        scenario = f"{count(size.waiters_one_by_one)} one by one, {order}"
        rate = results.number("one-key", scenario, "progress", "completions_per_s")
        found.append(Target(f"{scenario}, thousand/s", 500, "k", rate and rate / 1e3))
    return found


def _async_waits(results: Results, size: Size) -> list[Target]:
    scenario = f"{count(size.async_waits)} waits"

    def number(contender: str, name: str) -> float | None:
        return results.number("async-waits", scenario, contender, name)

    found = []
    theirs = number("asyncio-timeout", "peak_mb")
    for contender, label in (("aio-progress", "progress"), ("aio-purgatory", "predicate")):
        mine = number(contender, "peak_mb")
        share = mine / theirs if mine and theirs else None
        each_us = number(contender, "each_us")
        found += [
            Target(f"{scenario}, {label}", 15, " µs each", each_us, at_least=False),
            Target(f"{scenario}, {label}, memory vs timeout + dict", 1, "×", share, at_least=False),
        ]
    return found


def _memory(results: Results, size: Size) -> list[Target]:
    def bytes_each(of: str, contender: str) -> float | None:
        scenario = f"{count(size.memory_timers)} {of}"
        return results.number("memory", scenario, contender, "bytes_each")

    return [
        Target(f"memory per {what}", goal, " B", bytes_each(of, contender), at_least=False)
        for what, goal, of, contender in (
            ("pending TimerTask", 64, "timers", "timer"),
            ("operation, 3 watch keys", 320, "operations", "purgatory"),
            ("operation, 3 requirements", 320, "operations", "progress"),
        )
    ]


def _lateness(results: Results, _size: Size) -> list[Target]:
    late = results.number("lateness", "10k/s, idle", "timer", "p99_ms")
    return [Target("lateness p99, idle, 10k/s", 0.5, " ms", late, at_least=False)]


def _rows(results: Results, size: Size) -> list[Target]:
    found = []
    for n in size.rows:
        hot, uniform = (
            results.number("rows", f"{count(n)}, {keys}", "spark", "seconds")
            for keys in ("one key has half", "uniform")
        )
        ratio = hot / uniform if hot and uniform else None
        found.append(
            Target(f"{count(n)}: one hot key over uniform", 1.1, "×", ratio, at_least=False)
        )
        for keys in ("uniform", "one key has half"):
            scenario = f"{count(n)}, {keys}"

            def times(ours: str, theirs: str, scenario: str = scenario) -> float | None:
                mine = results.number("rows", scenario, ours, "seconds")
                other = results.number("rows", scenario, theirs, "seconds")
                return other / mine if mine and other else None

            floor = times("spark-floor", "spark")
            found += [
                Target(
                    f"{scenario}: batch vs window SQL",
                    4 if n < 10_000_000 else 6,
                    "×",
                    times("spark", "window-sql"),
                ),
                Target(f"{scenario}: batch vs DuckDB", 1, "×", times("spark", "duckdb")),
                Target(f"{scenario}: batch over Spark's floor", 1.8, "×", floor, at_least=False),
                Target(f"{scenario}: replay vs DuckDB", 1, "×", times("replay", "duckdb")),
            ]
    return found


def _stream(results: Results, size: Size) -> list[Target]:
    n = count(size.streamed)
    ours = results.number("stream", n, "spark-stream", "rows_per_s")
    textbook = results.number("stream", n, "textbook", "rows_per_s")
    ratio = ours / textbook if ours and textbook else None
    return [
        Target(f"{n} streamed, vs state for each key and id", 15, "×", ratio),
        Target(f"{n} streamed, thousand rows/s", 100, "k", ours and ours / 1e3),
    ]


def _steady(results: Results, size: Size) -> list[Target]:
    steady = f"{size.steady_batches} batches"

    def grown(name: str) -> float | None:
        then = results.number("steady", steady, "spark-stream", f"early_{name}")
        late = results.number("steady", steady, "spark-stream", f"late_{name}")
        return late / then if then and late else None

    return [
        Target(f"{steady}, time of a batch, last vs second quarter", 1.1, "×", grown("ms"), False),
        Target(f"{steady}, checkpoint, last vs second quarter", 1.1, "×", grown("mb"), False),
        Target(f"{steady}, workers, last vs second quarter", 1.1, "×", grown("worker_mb"), False),
    ]


def _cluster(results: Results, size: Size) -> list[Target]:
    def ours(name: str) -> float | None:
        return results.number("cluster", f"{count(size.messages)} messages", "cluster", name)

    produced, consumed = ours("produced_per_s"), ours("consumed_per_s")
    return [
        Target("cluster, delivery to who waits", 5, " ms", ours("delivery_p50_ms"), False),
        Target("cluster, thousand produced/s", 500, "k", produced and produced / 1e3),
        Target("cluster, thousand consumed/s", 180, "k", consumed and consumed / 1e3),
    ]


_KAFKAS = (("kafka", "Kafka"), ("kafka-presized", "Kafka, heap pre-sized"))
_PARTS = {
    "request-timeouts": _request_timeouts,
    "purgatory": _purgatory,
    "one-key": _one_key,
    "async-waits": _async_waits,
    "memory": _memory,
    "lateness": _lateness,
    "rows": _rows,
    "stream": _stream,
    "steady": _steady,
    "cluster": _cluster,
}
