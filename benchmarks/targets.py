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
    """Every target; ratios are how many times faster sojourn is."""
    n = count(size.timers)

    def faster(ours: str, theirs: str, name: str = "total_ms") -> float | None:
        mine = results.number("request-timeouts", n, ours, name)
        other = results.number("request-timeouts", n, theirs, name)
        return other / mine if mine and other else None

    def purgatory(scenario: str, theirs: str) -> float | None:
        mine = results.number("purgatory", scenario, "purgatory", "ops_per_s")
        other = results.number("purgatory", scenario, theirs, "ops_per_s")
        return mine / other if mine and other else None

    found = [
        Target(f"{n} request timeouts, Timer vs asyncio", 8, "×", faster("timer", "asyncio")),
    ]
    for theirs, label in (("kafka", "Kafka"), ("kafka-presized", "Kafka, heap pre-sized")):
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
    for scenario in ("force 10k/s", "force 100k/s", "signal 10k/s", "signal 100k/s"):
        for theirs, label in (("kafka", "Kafka"), ("kafka-presized", "Kafka, heap pre-sized")):
            ratio = purgatory(scenario, theirs)
            found.append(Target(f"purgatory, {scenario}, vs {label}", 0.8, "×", ratio))
    found += _rows(results, size) + _stream(results, size) + _cluster(results, size)
    memory = results.number("memory", f"{count(size.memory_timers)} timers", "timer", "bytes_each")
    late = results.number("lateness", "10k/s, idle", "timer", "p99_ms")
    found += [
        Target("memory per pending TimerTask", 64, " B", memory, at_least=False),
        Target("lateness p99, idle, 10k/s", 0.5, " ms", late, at_least=False),
    ]
    return found


def _rows(results: Results, size: Size) -> list[Target]:
    found = []
    for n in size.rows:
        for keys in ("uniform", "one key has half"):
            scenario = f"{count(n)}, {keys}"

            def times(ours: str, theirs: str, scenario: str = scenario) -> float | None:
                mine = results.number("rows", scenario, ours, "seconds")
                other = results.number("rows", scenario, theirs, "seconds")
                return other / mine if mine and other else None

            found += [
                Target(f"{scenario}: batch vs window SQL", 2, "×", times("spark", "window-sql")),
                Target(f"{scenario}: batch vs DuckDB", 0.5, "×", times("spark", "duckdb")),
                Target(f"{scenario}: replay vs DuckDB", 1, "×", times("replay", "duckdb")),
            ]
    return found


def _stream(results: Results, size: Size) -> list[Target]:
    n = count(size.streamed)
    ours = results.number("stream", n, "spark-stream", "rows_per_s")
    textbook = results.number("stream", n, "textbook", "rows_per_s")
    ratio = ours / textbook if ours and textbook else None
    steady = f"{size.steady_batches} batches"

    def grown(name: str) -> float | None:
        then = results.number("steady", steady, "spark-stream", f"early_{name}")
        late = results.number("steady", steady, "spark-stream", f"late_{name}")
        return late / then if then and late else None

    return [
        Target(f"{steady}, time of a batch, last vs second quarter", 1.1, "×", grown("ms"), False),
        Target(f"{steady}, checkpoint, last vs second quarter", 1.1, "×", grown("mb"), False),
        Target(f"{n} streamed, vs state for each key and id", 15, "×", ratio),
        Target(f"{n} streamed, thousand rows/s", 100, "k", ours and ours / 1e3),
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
