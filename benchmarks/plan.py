"""Which cases a run consists of, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.case import Case, Params
from benchmarks.inputs import FORCE_KEY_SPACE, SIGNAL_KEY_SPACE

if TYPE_CHECKING:
    from benchmarks.inputs import Inputs

WORKLOADS = (
    "request-timeouts", "purgatory", "growth", "memory", "lateness",
    "rows", "stream", "steady", "cluster",
)  # fmt: skip

_GROWTH_BATCH = 10_000
_LEAD_MS = 1_000
_LEAD_MS_PER_TIMER = 0.01  # all are added ahead; the slowest takes 5 µs for each


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    timers: int
    apscheduler_timers: int
    operations: int
    paced_s: int
    pending: tuple[int, ...]
    pending_for_rivals: int
    memory_timers: int
    memory_deadlines: int
    lateness_ms: int
    jvm_warmups: int
    jvm_rounds: int
    rows: tuple[int, ...]
    rows_alone: tuple[int, ...]
    streamed: int
    textbook_s: int
    steady_batches: int
    messages: int


FULL = Size(
    timers=1_000_000,
    apscheduler_timers=5_000,
    operations=200_000,
    paced_s=3,
    pending=(10_000, 100_000, 1_000_000, 10_000_000),
    pending_for_rivals=1_000_000,
    memory_timers=1_000_000,
    memory_deadlines=10_000_000,
    lateness_ms=2_000,
    jvm_warmups=5,
    jvm_rounds=3,
    rows=(2_000_000, 10_000_000),
    rows_alone=(1_000_000,),
    streamed=1_000_000,
    textbook_s=150,
    steady_batches=200,
    messages=100_000,
)
QUICK = Size(
    timers=100_000,
    apscheduler_timers=1_000,
    operations=50_000,
    paced_s=1,
    pending=(10_000, 100_000),
    pending_for_rivals=100_000,
    memory_timers=100_000,
    memory_deadlines=1_000_000,
    lateness_ms=500,
    jvm_warmups=25,  # small rounds warm the JVM less
    jvm_rounds=3,
    rows=(200_000,),
    rows_alone=(),
    streamed=100_000,
    textbook_s=40,
    steady_batches=40,
    messages=20_000,
)


def cases(
    workload: str, size: Size, inputs: Inputs, repeats: int, scenario: str = ""
) -> list[Case]:
    """The cases of a workload; running them in this order alternates the contenders.

    With `scenario` only those whose scenario has it in its name.
    """
    if workload == "rows":  # whose inputs take long to make
        return rows(size, inputs, min(repeats, 3), scenario)
    found = _cases(workload, size, inputs, repeats)
    return [case for case in found if scenario in case.scenario]


def _cases(workload: str, size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    if workload == "request-timeouts":
        return request_timeouts(size, inputs, repeats)
    if workload == "purgatory":
        played = purgatory(size, inputs, min(repeats, 3))
        return played + paced_purgatory(size, inputs, min(repeats, 2))
    if workload == "growth":
        return growth(size, inputs, min(repeats, 2))
    if workload == "memory":
        return memory(size, inputs, 1)
    if workload == "stream":
        return stream(size, inputs, min(repeats, 3))
    if workload == "cluster":
        records: Params = {"messages": size.messages}
        scenario = f"{count(size.messages)} messages"
        return [Case(workload, scenario, name, records, repeats) for name in ("cluster", "mock")]
    if workload == "steady":
        params: Params = {"batches": size.steady_batches, "operations": 2_000}
        return [Case("steady", f"{size.steady_batches} batches", "spark-stream", params, 1)]
    return lateness(size, min(repeats, 3))


def request_timeouts(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    contenders = (
        "timer", "wheel", "deadline-wheel", "timer-system", "asyncio", "uvloop", "heapq",
        "kafka", "kafka-presized", "kafka-system", "apscheduler",
    )  # fmt: skip
    found = []
    for contender in contenders:
        n = size.apscheduler_timers if contender == "apscheduler" else size.timers
        params: Params = {
            "delays": str(inputs.delays(n)),
            "cancel_order": str(inputs.shuffled(n, n * 9 // 10)),
            "system_clock": contender == "kafka-system",
            "warmups": size.jvm_warmups,
            "rounds": size.jvm_rounds,
        }
        found.append(Case("request-timeouts", count(n), contender, params, repeats))
    return found


def purgatory(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    return [
        _played(size, inputs, variant, rate, contender, repeats)
        for variant in ("force", "signal")
        for rate in (10_000, 100_000)
        for contender in ("purgatory", "kafka", "kafka-presized")
    ]


def paced_purgatory(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    return [
        _played(size, inputs, "force", rate, contender, repeats, paced_s=size.paced_s)
        for rate in (10_000, 100_000)
        for contender in ("purgatory", "kafka")
    ]


def _played(
    size: Size,
    inputs: Inputs,
    variant: str,
    rate: int,
    contender: str,
    repeats: int,
    paced_s: int = 0,
) -> Case:
    operations = rate * paced_s if paced_s else size.operations
    schedule = inputs.schedule(rate, operations)
    params: Params = {
        "variant": variant,
        "events": str(schedule.events),
        "at_us": str(schedule.at_us),
        "keys": str(inputs.keys(variant, operations)),
        "key_space": SIGNAL_KEY_SPACE if variant == "signal" else FORCE_KEY_SPACE,
        "paced": bool(paced_s),
        "warmups": size.jvm_warmups,
        "rounds": 1 if paced_s else size.jvm_rounds,
    }
    scenario = f"{'paced' if paced_s else variant} {count(rate)}/s"
    return Case("purgatory", scenario, contender, params, repeats)


def growth(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    found = []
    for pending in size.pending:
        contenders = ["timer", "deadline-wheel", "kafka"]
        if pending <= size.pending_for_rivals:
            contenders += ["asyncio", "uvloop", "heapq"]
        params: Params = {
            "pending": str(inputs.delays(pending)),
            "batch": str(inputs.delays(_GROWTH_BATCH)),
            "cancel_order": str(inputs.shuffled(_GROWTH_BATCH, _GROWTH_BATCH)),
            "warmups": 100,
            "rounds": 20,
        }
        found += [Case("growth", count(pending), name, params, repeats) for name in contenders]
    return found


def memory(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    def holding(of: str, n: int, contender: str) -> Case:
        params: Params = {"of": of, "delays": str(inputs.delays(n))}
        return Case("memory", f"{count(n)} {of}", contender, params, repeats)

    timers = ("timer", "deadline-wheel", "asyncio", "uvloop", "heapq", "kafka")
    return [
        *(holding("timers", size.memory_timers, contender) for contender in timers),
        holding("timers", size.memory_deadlines, "deadline-wheel"),
        holding("operations", size.memory_timers, "purgatory"),
        holding("operations", size.memory_timers, "kafka"),
    ]


def lateness(size: Size, repeats: int) -> list[Case]:
    mains = {"idle": (False, 0), "busy": (True, 0), "busy, switching at 0.5 ms": (True, 500)}
    found = []
    for rate in (20, 10_000, 100_000):
        timers = rate * size.lateness_ms // 1_000
        for main, (busy, switch_interval_us) in mains.items():
            params: Params = {
                "rate": rate,
                "duration_ms": size.lateness_ms,
                "lead_ms": int(_LEAD_MS + timers * _LEAD_MS_PER_TIMER),
                "busy": busy,
                "switch_interval_us": switch_interval_us,
            }
            contenders = ["timer", "asyncio"]
            if main == "idle" and rate == 10_000:
                contenders += ["kafka", "sleep"]
            scenario = f"{count(rate)}/s, {main}"
            found += [Case("lateness", scenario, name, params, repeats) for name in contenders]
    return found


def rows(size: Size, inputs: Inputs, repeats: int, wanted: str) -> list[Case]:
    everybody = ["replay", "spark", "window-sql", "duckdb", "polars"]
    ours = ["replay", "spark"]
    shapes = [
        # the large ones take minutes
        (n, keys, hot_share, everybody, repeats if n == size.rows[0] else 1)
        for n in size.rows
        for keys, hot_share in (("uniform", 0.0), ("one key has half", 0.5))
    ]
    shapes += [(n, "uniform", 0.0, ours, 1) for n in size.rows_alone]
    found = []
    for n, keys, hot_share, contenders, again in shapes:
        scenario = f"{count(n)}, {keys}"
        if wanted in scenario:
            params: Params = {"operations": n, "trace": str(inputs.trace(n, hot_share))}
            found += [Case("rows", scenario, name, params, again) for name in contenders]
    return found


def stream(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    trace = inputs.trace(size.streamed, files=20)
    params: dict[str, Params] = {
        "spark-stream": {"files_per_batch": 4, "warmups": 2, "warmup_s": 100, "limit_s": 100},
        "textbook": {
            "files_per_batch": 1,
            "warmups": 1,
            "warmup_s": 20,
            "limit_s": size.textbook_s,
        },
    }
    return [
        Case("stream", count(size.streamed), name, {"trace": str(trace), **how}, repeats)
        for name, how in params.items()
    ]


def count(n: int) -> str:
    """1000000 as people say it: 1M."""
    for unit, suffix in ((1_000_000, "M"), (1_000, "k")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{suffix}"
    return str(n)
