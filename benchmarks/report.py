"""The tables a run ends with: medians, their spread, and under which conditions each side ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from benchmarks import conditions
from benchmarks.contenders import LABELS
from benchmarks.figures import FIGURES, TITLES

if TYPE_CHECKING:
    from rich.console import Console

    from benchmarks.case import Outcome
    from benchmarks.figures import Figure
    from benchmarks.results import Results
    from benchmarks.targets import Target


def show(console: Console, results: Results, targets: list[Target]) -> None:
    for workload in TITLES:
        if outcomes := results.of(workload):
            console.print(_workload_table(workload, outcomes))
            contenders = list(dict.fromkeys(outcome.case.contender for outcome in outcomes))
            for sentence in conditions.of(workload, contenders):
                console.print(Padding(Text(sentence, style="dim"), (0, 0, 0, 2)))
            console.print()
    if targets:
        console.print(_targets_table(targets, results.quick))
    console.print(
        f"Medians, in brackets the smallest and the largest run. {results.machine()}",
        style="dim",
        highlight=False,
    )


def _workload_table(workload: str, outcomes: list[Outcome]) -> Table:
    title = f"{TITLES[workload]} ({_runs(outcomes)})"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("scenario")
    table.add_column("contender")
    # A column that nobody has a figure for says nothing: paced runs have one of their own.
    figures = [
        figure
        for figure in FIGURES[workload]
        if any(outcome.values(figure.name) for outcome in outcomes)
    ]
    for figure in figures:
        table.add_column(figure.title, justify="right")
    remarks = any(outcome.skipped for outcome in outcomes)
    if remarks:
        table.add_column("", style="dim")
    previous = ""
    for outcome in outcomes:
        scenario = outcome.case.scenario
        if previous and scenario != previous:
            table.add_section()
        cells: list[Text | str] = [_label(outcome), *(_cell(outcome, figure) for figure in figures)]
        if remarks:
            cells.append(_remark(outcome))
        table.add_row("" if scenario == previous else scenario, *cells)
        previous = scenario
    return table


def _runs(outcomes: list[Outcome]) -> str:
    counts = sorted({len(outcome.rows) for outcome in outcomes if outcome.rows})
    if not counts:
        return "no runs"
    if counts == [1]:
        return "one run"
    return f"{' or '.join(map(str, counts))} runs"


def _label(outcome: Outcome) -> str:
    label = LABELS[outcome.case.contender]
    return f"[bold]{label}[/bold]" if label.startswith("sojourn") else label


def _cell(outcome: Outcome, figure: Figure) -> Text:
    value = outcome.median(figure.name)
    if value is None:
        return Text("–")
    cell = Text(figure.spell(value))
    if (spread := outcome.spread(figure.name)) is not None:
        cell.append(f" ({figure.spell(spread[0])}–{figure.spell(spread[1])})", style="dim")
    return cell


def _remark(outcome: Outcome) -> str:
    if not outcome.skipped:
        return ""
    if outcome.rows:
        return f"{len(outcome.rows)} of {outcome.case.repeats} runs, then: {outcome.skipped}"
    return f"skipped: {outcome.skipped}"


def _targets_table(targets: list[Target], quick: bool) -> Table:
    title = "Targets (a quick run: too small to quote)" if quick else "Targets"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("claim")
    table.add_column("goal", justify="right")
    table.add_column("this run", justify="right")
    table.add_column("")
    colours = {"reached": "green", "missed": "red", "not measured": "dim"}
    for target in targets:
        measured = "–" if target.measured is None else f"{target.measured:,.2f}{target.unit}"
        verdict = f"[{colours[target.verdict]}]{target.verdict}[/]"
        table.add_row(target.claim, target.goal_text, measured, verdict)
    return table
