"""The tables a run ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

from benchmarks.contenders import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from benchmarks.case import Outcome
    from benchmarks.results import Results
    from benchmarks.targets import Target


class Column(NamedTuple):
    title: str
    name: str
    digits: int


_TITLES = {
    "request-timeouts": "Request timeouts: add all, cancel 90 % at random, expire the rest",
    "purgatory": "Purgatory: 3 keys, completion log-normal (p50 20 ms, p75 60 ms), timeout 30 s",
    "growth": "Growth: add and cancel with many already pending",
    "memory": "Memory per pending timer or operation",
    "rows": "Operations as data: 2 requirements each, as many signals; the second round",
    "stream": "A stream of operations and as many signals, on local[2]; rows of both",
    "steady": "A stream with steady live state: second quarter of the batches, and the last",
    "cluster": "A Kafka cluster in the process: a waiting consumer; 100-byte messages, acks=all",
    "lateness": "Lateness: ran − deadline rounded up to its tick (ms), system clock",
}
_COLUMNS = {
    "request-timeouts": [
        Column("add ns", "add_ns", 0),
        Column("cancel ns", "cancel_ns", 0),
        Column("expire ns", "expire_ns", 0),
        Column("total ms", "total_ms", 0),
    ],
    "purgatory": [
        Column("ops/s", "ops_per_s", 0),
        Column("CPU µs/op", "cpu_us_per_op", 2),
        Column("behind ms", "behind_ms", 1),
    ],
    "growth": [Column("add ns", "add_ns", 0), Column("cancel ns", "cancel_ns", 0)],
    "memory": [Column("bytes each", "bytes_each", 0), Column("total MB", "total_mb", 0)],
    "rows": [
        Column("s", "seconds", 2),
        Column("operations/s", "rows_per_s", 0),
        Column("peak MB", "peak_mb", 0),
    ],
    "stream": [
        Column("rows/s", "rows_per_s", 0),
        Column("rows", "rows", 0),
        Column("batches", "batches", 0),
        Column("s", "seconds", 1),
        Column("peak MB", "peak_mb", 0),
    ],
    "steady": [
        Column("ms a batch, then", "early_ms", 0),
        Column("at last", "late_ms", 0),
        Column("checkpoint MB, then", "early_mb", 2),
        Column("at last", "late_mb", 2),
    ],
    "cluster": [
        Column("delivery p50 ms", "delivery_p50_ms", 2),
        Column("max ms", "delivery_max_ms", 1),
        Column("produced/s", "produced_per_s", 0),
        Column("consumed/s", "consumed_per_s", 0),
    ],
    "lateness": [
        Column("p50", "p50_ms", 3),
        Column("p99", "p99_ms", 3),
        Column("max", "max_ms", 3),
        Column("exact p50", "exact_p50_ms", 3),
        Column("exact p99", "exact_p99_ms", 3),
    ],
}
_NOTES = {
    ("request-timeouts", "wheel"): "no clock, no lock",
    ("request-timeouts", "deadline-wheel"): "batches, no callbacks",
    ("request-timeouts", "timer-system"): "add and cancel only",
    ("request-timeouts", "asyncio"): "sweeps its dead in expire",
    ("request-timeouts", "uvloop"): "expiry: delays ÷ 1000",
    ("request-timeouts", "heapq"): "sweeps its dead in expire",
    ("request-timeouts", "apscheduler"): "small n only",
    ("request-timeouts", "kafka-presized"): "-Xms = -Xmx",
    ("request-timeouts", "kafka-system"): "add and cancel only",
    ("growth", "asyncio"): "sweeps its dead in cancel",
    ("growth", "heapq"): "sweeps its dead in cancel",
    ("memory", "kafka"): "heap after full collections",
    ("rows", "replay"): "one process; checks rows and ids",
    ("rows", "spark"): "local[2]; checks rows and ids",
    ("rows", "window-sql"): "local[2]",
    ("rows", "duckdb"): "one process",
    ("rows", "polars"): "one process",
    ("stream", "spark-stream"): "checks rows and ids, tells of late ones",
    ("stream", "textbook"): "the first batches, until its time is up",
    ("cluster", "cluster"): "three replicas",
    ("cluster", "mock"): "no replicas",
    ("lateness", "kafka"): "rounds down: may be early",
    ("lateness", "sleep"): "the machine's own share",
}


def show(console: Console, results: Results, targets: list[Target]) -> None:
    for workload in _TITLES:
        if outcomes := results.of(workload):
            console.print(_workload_table(workload, outcomes))
    console.print(_targets_table(targets, results.quick))
    console.print(f"Medians. {results.machine()}", style="dim", highlight=False)


def _workload_table(workload: str, outcomes: list[Outcome]) -> Table:
    table = Table(title=_TITLES[workload], title_justify="left", title_style="bold")
    table.add_column("scenario")
    table.add_column("contender")
    for column in _COLUMNS[workload]:
        table.add_column(column.title, justify="right")
    table.add_column("", style="dim")
    previous = ""
    for outcome in outcomes:
        scenario = outcome.case.scenario
        if previous and scenario != previous:
            table.add_section()
        table.add_row("" if scenario == previous else scenario, *_cells(workload, outcome))
        previous = scenario
    return table


def _cells(workload: str, outcome: Outcome) -> Iterator[str]:
    contender = outcome.case.contender
    label = LABELS[contender]
    yield f"[bold]{label}[/bold]" if label.startswith("sojourn") else label
    for column in _COLUMNS[workload]:
        value = outcome.median(column.name)
        yield "–" if value is None else f"{value:,.{column.digits}f}"
    if not outcome.skipped:
        yield _NOTES.get((workload, contender), "")
    elif outcome.rows:
        yield f"{len(outcome.rows)} of {outcome.case.repeats} runs, then: {outcome.skipped}"
    else:
        yield f"skipped: {outcome.skipped}"


def _targets_table(targets: list[Target], quick: bool) -> Table:
    title = "Targets (a quick run: too small to quote)" if quick else "Targets"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("claim")
    table.add_column("goal", justify="right")
    table.add_column("this run", justify="right")
    table.add_column("")
    colours = {"reached": "green", "missed": "red", "not measured": "dim"}
    for target in targets:
        measured = "–" if target.measured is None else f"{target.measured:.2f}{target.unit}"
        verdict = f"[{colours[target.verdict]}]{target.verdict}[/]"
        table.add_row(target.claim, target.goal_text, measured, verdict)
    return table
