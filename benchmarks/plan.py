"""Which cases a run consists of, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.case import Case, Params
from benchmarks.inputs import FORCE_KEY_SPACE, SIGNAL_KEY_SPACE

if TYPE_CHECKING:
    from benchmarks.inputs import Inputs

WORKLOADS = (
    "request-timeouts", "purgatory", "one-key", "async-waits", "growth", "memory", "lateness",
    "rows", "stream", "stream-latency", "steady", "cluster",
)  # fmt: skip
#: Those that ask for nothing but the core: what a comparison runs unless told otherwise.
OF_THE_CORE = ("request-timeouts", "purgatory", "one-key", "async-waits", "growth", "memory")

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
    waiters: tuple[int, ...]
    waiters_one_by_one: int
    waiters_tried_one_by_one: int
    signal_ms: int
    async_waits: int
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
    live_s: int
    steady_batches: int
    messages: int


FULL = Size(
    timers=1_000_000,
    apscheduler_timers=5_000,
    operations=200_000,
    paced_s=3,
    waiters=(1_000, 10_000, 100_000),
    waiters_one_by_one=1_000_000,
    waiters_tried_one_by_one=10_000,
    signal_ms=1_000,
    async_waits=200_000,
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
    live_s=120,
    steady_batches=200,
    messages=100_000,
)
QUICK = Size(
    timers=100_000,
    apscheduler_timers=1_000,
    operations=50_000,
    paced_s=1,
    waiters=(1_000, 10_000),
    waiters_one_by_one=100_000,
    waiters_tried_one_by_one=2_000,
    signal_ms=200,
    async_waits=20_000,
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
    live_s=45,
    steady_batches=40,
    messages=20_000,
)


def repeats_of(workload: str) -> int:
    """How often each case of a workload runs unless told otherwise: three at least."""
    return 5 if workload in ("request-timeouts", "cluster") else 3


def cases(
    workload: str, size: Size, inputs: Inputs, repeats: int, scenario: str = ""
) -> list[Case]:
    """The cases of a workload; running them in this order alternates the contenders.

    With `scenario` only those whose scenario has it in its name.
    """
    if workload == "rows":  # whose inputs take long to make
        return rows(size, inputs, repeats, scenario)
    found = _cases(workload, size, inputs, repeats)
    return [case for case in found if scenario in case.scenario]


def _cases(workload: str, size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    if workload == "request-timeouts":
        return request_timeouts(size, inputs, repeats)
    if workload == "purgatory":
        return purgatory(size, inputs, repeats) + paced_purgatory(size, inputs, repeats)
    if workload == "one-key":
        return one_key(size, inputs, repeats)
    if workload == "async-waits":
        return async_waits(size, repeats)
    if workload == "growth":
        return growth(size, inputs, repeats)
    if workload == "memory":
        return memory(size, inputs, repeats)
    if workload == "stream":
        return stream(size, inputs, repeats)
    if workload == "cluster":
        records: Params = {"messages": size.messages}
        scenario = f"{count(size.messages)} messages"
        return [Case(workload, scenario, name, records, repeats) for name in ("cluster", "mock")]
    if workload == "stream-latency":
        live: Params = {"rows_per_s": 2_000, "seconds": size.live_s, "warmup_s": size.live_s // 3}
        return [Case(workload, "2,000 rows/s", "spark-stream", live, repeats)]
    if workload == "steady":
        params: Params = {"batches": size.steady_batches, "operations": 2_000}
        batches = f"{size.steady_batches} batches"
        return [Case(workload, batches, "spark-stream", params, repeats)]
    return lateness(size, repeats)


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
        for variant, ours in (
            ("force", ["purgatory"]),
            ("signal", ["purgatory", "progress", "progress-plain"]),
            ("shared", ["purgatory", "progress", "progress-plain"]),
        )
        for rate in (10_000, 100_000)
        for contender in (*ours, "kafka", "kafka-presized")
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


def one_key(size: Size, inputs: Inputs, repeats: int) -> list[Case]:
    def waiting(n: int, order: str, *contenders: str) -> list[Case]:
        shuffled = order != "in order"
        params: Params = {
            "offsets": str(inputs.shuffled(n, n) if shuffled else inputs.counted(n)),
            "ready": order != "not ready",
            "signal_ms": size.signal_ms,
            "warmups": 2,
            "rounds": 3,
        }
        scenario = (
            f"{count(n)} {order}" if order == "not ready" else f"{count(n)} one by one, {order}"
        )
        return [Case("one-key", scenario, name, params, repeats) for name in contenders]

    planned = []
    for n in size.waiters:
        planned += waiting(n, "not ready", "progress", "purgatory", "kafka")
    for order in ("in order", "shuffled"):
        few, many = size.waiters_tried_one_by_one, size.waiters_one_by_one
        planned += waiting(few, order, "progress", "purgatory", "kafka")
        planned += waiting(many, order, "progress", "progress-bulk")
    return planned


def async_waits(size: Size, repeats: int) -> list[Case]:
    contenders = (
        "aio-purgatory", "aio-progress", "asyncio-timeout", "aio-timer", "bare-futures",
    )  # fmt: skip
    waits = count(size.async_waits)
    return [
        Case("async-waits", scenario, name, {"waits": size.async_waits, "collect": on}, repeats)
        for scenario, on in ((f"{waits} waits", True), (f"{waits} waits, gc off", False))
        for name in contenders
    ]


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
        *(
            holding("operations", size.memory_timers, contender)
            for contender in ("purgatory", "progress", "kafka")
        ),
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
    everybody = [
        "replay", "spark", "spark-direct", "spark-shuffle", "spark-floor", "window-sql", "duckdb",
        "polars",
    ]  # fmt: skip
    ours = ["replay", "spark", "spark-direct", "spark-shuffle", "spark-floor"]
    shapes = [
        (n, keys, hot_share, everybody)
        for n in size.rows
        for keys, hot_share in (("uniform", 0.0), ("one key has half", 0.5))
    ]
    shapes += [(n, "uniform", 0.0, ours) for n in size.rows_alone]
    found = []
    for n, keys, hot_share, contenders in shapes:
        scenario = f"{count(n)}, {keys}"
        if wanted in scenario:
            params: Params = {"operations": n, "trace": str(inputs.trace(n, hot_share))}
            found += [Case("rows", scenario, name, params, repeats) for name in contenders]
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
