"""This source tree beside another one: is anything slower than it was?

    python -m benchmarks --compare ../before/src --only purgatory --repeats 9

Only sojourn's own contenders run, measured by the programs of this tree on both sides. The two
sources take turns in fresh processes, and who goes first changes with every round:

    round    1            2            3
             here there   there here   here there ...

A ratio is what something costs here over what it costs there (for rates the other way round):
above 1 is slower here, or larger. Told are the ratio of the medians, and the smallest and the
largest ratio of a single round, whose two halves ran one right after the other; of wall time and
of processor time. Processor time decides where it is measured: these workloads wait for nothing,
so more wall time alone is the doing of a busy machine. Verdicts:

- slower, faster: the ratio of the medians is beyond the tolerance, and three rounds in four agree;
- unsettled: beyond it, but the rounds do not agree; a quieter machine or more rounds will tell;
- same: within it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks import plan
from benchmarks.bar import bar
from benchmarks.case import ROOT, Outcome
from benchmarks.contenders import LABELS
from benchmarks.figures import FIGURES
from benchmarks.inputs import Inputs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

    from benchmarks.case import Case
    from benchmarks.figures import Figure

_ROUNDS = 7
_AGREE = 0.75  # of the rounds
_COLOURS = {"slower": "red", "unsettled": "yellow", "faster": "green", "same": "dim"}


@dataclass
class Pair:
    """One case on both sides; `here` and `there` have a row for each round."""

    case: Case
    here: Outcome
    there: Outcome

    @property
    def skipped(self) -> str:
        if self.here.skipped:
            return f"not here: {self.here.skipped}"
        return f"not there: {self.there.skipped}" if self.there.skipped else ""


@dataclass(frozen=True)
class Ratio:
    """What something costs here over there: by the medians, and round by round."""

    of_medians: float
    of_rounds: list[float]

    @classmethod
    def between(cls, here: list[float], there: list[float], more_is_better: bool) -> Ratio:
        if more_is_better:
            here, there = there, here
        rounds = [one / other for one, other in zip(here, there, strict=True)]
        return cls(median(here) / median(there), rounds)

    def verdict(self, tolerance: float) -> str:
        if abs(self.of_medians - 1) <= tolerance:
            return "same"
        slower = self.of_medians > 1
        agreeing = sum((ratio > 1) == slower for ratio in self.of_rounds)
        if agreeing < _AGREE * len(self.of_rounds):
            return "unsettled"
        return "slower" if slower else "faster"

    def __str__(self) -> str:
        return f"{self.of_medians:.3f} ({min(self.of_rounds):.2f}–{max(self.of_rounds):.2f})"


@dataclass(frozen=True)
class Comparison:
    """One figure on both sides; `cpu` is None where processor time is not measured."""

    pair: Pair
    figure: Figure
    wall: Ratio
    cpu: Ratio | None
    verdict: str


def compared(pair: Pair, tolerance: float) -> Iterator[Comparison]:
    """The figures that both sides have, and of which a ratio means something."""
    figures = [figure for figure in FIGURES[pair.case.workload] if figure.better]
    shown = set()
    for figure in figures:
        # Processor time is told beside the figure it belongs to, or alone if there is none.
        if figure.name in shown or (wall := _ratio(pair, figure.name, figure.better)) is None:
            continue
        cpu = _ratio(pair, figure.cpu, "less")
        if cpu is not None:
            shown.add(figure.cpu)
        yield Comparison(pair, figure, wall, cpu, (cpu or wall).verdict(tolerance))


def _ratio(pair: Pair, name: str, better: str) -> Ratio | None:
    here, there = pair.here.values(name), pair.there.values(name)
    if not here or not there or min(here + there) <= 0:
        return None
    return Ratio.between(here, there, better == "more")


def compare(options: argparse.Namespace, console: Console) -> int:
    """Run both sides and print the table; 0 if nothing is slower, 1 if so, 2 if it is unsettled."""
    sources = ROOT / "src", options.compare.resolve()
    builds = {_build(source) for source in sources}
    if len(builds) != 1:
        sys.exit("one side is compiled and the other interpreted: build both, or neither")
    size = plan.QUICK if options.quick else plan.FULL
    rounds = options.repeats or (1 if options.quick else _ROUNDS)
    load = os.getloadavg()[0]
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        # Paths of one length: a longer one moves what lies in memory behind it, and tight loops
        # were seen to run a third slower for no other reason.
        here, there = Path(folder, "source-a"), Path(folder, "source-b")
        here.symlink_to(sources[0])
        there.symlink_to(sources[1])
        inputs = Inputs(Path(folder))
        for workload in options.only or plan.OF_THE_CORE:
            with console.status(f"{workload}: drawing the numbers"):
                cases = plan.cases(workload, size, inputs, rounds, options.scenario)
            ours = [
                Pair(case, Outcome(case), Outcome(case))
                for case in cases
                if LABELS[case.contender].startswith("sojourn")
                and case.contender in (options.contender or LABELS)
            ]
            take_turns(ours, here, there, rounds, console)
            pairs += ours

    comparisons = [
        comparison
        for pair in pairs
        if not pair.skipped
        for comparison in compared(pair, options.tolerance / 100)
    ]
    for workload, own in groupby(comparisons, lambda comparison: comparison.pair.case.workload):
        console.print(_table(workload, list(own), rounds))
    for pair in pairs:
        if pair.skipped:
            label = LABELS[pair.case.contender]
            console.print(f"{pair.case.workload}, {pair.case.scenario}, {label}: {pair.skipped}")
    machine = f"{os.cpu_count()} cores, load before the run {load:.1f}, sojourn {builds.pop()}"
    console.print(f"Tolerance {options.tolerance:g} %. {machine}.", style="dim", highlight=False)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "compare.json"
    path.write_text(json.dumps([_as_json(comparison) for comparison in comparisons], indent=1))
    return _status(comparisons, console)


def take_turns(pairs: list[Pair], here: Path, there: Path, rounds: int, console: Console) -> None:
    if not pairs:
        return
    with bar(console) as progress:
        workload = pairs[0].case.workload
        task = progress.add_task("", total=rounds * len(pairs), workload=workload)
        for turn in range(rounds):
            for pair in pairs:
                label = f"{LABELS[pair.case.contender]}, {pair.case.scenario}"
                progress.update(task, description=label)
                sides = [(pair.here, here), (pair.there, there)]
                for outcome, source in sides if turn % 2 == 0 else reversed(sides):
                    if not pair.skipped:
                        outcome.take(pair.case.run_here(source))
                progress.advance(task)
        progress.update(task, description="")


def _build(source: Path) -> str:
    """Whether the sojourn in this folder is compiled."""
    program = "import sojourn; print(sojourn.__file__); print(sojourn.compiled)"
    env = {**os.environ, "PYTHONPATH": str(source)}
    told = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if len(told) != 2 or source not in Path(told[0]).resolve().parents:
        sys.exit(f"no sojourn can be imported from {source}; give the folder that holds sojourn/")
    return "compiled" if told[1] == "True" else "interpreted"


def _table(workload: str, comparisons: list[Comparison], rounds: int) -> Table:
    title = f"{workload}: here ÷ there, {rounds} rounds; above 1 is slower, or larger, here"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("scenario", "contender", "figure"):
        table.add_column(name)
    for name in ("here", "there", "wall ratio", "CPU ratio"):
        table.add_column(name, justify="right")
    table.add_column("")
    previous: Pair | None = None
    for comparison in comparisons:
        pair, figure, verdict = comparison.pair, comparison.figure, comparison.verdict
        head = (pair.case.scenario, LABELS[pair.case.contender].removeprefix("sojourn "))
        table.add_row(
            *(head if pair is not previous else ("", "")),
            figure.title,
            _spelled(pair.here, figure),
            _spelled(pair.there, figure),
            str(comparison.wall),
            str(comparison.cpu or "–"),
            f"[{_COLOURS[verdict]}]{verdict}[/]",
        )
        previous = pair
    return table


def _spelled(outcome: Outcome, figure: Figure) -> str:
    middle = figure.spell(outcome.median(figure.name) or 0.0)
    spread = outcome.spread(figure.name)
    return middle if spread is None else f"{middle} ({'–'.join(map(figure.spell, spread))})"


def _as_json(comparison: Comparison) -> dict[str, Any]:
    case, name = comparison.pair.case, comparison.figure.name
    return {
        "workload": case.workload,
        "scenario": case.scenario,
        "contender": case.contender,
        "figure": name,
        "here": comparison.pair.here.values(name),
        "there": comparison.pair.there.values(name),
        "wall": asdict(comparison.wall),
        "cpu": asdict(comparison.cpu) if comparison.cpu else None,
        "verdict": comparison.verdict,
    }


def _status(comparisons: list[Comparison], console: Console) -> int:
    verdicts = [comparison.verdict for comparison in comparisons]
    slower, unsettled = verdicts.count("slower"), verdicts.count("unsettled")
    others = f"{verdicts.count('faster')} faster, {verdicts.count('same')} same"
    console.print(f"{slower} slower, {unsettled} unsettled, {others}.", highlight=False)
    if slower:
        return 1
    return 2 if unsettled else 0
